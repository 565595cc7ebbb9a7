"""Admission control: counts requests, runs, bytes and streams by tenant, and refuses those over a limit (FEP-40)."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress

from assay.errors import RateLimited, TooLarge, Unavailable
from assay.runs.executor import RunExecutor
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.worker_group import BODY_BYTES, REQUESTS, RUNS, STREAMS, WorkerMember


class AdmissionControl:
    """
    The counts of one process. Every count goes down again, however its request ends.

    With a `member`, the limits hold for all workers together: a count goes up first, and down again if it was too much.
    """

    def __init__(
        self, serving: ServerLimits, executor: RunExecutor, member: WorkerMember | None = None
    ) -> None:
        self._serving, self._executor, self.member = serving, executor, member
        self.requests = self.streams = self.body_bytes = 0
        self.stopping = False
        self.requests_of: Counter[str] = Counter()
        self.streams_of: Counter[str] = Counter()
        self.body_bytes_of: Counter[str] = Counter()
        self._tenant_counts = {
            REQUESTS: self.requests_of,
            STREAMS: self.streams_of,
            BODY_BYTES: self.body_bytes_of,
        }
        self._starting: Counter[str] = Counter()
        if member is not None:
            executor.on_change = self._on_change

    def reservation(self) -> "Reservation":
        return Reservation(self, self._serving)

    @contextmanager
    def reserve_run(self, tenant: str) -> Generator[None]:
        """Count a run that is being stored. Once it has started, the executor counts it."""
        self.check_open()
        limit, own = self._serving.max_runs, self._serving.max_tenant_runs
        self._starting[tenant] += 1
        try:
            self._publish_runs(tenant)
            if self._executor.active_runs + self._starting.total() + self.others(RUNS) > limit:
                raise RateLimited(
                    f"{limit} runs are in flight, which is the limit (ASSAY_MAX_RUNS)", retry_after=2
                )
            here = self._executor.active_runs_of(tenant) + self._starting[tenant]
            if here + self.tenant_others(tenant, RUNS) > own:
                raise RateLimited(
                    f"{own} runs of this tenant are in flight, which is the limit (ASSAY_MAX_TENANT_RUNS)",
                    retry_after=2,
                    scope="tenant",
                )
            yield
        finally:
            decrease(self._starting, tenant, 1)
            self._on_change(tenant)

    def _on_change(self, tenant: str) -> None:
        with suppress(RateLimited):  # an adopted run is executed in any case
            self._publish_runs(tenant)

    def _publish_runs(self, tenant: str) -> None:
        if self.member is None:
            return
        executor, total, of_tenant = self._executor, self._starting.total(), self._starting[tenant]
        if not executor.counts_store:
            total, of_tenant = total + executor.active_runs, of_tenant + executor.active_runs_of(tenant)
        self.member.publish(RUNS, total)
        self.member.publish_tenant(tenant, RUNS, of_tenant)

    def others(self, column: int) -> int:
        """What the other workers of this server count."""
        return 0 if self.member is None else self.member.others(column)

    def tenant_others(self, tenant: str, column: int) -> int:
        return 0 if self.member is None else self.member.tenant_others(tenant, column)

    def add(self, column: int, amount: int) -> int:
        """Change a count, and return what all workers count."""
        if column == REQUESTS:
            count = self.requests = self.requests + amount
        elif column == STREAMS:
            count = self.streams = self.streams + amount
        else:
            count = self.body_bytes = self.body_bytes + amount
        if self.member is None:
            return count
        self.member.publish(column, count)
        return count + self.member.others(column) if amount > 0 else count

    def add_tenant(self, tenant: str, column: int, amount: int) -> int:
        """Change a count of a tenant, and return what all workers count of it."""
        counts = self._tenant_counts[column]
        count = counts[tenant] + amount
        if self.member is not None:
            self.member.publish_tenant(tenant, column, count)  # before anything else, because it may refuse
        counts[tenant] = count
        if not count:  # otherwise the table would keep the name of every tenant there ever was
            del counts[tenant]
        if self.member is None:
            return count
        return count + self.member.tenant_others(tenant, column) if amount > 0 else count

    def check_open(self) -> None:
        if self.stopping or self._executor.closing:
            raise Unavailable(
                "the server is stopping and accepts no new work", retry_after=5, reason="stopping"
            )


class Reservation:
    """The share of one request in the counts. `release` returns all of it, however the request ends."""

    __slots__ = ("_body_bytes", "_is_counted", "_load", "_serving", "_streams", "_tenant")

    def __init__(self, load: AdmissionControl, serving: ServerLimits) -> None:
        self._load, self._serving = load, serving
        self._is_counted = self._streams = False
        self._tenant: str | None = None
        self._body_bytes = 0

    def reserve_request(self) -> None:
        limit = self._serving.max_requests
        self._is_counted = True
        if self._load.add(REQUESTS, 1) > limit:
            self._is_counted = False
            self._load.add(REQUESTS, -1)
            message = f"{limit} requests are in flight, which is the limit (ASSAY_MAX_REQUESTS)"
            raise RateLimited(message, retry_after=1)

    def reserve_tenant_request(self, tenant: str) -> None:
        limit = self._serving.max_tenant_requests
        if self._load.add_tenant(tenant, REQUESTS, 1) > limit:
            self._load.add_tenant(tenant, REQUESTS, -1)
            message = f"{limit} requests of this tenant are in flight, which is the limit (ASSAY_MAX_TENANT_REQUESTS)"
            raise RateLimited(message, retry_after=1, scope="tenant")
        self._tenant = tenant

    def reserve_bytes(self, size: int) -> None:
        """Count `size` more bytes of memory, of a body and of its decoded form (ADR-0038)."""
        if not size:
            return
        limit, own = self._serving.max_held_bytes, self._serving.max_tenant_held_bytes
        load, tenant = self._load, self._tenant or ""
        if self._body_bytes + size > min(limit, own):  # too large even for an idle server
            setting = "max_tenant_held_bytes" if own <= limit else "max_held_bytes"
            raise TooLarge("the body, decoded,", min(limit, own), setting)
        if load.add_tenant(tenant, BODY_BYTES, size) > own:
            load.add_tenant(tenant, BODY_BYTES, -size)
            message = (
                f"the bodies of this tenant's requests hold {own} bytes, which is the limit "
                "(ASSAY_MAX_TENANT_HELD_BYTES)"
            )
            raise RateLimited(message, retry_after=1, scope="tenant")
        if load.add(BODY_BYTES, size) > limit:
            load.add(BODY_BYTES, -size)
            load.add_tenant(tenant, BODY_BYTES, -size)
            message = (
                f"the bodies of all requests hold {limit} bytes, which is the limit (ASSAY_MAX_HELD_BYTES)"
            )
            raise RateLimited(message, retry_after=1)
        self._body_bytes += size

    def release_bytes(self, size: int) -> None:
        """`size` of the reserved bytes are free again."""
        self._body_bytes -= size
        self._load.add(BODY_BYTES, -size)
        self._load.add_tenant(self._tenant or "", BODY_BYTES, -size)

    def release_body(self) -> None:
        """All reserved bytes are free again: a client that has its response may send as much at once."""
        if self._body_bytes:
            self.release_bytes(self._body_bytes)

    def reserve_stream(self) -> None:
        """The request becomes an event stream. It no longer counts as a request in flight."""
        limit, own = self._serving.max_followers, self._serving.max_tenant_followers
        load, tenant = self._load, self._tenant
        if load.add(STREAMS, 1) > limit:
            load.add(STREAMS, -1)
            raise RateLimited(
                f"{limit} event streams are open, which is the limit (ASSAY_MAX_FOLLOWERS)", retry_after=5
            )
        if tenant is not None and load.add_tenant(tenant, STREAMS, 1) > own:
            load.add_tenant(tenant, STREAMS, -1)
            load.add(STREAMS, -1)
            message = f"{own} event streams of this tenant are open, which is the limit (ASSAY_MAX_TENANT_FOLLOWERS)"
            raise RateLimited(message, retry_after=5, scope="tenant")
        self.release()
        self._streams, self._tenant = True, tenant

    def release(self) -> None:
        load, tenant = self._load, self._tenant
        if self._is_counted:
            load.add(REQUESTS, -1)
        self.release_body()
        if self._streams:
            load.add(STREAMS, -1)
        if tenant is not None:
            load.add_tenant(tenant, STREAMS if self._streams else REQUESTS, -1)
        self._is_counted = self._streams = False
        self._tenant = None


def decrease(counts: Counter[str], name: str, amount: int) -> None:
    """A count of 0 is deleted; otherwise the table would keep the name of every tenant there ever was."""
    counts[name] -= amount
    if not counts[name]:
        del counts[name]
