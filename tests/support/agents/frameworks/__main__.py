"""Runs the contract against one framework, and prints a line of JSON for each row: its name, and its traceback or ""."""

import asyncio
import importlib
import json
import sys
import traceback
import warnings

from support.agents.frameworks import contract
from support.agents.frameworks.contract import Kit
from support.models.scripted_chat import ScriptedChat


def main(framework, *only):
    warnings.simplefilter("ignore")  # of the framework's own packages
    module = importlib.import_module(f"support.agents.frameworks.kits.{framework.replace('-', '_')}")
    rows = {**contract.ROWS, **getattr(module, "ROWS", {})}
    for name, row in rows.items():
        if only and name not in only:
            continue
        failure = ""
        try:
            with ScriptedChat() as model:
                kit = Kit(framework, module, model)
                asyncio.run(asyncio.wait_for(row(kit), contract.PATIENCE))
        except BaseException:  # noqa: BLE001  # a row may end in any way
            failure = traceback.format_exc()
        sys.stdout.write(json.dumps({"row": name, "failure": failure}) + "\n")


main(*sys.argv[1:])
