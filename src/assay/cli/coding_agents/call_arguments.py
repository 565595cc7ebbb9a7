"""The arguments of the tools of `assay mcp`. They are those of the command, by the same names."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from assay.cli.render.failing_cases import CASES, MAX_BYTES

LEAST_BYTES, MOST_BYTES = 3_000, 10_000_000
Word = Annotated[str, Meta(min_length=1, max_length=1_000)]
RunReference = Annotated[
    Word,
    Meta(description="A run: its id, its name, `latest` or `previous`."),
]
ResultReference = Annotated[
    Word,
    Meta(
        description="A run: its id, its name, `latest` or `previous`; or a result file that `assay evaluate -o` wrote."
    ),
]
MaxBytes = Annotated[
    int,
    Meta(
        ge=LEAST_BYTES,
        le=MOST_BYTES,
        description="At most this many bytes of answer. Longer texts are cut, with a mark.",
    ),
]


class ValidateArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `validate`."""

    files: Annotated[
        list[Word],
        Meta(
            min_length=1,
            max_length=100,
            description="Suites, checks, cases, policies, packs or settings.",
        ),
    ]
    kind: Annotated[
        Literal["suite", "checks", "cases", "request", "policy", "pack", "settings"] | None,
        Meta(description="What the files are. By default it is seen from each file."),
    ] = None
    max_bytes: MaxBytes = MAX_BYTES


class RunArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `run`."""

    suite: Annotated[Word | None, Meta(description="Suite file, or a suite of an installed pack.")] = None
    agent: Annotated[
        Word | None,
        Meta(description="module:function, file.py:function, a URL, or the id of an agent in assay.toml."),
    ] = None
    only: Annotated[
        Word | None,
        Meta(
            description="`failing`: only the tasks that did not pass when they last ran. failing:RUN: in that run."
        ),
    ] = None
    tasks: Annotated[
        list[Word], Meta(max_length=1_000, description="Only the tasks with these ids, and those of `only`.")
    ] = []
    name: Annotated[Word | None, Meta(description="A name for the run, to refer to it later.")] = None
    resume: Annotated[
        RunReference | None,
        Meta(
            description="Complete this run, which was interrupted or has unmeasured tasks. Without a suite."
        ),
    ] = None
    trials: Annotated[int, Meta(ge=1, le=100, description="How often each task is tried.")] = 1
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The first N tasks only."),
    ] = None
    judge: Annotated[Word | None, Meta(description="Model that judges rubrics, PROVIDER:MODEL.")] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)] | None,
        Meta(description="Seconds that the agent has for a task."),
    ] = None
    max_cost: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Start no more tasks once this many US dollars are spent."),
    ] = None


class FailuresArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `failures`."""

    run: RunReference = "latest"
    check: Annotated[Word | None, Meta(description="Only the check with this name or type.")] = None
    limit: Annotated[int, Meta(ge=1, le=100_000, description="At most this many cases.")] = CASES
    max_bytes: MaxBytes = MAX_BYTES


class ShowCaseArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `show_case`."""

    run: RunReference
    case: Annotated[Word, Meta(description="The id of a case or of a task.")]
    max_bytes: MaxBytes = MAX_BYTES


class TryCheckArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `try_check`."""

    check: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100_000)] | dict[str, Any] | list[Any],
        Meta(
            description="A check, such as {'contains': ['Paris']}, several in a list, or the name of a file of checks."
        ),
    ]
    output: Annotated[Any, Meta(description="What the check looks at.")]
    input: Annotated[Any, Meta(description="The input of the case, if the check reads it.")] = ""
    expected: Annotated[
        Any, Meta(description="What was expected; a check can read it as $.test_case.expected.")
    ] = None
    max_bytes: MaxBytes = MAX_BYTES


class CompareArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `compare`."""

    baseline: ResultReference
    run: ResultReference
    metric: Annotated[
        Word | None,
        Meta(description="What is compared: passed, score, cost_usd, judges_usd, latency_ms, or a check."),
    ] = None
    margin: Annotated[
        float | None, Meta(description="A difference below this does not matter: it may be `equivalent`.")
    ] = None
    limit: Annotated[int, Meta(ge=0, le=1_000, description="How many changed cases are listed.")] = CASES
    max_bytes: MaxBytes = MAX_BYTES


class GateArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `gate`."""

    run: ResultReference
    baseline: Annotated[ResultReference | None, Meta(description="What the run must not regress from.")] = (
        None
    )
    policy: Annotated[Word | None, Meta(description="File with the rules.")] = None
    preset: Annotated[
        Literal["strict", "balanced", "lenient"] | None,
        Meta(description="How to take a drop that may be chance. Default: balanced."),
    ] = None
    min_mean: Annotated[float | None, Meta(description="Lowest mean of the metric that is good enough.")] = (
        None
    )
    margin: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="A difference below this does not matter."),
    ] = None
    metric: Annotated[Word | None, Meta(description="What decides, as for `compare`.")] = None
    max_unmeasured: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="How many cases may be unmeasured. Default: 0."),
    ] = None
    max_bytes: MaxBytes = MAX_BYTES


class ListChecksArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of `list_checks`."""

    check: Annotated[
        Word | None,
        Meta(description="The type of one check: then with the schemas of its arguments and its answer."),
    ] = None
    max_bytes: MaxBytes = MAX_BYTES
