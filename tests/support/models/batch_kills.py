"""Commands with `--batch` that are killed at a step, on either database, and end as if they had made single calls."""

import asyncio
import json
import os
import re
import signal
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assay.backends.stores.open import open_store
from assay.ports import Run, RunQuery, Store
from assay.ports.batches import BATCHES
from assay.runs.agent_answers import ANSWERS
from support.commands.command import CommandResult
from support.models.batch_server import BatchServer, prompt_of
from support.models.judges import judge
from support.models.provider_server import fitting
from support.waiting import PATIENCE

CASES = 6
TIMES = {"response_time_ms", "evaluated_at", "execution_time_ms", "latency_ms", "step_ms", "at_ms"}
VARYING = {"cost_usd", "known_cost_usd", "attempts", "batch", *TIMES}  # between a batch and single calls
ASKED = "asked.txt"  # has a line for each time that the agent was asked
MARKED = re.compile(r"~[0-9a-f]+~")  # what the agent answers otherwise each time
AGENT = f"""
import secrets

def answer(question, context):
    with open("{ASKED}", "a") as asked:
        asked.write(f"{{question}}, trial {{context.trial}}\\n")
    context.usage(provider="local", model="echo", input_tokens=1, output_tokens=1, cost_usd=0.5)
    return f"{{str(question).upper()}} ~{{secrets.token_hex(8)}}~"
"""
SCORE = ["--checks", "checks.json", "-o", "results.jsonl"]
DATA = ["evaluate", "--contexts", "cases.jsonl", *SCORE]
ASK = ["evaluate", "--cases", "cases.jsonl", "--agent", "agent:answer", "--save", *SCORE]
SUITE = ["run", "suite.json", "--any-agent", "--agent", "agent:answer", "-o", "results.jsonl"]
TURNS = ["run", "turns.json", *SUITE[2:]]
AGAIN = ["run", "--resume", "latest", "--agent", "agent:answer", "-o", "results.jsonl"]
VERBS = {  # the command, and the one that continues it
    "evaluate --save": ([*DATA, "--save"], [*DATA, "--resume"]),
    "evaluate --agent": (ASK, [*ASK, "--resume"]),
    "run": (SUITE, AGAIN),
    "run --trials": ([*TURNS, "--trials", "2"], AGAIN),
}
DECIDES = ["run", "until.json", *SUITE[2:], "--until", "decided", "--min-pass-rate", "0.1"]
COMMANDS = VERBS | {"run --until": (DECIDES, AGAIN)}


def verdict(asked: Any) -> Any:
    """The answer to a prompt, in the form that it asks for: by its text some pass, and some do not."""
    return judged(fitting(asked), zlib.crc32(plain(prompt_of(asked)).encode()) % 2 == 0)


def plain(text: str) -> str:
    """A text without what the agent answers otherwise each time."""
    return MARKED.sub("", text)


def judged(value: Any, passed: bool) -> Any:
    if isinstance(value, dict):
        return {name: judged(one, passed) for name, one in value.items()}
    return passed if isinstance(value, bool) else value


class Killed:
    """One command in a folder of its own, with the database of its runs and a server of batches."""

    def __init__(
        self,
        zygote: Any,
        folder: Path,
        server: BatchServer,
        verb: str,
        kind: str,
        address: str,
        price: float = 1,
    ):
        self._zygote, self._folder, self._server, self._verb = zygote, folder, server, verb
        self._address, self.exported = address, False
        self._recorded: set[str] = set()  # what the agent is not asked any more, as in its file
        self.environ = {**os.environ, "ASSAY_DATABASE_URL": address, "ASSAY_MAX_SUITE_COST_USD": "10000"}
        provider = {"kind": kind, "base_url": server.base_url, "api_key": "sk-canary-7d1f9b3e5a"}
        provider |= {"batch_poll": 0.05, "max_retries": 3}
        lines = ["[providers.judges]", *(f"{key} = {json.dumps(one)}" for key, one in provider.items())]
        lines += [f"prices = {{input = {price}, output = {price}}}", "[models]", 'judge = "judges:m"']
        (folder / "assay.toml").write_text("\n".join(lines))
        (folder / "agent.py").write_text(AGENT)
        (folder / ASKED).touch()
        cases = [{"test_case": {"id": f"c{at}", "input": f"text {at}"}} for at in range(CASES)]
        if verb == "evaluate --save":
            cases = [{**one, "output": {"value": f"text {at}"}} for at, one in enumerate(cases)]
        else:
            cases = [one["test_case"] for one in cases] if verb == "evaluate --agent" else cases
        (folder / "cases.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cases))
        (folder / "checks.json").write_text(json.dumps([judge("Polite? {{$.output.value}}")]))
        (folder / "suite.json").write_text(json.dumps(suite()))
        (folder / "turns.json").write_text(json.dumps(suite(turns=True)))
        (folder / "until.json").write_text(json.dumps(suite(10 * CASES)))

    def live(
        self,
        resume: bool,
        *more: str,
        end: Callable[[int, str, str, str], bool] = lambda number, when, method, path: False,
        sign: signal.Signals = signal.SIGKILL,
        failpoint: str = "",
        batch: bool = True,
    ) -> CommandResult:
        """
        One life of the command, with more options.

        An answer of the agent that was recorded in an earlier life is not asked for again.

        It gets a signal at the first request for which `end(number, when, method, path)` is true: `before` the server
        has it, or `after` its effect and before its answer. It is also killed at a pass of a failpoint of the store.
        """
        arguments, before = [*COMMANDS[self._verb][resume], *more], len(self.asked)
        environ = self.environ | ({"ASSAY_FAILPOINT": failpoint} if failpoint else {})
        if resume and "--agent" in arguments:  # on another machine, which has the store alone
            environ["ASSAY_HOME"] = str(self._folder / "elsewhere")
        ready, number, ended = threading.Event(), 0, False

        def on_request(when: str, method: str, path: str) -> bool:
            nonlocal number, ended
            number += when == "before"
            if ended or not end(number, when, method, path):
                return True
            ended = True
            ready.wait(PATIENCE)
            os.kill(process.pid, sign)
            return sign != signal.SIGKILL

        self._server.on_request = on_request
        arguments += ["--batch"] if batch else []
        process = self._zygote.start(*arguments, folder=self._folder, environ=environ)
        ready.set()
        out, err = process.communicate(timeout=PATIENCE)
        if "expected a run that is not completed" in err:  # it was killed after its end, and has all results
            self.exported = True
            export = ["export", "latest", "-o", "results.jsonl"]
            process = self._zygote.start(*export, folder=self._folder, environ=environ)
            out, err = process.communicate(timeout=PATIENCE)
        again = self._recorded.intersection(self.asked[before:])
        assert not again, "what the agent answered is recorded"
        asyncio.run(self._look())
        if process.returncode == -signal.SIGKILL:
            return Dead(out, err)
        return CommandResult(process.returncode, out, err)

    @property
    def asked(self) -> list[str]:
        return (self._folder / ASKED).read_text().splitlines()

    def single(self, command: Any) -> tuple[int, list[Any]]:
        """The exit code and the results of the command with single calls."""
        arguments = [one.replace("results.jsonl", "single.jsonl") for one in COMMANDS[self._verb][0]]
        environ = self.environ | {"ASSAY_DATABASE_URL": f"sqlite:///{self._folder}/single.db"}
        ended = command(*arguments, folder=self._folder, environ=environ)
        (self._folder / ASKED).write_text("")
        return ended.code, self.results("single.jsonl")

    def results(self, name: str = "results.jsonl") -> list[Any]:
        lines = [json.loads(plain(line)) for line in (self._folder / name).read_text().splitlines()]
        return sorted((without(line) for line in lines), key=lambda one: json.dumps(one["execution_context"]))

    async def _look(self) -> None:
        """What is recorded now. A run of a dead process waits for no lease."""
        store = await open_store(self._address)
        try:
            self.waiting = 0
            for run in await store.runs(RunQuery()):
                if run.holder is not None:
                    await store.release(run.id, run.holder)
                await self._look_at(store, run)
        finally:
            await store.close()

    async def _look_at(self, store: Store, run: Run) -> None:
        trials = run.metadata.get("trials", 1)
        infos = await store.document_infos(run.tenant, ANSWERS, prefix=f"{run.id}/")
        results = await store.chunk_infos(run.id, "results")
        units = [int(info.key.rpartition("/")[2]) for info in infos] + [info.first for info in results]
        self._recorded |= {f"text {unit // trials}, trial {unit % trials}" for unit in units}
        self.waiting += len(infos)
        events = b"".join(event.data for event in await store.events(run.id, limit=10_000))
        batches = b"".join(one.data for one in await store.documents(run.tenant, BATCHES))
        content = MARKED.search(f"{run}{events}{batches}")
        assert content is None, "an answer is content"


class Dead(CommandResult):
    def __init__(self, out: str, err: str) -> None:
        self.code, self.out, self.err = -signal.SIGKILL, out, err


def suite(size: int = CASES, *, turns: bool = False) -> Any:
    """Golden tasks with a judge beside the match, and tasks with a rubric; with `turns`, a user who asks again."""
    polite = judge("Polite? {{$.output.value}}")
    golden = {"kind": "golden", "match": {"strategy": "contains", "value": "TEXT"}}
    rubric = {"kind": "rubric", "rubric": [{"criterion": "is polite", "weight": 1}]}
    tasks: list[Any] = [{"taskId": f"t{at}", "input": f"text {at}"} for at in range(size)]
    for at, task in enumerate(tasks):
        task["expected"] = golden if at % 2 else rubric
    own: Any = {task["taskId"]: {"checks": [polite]} for task in tasks if task["expected"] is golden}
    for at in (1, 2) if turns else ():
        own.setdefault(f"t{at}", {})["turns"] = {"messages": [f"and text {at}"]}
    head = {"suiteId": "local.evals.polite", "version": "1.0.0", "targetAgentId": "local.agents.echo"}
    return head | {"modes": ["golden", "rubric"], "tasks": tasks, "x-assay": {"tasks": own}}


def without(value: Any, names: Sequence[str] = tuple(VARYING)) -> Any:
    if isinstance(value, dict):
        return {name: without(one, names) for name, one in value.items() if name not in names}
    return [without(one, names) for one in value] if isinstance(value, list) else value
