"""The traces of a project that are not scored yet, as the keys in the store tell: which are complete, and when."""

from collections.abc import Iterator

from msgspec import Struct

from assay.fep.trace_windows.window import WindowPlan
from assay.ports import Store
from assay.traces import span_inbox
from assay.traces.span_inbox import InboxEntry, entry_of, prefix_of

OVERLAP = (
    10_000_000  # microseconds: a request may be stored so long after it came, or its server's clock be late
)
WHOLE = 30.0  # seconds between two looks at all keys, which find what came later still
PAGE = 5_000
SECOND = 1_000_000  # microseconds


class PendingCase(Struct):
    """A trace or a conversation. Times are microseconds since 1970."""

    name: str
    keys: list[str] = []
    size: int = 0
    last: int = 0
    root: int = 0  # when its root came; 0: not yet

    def complete_at(self, plan: WindowPlan) -> int:
        quiet = self.last + plan.quiet * SECOND
        if plan.case == "conversation" or not self.root:
            return quiet
        return min(quiet, self.root + plan.settle * SECOND)


class PendingTraces:
    """A view of the inbox of one project. Keys of a unit in flight are not in it."""

    def __init__(self, tenant: str, plan: WindowPlan) -> None:
        self._tenant, self._plan = tenant, plan
        self._known: set[str] = set()  # keys that were seen and are not deleted
        self._gone: set[str] = set()  # keys that were deleted during a look
        self._cases: dict[str, PendingCase] = {}
        self._conversations: dict[str, str] = {}  # by trace
        self._newest, self._looked = 0, 0.0
        self.counted: list[InboxEntry] = []  # of traces that were not sampled

    async def look(self, store: Store, now: float, *, whole: bool = False) -> None:
        """Read the keys that came since the last look. `now` is monotonic."""
        whole = whole or now - self._looked > WHOLE
        self._gone.clear()
        project = self._plan.project
        after = "" if whole else prefix_of(project, max(1, self._newest - OVERLAP))
        if whole:
            self._looked = now
        while True:
            infos = await store.document_infos(
                self._tenant, span_inbox.KIND, prefix=prefix_of(project), after=after, limit=PAGE
            )
            for info in infos:
                if info.key not in self._known and info.key not in self._gone:
                    self._add(entry_of(info.key))
            if len(infos) < PAGE:
                return
            after = infos[-1].key

    def _add(self, entry: InboxEntry) -> None:
        self._known.add(entry.key)
        self._newest = max(self._newest, entry.received)
        if not entry.trace:
            self.counted.append(entry)
            return
        case = self._case_of(entry)
        case.keys.append(entry.key)
        case.size += entry.size
        case.last = max(case.last, entry.received)
        if entry.has_root:
            case.root = min(case.root or entry.received, entry.received)

    def _case_of(self, entry: InboxEntry) -> PendingCase:
        name = entry.trace
        if self._plan.case == "conversation":
            if entry.conversation:
                self._conversations[entry.trace] = entry.conversation
            name = self._conversations.get(entry.trace, name)
        case = self._cases.get(name)
        if case is None:
            case = self._cases[name] = PendingCase(name)
        if name != entry.trace and (before := self._cases.pop(entry.trace, None)) is not None:
            case.keys += before.keys  # it came before its trace named the conversation
            case.size, case.last = case.size + before.size, max(case.last, before.last)
        return case

    def take_complete(self, now: int, until: int) -> Iterator[PendingCase]:
        """Take the cases that are complete now and were before `until`, those first that came first."""
        complete = [
            case for case in self._cases.values() if case.complete_at(self._plan) <= min(now, until - 1)
        ]
        for case in complete:
            del self._cases[case.name]
            yield case

    def take_counted(self) -> list[InboxEntry]:
        taken, self.counted = self.counted, []
        return taken

    def forget(self, keys: list[str]) -> None:
        """These documents were deleted."""
        self._known.difference_update(keys)
        self._gone.update(keys)

    @property
    def waiting(self) -> int:
        return len(self._cases)
