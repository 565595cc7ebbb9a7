"""The tools of `assay mcp`: each calls the command, and answers with what it says."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from assay.cli.coding_agents.call_answers import (
    Answer,
    CaseChange,
    CaseFailure,
    CaseTrial,
    CompareAnswer,
    Difference,
    FailuresAnswer,
    GateAnswer,
    ListChecksAnswer,
    RunAnswer,
    ShowCaseAnswer,
    TaskResult,
    ToolCall,
    TryCheckAnswer,
    ValidateAnswer,
    fit,
)
from assay.cli.coding_agents.call_arguments import (
    MOST_BYTES,
    CompareArguments,
    FailuresArguments,
    GateArguments,
    ListChecksArguments,
    RunArguments,
    ShowCaseArguments,
    TryCheckArguments,
    ValidateArguments,
)
from assay.cli.coding_agents.command_words import in_words_of, options_of, path_of_agent, refuse_unwritable
from assay.cli.coding_agents.job import LIST_CHECKS, ON_SERVER
from assay.cli.coding_agents.jobs import CallRefused, Ended, JobRunner, Progress
from assay.cli.coding_agents.tool_table import TOOLS, Tool
from assay.errors.exit_codes import NOT_PASSED, PASSED
from assay.errors.nearest import did_you_mean
from assay.protocol.json_types import JSON
from assay.protocol.validation_messages import problems_in

FAILING = 20  # tasks that the answer of `run` lists
MESSAGES, MESSAGE = 10, 600  # messages of an answer, and the characters of each
RESERVE = 500  # bytes of an answer beside the document of the command
CHECK_FILES = (".yaml", ".yml", ".json")
OUTCOMES = {PASSED: "passed", NOT_PASSED: "failed"}


class Tools:
    """Answers calls. `allowed` are the folders that paths may be in; with `server`, runs are there."""

    def __init__(
        self,
        jobs: JobRunner,
        allowed: Sequence[Path],
        *,
        read_only: bool,
        server: str | None = None,
        key_file: str | None = None,
    ) -> None:
        self._jobs, self._allowed = jobs, allowed
        self._server, self._key_file = server, key_file
        self.offered = {tool.name: tool for tool in TOOLS if not (read_only and tool.acts)}
        self._read_only = read_only

    async def call(self, name: str, arguments: Any, progress: Progress | None = None) -> bytes:
        """The answer as JSON. CallRefused: why there is none."""
        tool = self._tool(name)
        if problems := problems_in(arguments, tool.arguments):
            raise CallRefused("\n".join(f"{name}: {problem}" for problem in problems[:10]))
        given: Any = msgspec.convert(arguments, tool.arguments)
        refuse_unwritable(name, arguments)
        method: Callable[[Any, Progress | None], Awaitable[Answer]] = getattr(self, f"_{name}")
        try:
            answer = await method(given, progress)
        except CallRefused as refusal:
            raise CallRefused(in_words_of(tool, str(refusal))) from None
        answer.messages = [in_words_of(tool, one)[:MESSAGE] for one in answer.messages[:MESSAGES]]
        most = getattr(given, "max_bytes", MOST_BYTES)
        wider = {**arguments, "max_bytes": min(MOST_BYTES, most * 10)}
        return fit(answer, most, ToolCall(name, wider))

    def _tool(self, name: str) -> Tool:
        tool = self.offered.get(name)
        if tool is not None:
            return tool
        there = f"there are {', '.join(self.offered)}"
        if self._read_only and any(one.name == name for one in TOOLS):
            raise CallRefused(f"{name}: expected a server without --read-only, which leaves it out; {there}")
        near = did_you_mean(name, self.offered) or there
        raise CallRefused(f"expected the name of a tool, got {name[:100]!r}; {near}")

    # One method for each tool.

    async def _validate(self, given: ValidateArguments, progress: Progress | None) -> Answer:
        for at, file in enumerate(given.files):
            self._inside(f"files[{at}]", file)
        ended = await self._jobs.run(
            "validate", *options_of({"as": given.kind}), "--json", "--", *given.files
        )
        files = _document(ended)["files"]
        return ValidateAnswer(valid=all(one["valid"] for one in files), files=files, messages=ended.messages)

    async def _run(self, given: RunArguments, progress: Progress | None) -> Answer:
        self._inside("suite", given.suite)
        self._inside("agent", path_of_agent(given.agent))
        options = options_of(
            {
                "agent": given.agent,
                "only": [*([] if given.only is None else [given.only]), *given.tasks],
                "name": given.name,
                "resume": given.resume,
                "trials": given.trials if given.trials != 1 else None,
                "limit": given.limit,
                "judge": given.judge,
                "timeout": given.timeout,
                "max-cost": given.max_cost,
            }
        )
        suite = [] if given.suite is None else ["--", given.suite]
        options += options_of({"server": self._server, "key-file": self._key_file})
        ended = await self._jobs.run("run", *options, "--json", *suite, survives=True, progress=progress)
        outcome = OUTCOMES.get(ended.code, "not measured")
        if ended.document is None:
            if ended.code != PASSED:
                raise CallRefused(_text(ended))
            return RunAnswer(exit_code=ended.code, outcome=outcome, messages=ended.messages)
        report = ended.document["report"]
        failing = [
            TaskResult(one["taskId"], UNSET if one.get("score") is None else one["score"])
            for one in report["tasks"]
            if one.get("passed") is not True
        ]
        return RunAnswer(
            exit_code=ended.code,
            outcome=outcome,
            run=ended.document["runId"],
            status=ended.document["status"],
            score=report["score"],
            low=report["low"],
            high=report["high"],
            tasks=report["total"],
            passed=report["passedCount"],
            part=f"{report['total']} of {report['suiteTotal']} tasks" if report["suiteTotal"] else "",
            cost_usd=report["costUsd"],
            failing=failing[:FAILING],
            more_failing=max(0, len(failing) - FAILING),
            messages=ended.messages,
            rest=ToolCall("failures", {"run": ended.document["runId"]}) if failing else UNSET,
        )

    async def _failures(self, given: FailuresArguments, progress: Progress | None) -> Answer:
        options = options_of(
            {"limit": given.limit, "max-bytes": given.max_bytes - RESERVE, "check": given.check}
        )
        there = {"run": given.run, "check": given.check, "limit": given.limit}
        there["max_bytes"] = given.max_bytes - RESERVE
        words = ("show", "--failing", "--json", *options, "--", given.run)
        ended = await self._read("failures", there, *words)
        found = _document(ended)
        if "count" not in found:  # its content was erased
            raise CallRefused(f"{given.run}: {found.get('erased') or 'it has no cases that are stored'}")
        answer = FailuresAnswer(
            run=found["run"],
            status=found["status"],
            count=found["count"],
            cases=[msgspec.convert(one, CaseFailure) for one in found.get("cases", [])],
            more=found.get("more", 0),
            messages=ended.messages,
        )
        cut = [one.data.id for one in answer.cases if one.cut]
        if answer.more:
            wider: dict[str, Any] = {"run": answer.run, "limit": len(answer.cases) + answer.more}
            if len(answer.cases) < given.limit:  # the bytes left some out, not the limit
                wider["max_bytes"] = min(MOST_BYTES, given.max_bytes * 10)
            answer.rest = ToolCall("failures", wider)
        elif cut:
            answer.rest = ToolCall("show_case", {"run": answer.run, "case": cut[0]})
        return answer

    async def _show_case(self, given: ShowCaseArguments, progress: Progress | None) -> Answer:
        options = options_of({"case": given.case, "limit": 100})
        ended = await self._read("show_case", given, "show", "--json", *options, "--", given.run)
        found = _document(ended)
        return ShowCaseAnswer(
            run=found.get("runId") or found.get("operation_id") or given.run,
            status=str(found.get("status", "")),
            case=given.case,
            trials=[
                CaseTrial(
                    failing=one["failing"],
                    trial=one.get("trial", UNSET),
                    score=one.get("score", UNSET),
                    data=_content_of(one),
                )
                for one in found.get("cases", [])
            ],
            messages=ended.messages,
        )

    async def _try_check(self, given: TryCheckArguments, progress: Progress | None) -> Answer:
        check = given.check if isinstance(given.check, str) else msgspec.json.encode(given.check).decode()
        if isinstance(given.check, str) and check.endswith(CHECK_FILES):
            self._inside("check", check)
        elif isinstance(given.check, str) and ":" not in check and given.expected is not None:
            check = msgspec.json.encode({check: "$.test_case.expected"}).decode()
        case = {"input": given.input, "output": given.output}
        case |= {} if given.expected is None else {"expected": given.expected}
        ended = await self._jobs.run(
            "try", "--case=-", "--json", "--", check, stdin=msgspec.json.encode(case)
        )
        found = _document(ended)
        results = found["data"]["result"]["check_results"]
        return TryCheckAnswer(
            passed={PASSED: True, NOT_PASSED: False}.get(ended.code),
            data={"reasons": found["data"]["reasons"], "results": [_result_of(one) for one in results]},
            messages=ended.messages,
        )

    async def _compare(self, given: CompareArguments, progress: Progress | None) -> Answer:
        self._inside("baseline", given.baseline)
        self._inside("run", given.run)
        options = options_of({"metric": given.metric, "margin": given.margin, "limit": given.limit})
        words = ("compare", "--json", *options, "--", given.baseline, given.run)
        ended = await self._read("compare", given, *words)
        found = _document(ended)
        pair = found["comparisons"][0]
        changes: list[JSON] = pair.get("changes", [])
        return CompareAnswer(
            metric=found["metric"],
            comparison=_difference(pair),
            changes=[
                CaseChange(
                    id=one["id"],
                    before=one["before"],
                    after=one["after"],
                    better=one["better"],
                    data={"reason_before": "", "reason_after": "", **one.get("data", {})},
                )
                for one in changes
            ],
            more_changes=pair["better"] + pair["worse"] - len(changes),
            messages=ended.messages,
        )

    async def _gate(self, given: GateArguments, progress: Progress | None) -> Answer:
        self._inside("run", given.run)
        self._inside("baseline", given.baseline)
        self._inside("policy", given.policy)
        options = options_of(
            {
                "baseline": given.baseline,
                "policy": given.policy,
                "preset": given.preset,
                "min-mean": given.min_mean,
                "margin": given.margin,
                "metric": given.metric,
                "max-unmeasured": given.max_unmeasured,
            }
        )
        ended = await self._read("gate", given, "gate", "--json", *options, "--", given.run)
        found = _document(ended)
        pair = found["comparison"]
        return GateAnswer(
            outcome=found["outcome"],
            exit_code=found["exit_code"],
            reason=found["reason"],
            run=found["run"],
            mean=found["level"]["mean"],
            failing=found["failing"],
            more_failing=found["more_failing"],
            newly_failing=found["newly_failing"]["ids"],
            findings=found["findings"],
            comparison=UNSET if pair is None else _difference(pair),
            messages=[*ended.messages, *found["not_looked_for"]],
        )

    async def _list_checks(self, given: ListChecksArguments, progress: Progress | None) -> Answer:
        ended = await self._jobs.run(LIST_CHECKS, *([] if given.check is None else [given.check]))
        return ListChecksAnswer(checks=_document(ended), messages=ended.messages)

    async def _read(self, name: str, given: Any, *words: str) -> Ended:
        """Read a run with the command, or from the server if there is one."""
        if self._server is None:
            return await self._jobs.run(*words)
        job = {"server": self._server, "key_file": self._key_file, "arguments": given}
        return await self._jobs.run(ON_SERVER, name, stdin=msgspec.json.encode(job))

    def _inside(self, place: str, path: str | None) -> None:
        """Refuse a path that leads out of the folders that are allowed."""
        if path is None:
            return
        try:
            whole = (self._allowed[0] / path).resolve()
        except (OSError, RuntimeError, ValueError):
            raise CallRefused(f"{place}: expected a path, got {path[:100]!r}") from None
        if not any(whole.is_relative_to(folder) for folder in self._allowed):
            raise CallRefused(
                f"{place}: expected a path in {', '.join(map(str, self._allowed))}, got {path[:200]!r}; `assay mcp "
                "--allow DIR` allows another folder"
            )


# Reads what the command said.


def _document(ended: Ended) -> Any:
    if ended.document is None:
        raise CallRefused(_text(ended))
    return ended.document


def _text(ended: Ended) -> str:
    lines = [one[:MESSAGE] for one in ended.messages[-MESSAGES:]]
    return "\n".join(lines) or f"the command ended with exit code {ended.code} and no message"


def _difference(pair: JSON) -> Difference:
    result = pair["result"]
    return Difference(
        baseline=pair["baseline"],
        run=pair["run"],
        verdict=result["verdict"],
        before=result["before"],
        after=result["after"],
        difference=result["difference"],
        low=result["low"],
        high=result["high"],
        cases=result["cases"],
        better=pair["better"],
        worse=pair["worse"],
        unchanged=pair["unchanged"],
        unmeasured=pair["unmeasured"]["count"],
        only_in_baseline=pair["only_in_baseline"]["count"],
        only_in_run=pair["only_in_run"]["count"],
        more_to_show=pair.get("more_to_show"),
        notes=list(pair.get("notes", ())),
    )


def _content_of(case: JSON) -> JSON:
    """The content of one trial: each value once."""
    data = case["data"]
    if "result" not in data:
        return {"error": data.get("reason", "")}
    context = data["result"]["execution_context"]
    given, output = context["test_case"], context["output"]
    content: JSON = {name: given[name] for name in ("input", "expected") if name in given}
    content |= {"got": output["value"]} if "value" in output else {}
    content |= {"metadata": output["metadata"]} if output.get("metadata") else {}
    content["reasons"] = data["reasons"]
    content["results"] = [_result_of(one) for one in data["result"]["check_results"]]
    return content | {
        name: data[name] for name in ("checks", "memory", "trajectory", "judge") if name in data
    }


def _result_of(result: JSON) -> JSON:
    kept = ("check_type", "status", "results", "error")
    return {name: result[name] for name in kept if result.get(name) is not None}
