"""The options of the mark `assay`, and what marks and data files share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct

from assay.pytest_plugin.case_verdict import Bar, CheckMode, DecideBy, PassMode
from assay.pytest_plugin.outcome import CASE, CLAIMS

MAX_SAMPLES = 100


CHOICES = {
    "decide_by": get_args(DecideBy),
    "pass_mode": get_args(PassMode),
    "check_mode": get_args(CheckMode),
}

TEXTS = (
    ("suite", str | Path, "the name of a file with a suite"),
    ("judge", str, "the name of a model, PROVIDER:MODEL"),
)


RATES = ("min_pass_rate", "success_threshold", "pass_threshold")  # names of one number


class MarkOptions(Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the mark."""

    cases: Any = None
    test_cases: Any = None
    checks: Any = None
    agent: Any = None  # an object or its name; the marked function is then not called
    samples: int = 1
    min_pass_rate: float | None = None
    success_threshold: float | None = None
    pass_threshold: float | None = None
    decide_by: DecideBy | None = None
    pass_mode: PassMode | None = None
    check_mode: CheckMode | None = None
    suite: Any = None
    judge: str | None = None

    @property
    def rate(self) -> float | None:
        """The share of samples that must pass, if the mark says it."""
        return next((one for name in RATES if (one := getattr(self, name)) is not None), None)

    @property
    def bar(self) -> Bar:
        return Bar(
            min_pass_rate=1.0 if self.rate is None else self.rate,
            decide_by=self.decide_by or "estimate",
            check_mode=self.check_mode or "all",
        )


def parametrize_columns(metafunc: pytest.Metafunc, columns: Mapping[str, list[Any]], ids: list[str]) -> None:
    """Parametrize with the columns. The first one is not a parameter of the function."""
    metafunc.fixturenames.append(CASE)
    metafunc.parametrize(list(columns), list(zip(*columns.values(), strict=True)), ids=ids)


def claim(config: pytest.Config, path: Path) -> None:
    """The file is the data of a mark: it has no items of its own."""
    config.stash.setdefault(CLAIMS, set()).add(path.resolve())


NO_AGENT = (
    "{name} has no outputs and no agent answers it. Name an agent with --assay-agent module:function or with the ini option "
    "assay_agent, or mark a function with @pytest.mark.assay({argument}='{name}'). The ini option assay_files = false turns the "
    "collection of data files off."
)


def agent_option(config: pytest.Config) -> str:
    """The agent that the command line or the ini file names, or ""."""
    return config.getoption("--assay-agent") or config.getini("assay_agent")
