"""`assay schema NAME`: the JSON Schema of a noun of the protocol."""

from typing import Annotated

import typer

from assay.cli.say import give, tell
from assay.errors import UsageError

HELP = "Print the JSON Schema of a noun of the protocol; without a name, list them."


def schema(
    name: Annotated[str, typer.Argument(help="A noun, such as TestCaseResult.", metavar="[NAME]")] = "",
) -> None:
    from assay.protocol.schemas import NOUNS, schema_of  # a lazy door: the help needs none of it

    if not name:
        for noun in NOUNS:
            tell(noun)
    elif name not in NOUNS:
        raise UsageError(f"no noun {name!r}; there are {', '.join(NOUNS)}")
    else:
        give(schema_of(name))
