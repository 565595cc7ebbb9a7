"""Which cases of a run `assay show` prints, and the refusal of a case or a check that the run does not have."""

import difflib

from msgspec import Struct

from assay.cli.show_case import ShownCase
from assay.errors import UsageError
from assay.protocol.json_types import JSON
from assay.results.check_names import result_label
from assay.results.reasons import is_failing

CASES = 5  # that are shown without --limit
NAMES = 10  # ids that a refusal lists
MAX_IDS = 1_000  # that are searched for one that is spelled alike


class ShowOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay show`."""

    failed: bool = False
    case: str | None = None  # the id of a case or of a task
    check: str | None = None  # the name or the type of a check
    limit: int | None = None
    ks: tuple[int, ...] = ()  # --k
    json: bool = False

    @property
    def selects(self) -> bool:
        return self.failed or self.case is not None or self.check is not None or bool(self.ks)


class Selection:
    """
    The cases to show: those that did not pass first, then the others, each in the order of the run, up to the limit.
    """

    def __init__(self, options: ShowOptions) -> None:
        self._options = options
        self._limit = options.limit or CASES
        self._failing: list[ShownCase] = []
        self._others: list[ShownCase] = []
        self.total = 0
        self._matching = {True: 0, False: 0}
        self._labels: dict[str, None] = {}
        self._types: set[str] = set()
        self._ids: dict[str, None] = {}
        self._exists = False

    def add(self, case: ShownCase) -> None:
        options = self._options
        checks: list[JSON] = [*case.result["check_results"], *case.beside] if case.result else []
        self.total += 1
        for check in checks:
            self._labels.setdefault(result_label(check))
            self._types.add(check["check_type"])
        if len(self._ids) < MAX_IDS:
            self._ids.setdefault(case.id)
        if options.case is not None and case.id != options.case:
            return
        self._exists = True
        failing = case.failing
        if options.check is not None:
            named = [check for check in checks if options.check in (result_label(check), check["check_type"])]
            if not named:
                return
            failing = any(map(is_failing, named))
        if options.failed and not failing:
            return
        self._matching[failing] += 1
        cases = self._failing if failing else self._others
        if len(cases) < self._limit:
            cases.append(case)

    @property
    def cases(self) -> list[ShownCase]:
        return [*self._failing, *self._others][: self._limit]

    @property
    def more(self) -> tuple[int, int]:
        """How many cases that match are not shown: those that did not pass, and the others."""
        failing = min(len(self._failing), self._limit)
        return self._matching[True] - failing, self._matching[False] - (len(self.cases) - failing)

    def refuse_unknown(self, run: str, noun: str) -> None:
        """Refuse a case or a check that the run does not have, and say what it has."""
        case, check = self._options.case, self._options.check
        if case is not None and not self._exists:
            close = difflib.get_close_matches(case, list(self._ids), 3)
            more = " …" if len(self._ids) > NAMES else ""
            ids = f"its {noun}s: {', '.join(list(self._ids)[:NAMES])}{more}" if self._ids else "it has none"
            hint = f"did you mean {' or '.join(close)}?" if close else ids
            raise UsageError(f"{run} has no {noun} {case!r}; {hint}")
        if check is not None and check not in self._types and check not in self._labels:
            names = f"its checks: {', '.join(self._labels)}" if self._labels else "it has none"
            raise UsageError(f"{run} has no check {check!r}; {names}")
