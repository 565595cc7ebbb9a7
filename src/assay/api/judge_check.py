"""`assay.judge_check`: how far a judge agrees with people's labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay import settings
from assay.api.arguments import check_arguments
from assay.api.judge_source import JudgeQuery, open_judge
from assay.api.sources import Results
from assay.comparison.labels import LabelSource, mapped_labels, read_labels
from assay.concurrency.event_loop import run_to_end
from assay.errors import UsageError
from assay.fep.planning.plan import is_sequence
from assay.results.judge_check import JudgeReport
from assay.results.judge_rows import judge_rows
from assay.results.notebook_html import page, paragraph, table
from assay.terminal import count_of, one_line

Labels = str | Mapping[Any, Any]


class JudgeCheck(JudgeReport, frozen=True, kw_only=True):
    """What the labels of people say about a judge, as `assay judge check --json` prints it."""

    def __repr__(self) -> str:
        """A summary that fits a screen, in the words of the command."""
        rows = (f"  {name}: {line}" if name else f"    {line}" for name, line in judge_rows(self, "case", ""))
        return "\n".join(one_line(line) for line in (self._heading, *rows))

    def _repr_html_(self) -> str:
        """What a notebook shows: how far the judge agrees with people, where it does not, and what that corrects."""
        rows = list(judge_rows(self, "case", ""))
        return page([paragraph(self._heading, strong=True), table(("", ""), rows, len(rows))])

    @property
    def _heading(self) -> str:
        return f"JudgeCheck {self.judge}: {count_of(self.judged, 'case')}, {self.labelled:,} with labels"


def judge_check(
    results: Results,
    labels: Labels | Sequence[Labels] = (),
    *,
    check: str | None = None,
    seed: int | None = None,
    bar: float | None = None,
    tenant: str | None = None,
) -> JudgeCheck:
    """
    Hold the judge of an evaluation against the labels of people, of one annotator or of several.

        checked = assay.judge_check(result, ["human_a", "human_b"])

    `results` is what `compare` takes. Labels are a member of the cases, such as a column of the input, a path, a file
    (`labels.csv`, `labels.csv:human_a`), or a dictionary from the id of a case to its label. `check`, `seed` and `bar`
    are the options of `assay judge check`. Without labels, a stored run is held against those of `assay annotate`.
    """
    check_arguments(check=check, seed=seed, bar=bar, tenant=tenant)
    given: list[Any] = list(labels) if is_sequence(labels) else [labels]
    limits = settings.load().limits
    read = [_labels(one, at, limits) for at, one in enumerate(given)]
    query = JudgeQuery(labels=read, check=check, bar=bar, tenant=tenant)

    async def work() -> JudgeReport:
        async with open_judge(results, query) as source:
            return await source.check(seed)

    found = run_to_end(work)
    return JudgeCheck(**{name: getattr(found, name) for name in found.__struct_fields__})


def _labels(labels: Any, at: int, limits: Any) -> LabelSource:
    if isinstance(labels, Mapping):
        return mapped_labels(f"labels[{at}]", labels)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(labels, str):
        return read_labels(labels, limits)
    raise UsageError(f"labels[{at}]: expected a member of the cases, a file or a dictionary by case id")
