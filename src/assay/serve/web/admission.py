"""Admission control: counts requests, runs, bytes and event streams, by tenant, and refuses those over a limit (decision 40)."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from assay.errors import RateLimited, TooLarge, Unavailable
from assay.runs.executor import RunExecutor
from assay.serve.web.limits import ServerLimits


class AdmissionControl:
    """The counts of one process. Every count goes down again, however its request ends."""

    def __init__(self, serving: ServerLimits, executor: RunExecutor) -> None:
        self._serving, self._executor = serving, executor
        self.requests = self.streams = self.body_bytes = 0
        self.stopping = False
        self.requests_of: Counter[str] = Counter()
        self.streams_of: Counter[str] = Counter()
        self.body_bytes_of: Counter[str] = Counter()
        self._starting: Counter[str] = Counter()

    def reservation(self) -> "Reservation":
        return Reservation(self, self._serving)

    @contextmanager
    def reserve_run(self, tenant: str) -> Generator[None]:
        """Count a run that is being stored. Once it has started, the executor counts it."""
        self.check_open()
        limit, own = self._serving.max_runs, self._serving.max_tenant_runs
        if self._executor.active_runs + self._starting.total() >= limit:
            raise RateLimited(
                f"{limit} runs are in flight, which is the limit (ASSAY_MAX_RUNS)", retry_after=2
            )
        if self._executor.active_runs_of(tenant) + self._starting[tenant] >= own:
            raise RateLimited(
                f"{own} runs of this tenant are in flight, which is the limit (ASSAY_MAX_TENANT_RUNS)",
                retry_after=2,
                scope="tenant",
            )
        self._starting[tenant] += 1
        try:
            yield
        finally:
            decrease(self._starting, tenant, 1)

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
        if self._load.requests >= limit:
            message = f"{limit} requests are in flight, which is the limit (ASSAY_MAX_REQUESTS)"
            raise RateLimited(message, retry_after=1)
        self._is_counted = True
        self._load.requests += 1

    def reserve_tenant_request(self, tenant: str) -> None:
        limit = self._serving.max_tenant_requests
        if self._load.requests_of[tenant] >= limit:
            message = f"{limit} requests of this tenant are in flight, which is the limit (ASSAY_MAX_TENANT_REQUESTS)"
            raise RateLimited(message, retry_after=1, scope="tenant")
        self._tenant = tenant
        self._load.requests_of[tenant] += 1

    def reserve_bytes(self, size: int) -> None:
        """Count `size` more bytes of memory, of a body and of its decoded form (decision 0038)."""
        if not size:
            return
        limit, own = self._serving.max_held_bytes, self._serving.max_tenant_held_bytes
        load, tenant = self._load, self._tenant or ""
        if self._body_bytes + size > min(limit, own):  # too large even for an idle server
            setting = "max_tenant_held_bytes" if own <= limit else "max_held_bytes"
            raise TooLarge("the body, decoded,", min(limit, own), setting)
        if load.body_bytes_of[tenant] + size > own:
            message = f"the bodies of this tenant's requests hold {own} bytes, which is the limit (ASSAY_MAX_TENANT_HELD_BYTES)"
            raise RateLimited(message, retry_after=1, scope="tenant")
        if load.body_bytes + size > limit:
            message = (
                f"the bodies of all requests hold {limit} bytes, which is the limit (ASSAY_MAX_HELD_BYTES)"
            )
            raise RateLimited(message, retry_after=1)
        self._body_bytes += size
        load.body_bytes += size
        load.body_bytes_of[tenant] += size

    def release_bytes(self, size: int) -> None:
        """`size` of the reserved bytes are free again."""
        self._body_bytes -= size
        self._load.body_bytes -= size
        decrease(self._load.body_bytes_of, self._tenant or "", size)

    def reserve_stream(self) -> None:
        """The request becomes an event stream. It no longer counts as a request in flight."""
        limit, own = self._serving.max_followers, self._serving.max_tenant_followers
        load, tenant = self._load, self._tenant
        if load.streams >= limit:
            raise RateLimited(
                f"{limit} event streams are open, which is the limit (ASSAY_MAX_FOLLOWERS)", retry_after=5
            )
        if tenant is not None and load.streams_of[tenant] >= own:
            message = f"{own} event streams of this tenant are open, which is the limit (ASSAY_MAX_TENANT_FOLLOWERS)"
            raise RateLimited(message, retry_after=5, scope="tenant")
        self.release()
        self._streams, self._tenant = True, tenant
        load.streams += 1
        if tenant is not None:
            load.streams_of[tenant] += 1

    def release(self) -> None:
        load, tenant = self._load, self._tenant
        load.requests -= self._is_counted
        if self._body_bytes:
            self.release_bytes(self._body_bytes)
        if self._streams:
            load.streams -= 1
        if tenant is not None:
            decrease(load.streams_of if self._streams else load.requests_of, tenant, 1)
        self._is_counted = self._streams = False
        self._tenant = None


def decrease(counts: Counter[str], name: str, amount: int) -> None:
    """A count of 0 is deleted; otherwise the table would keep the name of every tenant there ever was."""
    counts[name] -= amount
    if not counts[name]:
        del counts[name]
