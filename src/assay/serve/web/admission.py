"""What is under way, by tenant; and the refusal of what would be too much (decision 40)."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from assay.errors import RateLimited, TooLarge, Unavailable
from assay.runs.executor import RunExecutor
from assay.serve.web.limits import ServerLimits


class AdmissionControl:
    """One process's. Everything is a count that goes down again, however its request ends."""

    def __init__(self, serving: ServerLimits, executor: RunExecutor) -> None:
        self._serving, self._executor = serving, executor
        self.requests = self.followers = self.held = 0
        self.stopping = False
        self.of: Counter[str] = Counter()  # requests
        self.followers_of: Counter[str] = Counter()
        self.held_of: Counter[str] = Counter()
        self._seats: Counter[str] = Counter()

    def reservation(self) -> "Reservation":
        return Reservation(self, self._serving)

    @contextmanager
    def reserve_run(self, tenant: str) -> Generator[None]:
        """For a run that is being taken in; begun, it counts with the desk's."""
        self.check_open()
        most, own = self._serving.max_runs, self._serving.max_tenant_runs
        if self._executor.busy + self._seats.total() >= most:
            raise RateLimited(
                f"{most} runs are under way, which is the limit (ASSAY_MAX_RUNS)", retry_after=2
            )
        if self._executor.busy_for(tenant) + self._seats[tenant] >= own:
            raise RateLimited(
                f"{own} runs of this tenant are under way, which is the limit (ASSAY_MAX_TENANT_RUNS)",
                retry_after=2,
                scope="tenant",
            )
        self._seats[tenant] += 1
        try:
            yield
        finally:
            less(self._seats, tenant, 1)

    def check_open(self) -> None:
        if self.stopping or self._executor.closing:
            raise Unavailable("this host is about to stop and takes no new work", retry_after=5)


class Reservation:
    """What one request takes of it. All is given back, however the request ends."""

    __slots__ = ("_counted", "_follows", "_held", "_load", "_serving", "_tenant")

    def __init__(self, load: AdmissionControl, serving: ServerLimits) -> None:
        self._load, self._serving = load, serving
        self._counted = self._follows = False
        self._tenant: str | None = None
        self._held = 0

    def reserve_request(self) -> None:
        most = self._serving.max_requests
        if self._load.requests >= most:
            said = f"{most} requests are being answered, which is the limit (ASSAY_MAX_REQUESTS)"
            raise RateLimited(said, retry_after=1)
        self._counted = True
        self._load.requests += 1

    def reserve_tenant_request(self, tenant: str) -> None:
        most = self._serving.max_tenant_requests
        if self._load.of[tenant] >= most:
            said = f"{most} requests of this tenant are being answered, which is the limit (ASSAY_MAX_TENANT_REQUESTS)"
            raise RateLimited(said, retry_after=1, scope="tenant")
        self._tenant = tenant
        self._load.of[tenant] += 1

    def reserve_bytes(self, size: int) -> None:
        """So many more bytes in memory, of a body and of what it becomes (decision 0038)."""
        if not size:
            return
        most, own = self._serving.max_held_bytes, self._serving.max_tenant_held_bytes
        load, tenant = self._load, self._tenant or ""
        if self._held + size > min(most, own):  # it would be too much on an idle host, too
            setting = "max_tenant_held_bytes" if own <= most else "max_held_bytes"
            raise TooLarge("the body, decoded,", min(most, own), setting)
        if load.held_of[tenant] + size > own:
            said = f"the bodies of this tenant's requests hold {own} bytes, which is the limit (ASSAY_MAX_TENANT_HELD_BYTES)"
            raise RateLimited(said, retry_after=1, scope="tenant")
        if load.held + size > most:
            said = f"the bodies of all requests hold {most} bytes, which is the limit (ASSAY_MAX_HELD_BYTES)"
            raise RateLimited(said, retry_after=1)
        self._held += size
        load.held += size
        load.held_of[tenant] += size

    def release_bytes(self, size: int) -> None:
        """So many of them are not held any more."""
        self._held -= size
        self._load.held -= size
        less(self._load.held_of, self._tenant or "", size)

    def reserve_stream(self) -> None:
        """A follower waits, and is no request that is being worked on."""
        most, own = self._serving.max_followers, self._serving.max_tenant_followers
        load, tenant = self._load, self._tenant
        if load.followers >= most:
            raise RateLimited(
                f"{most} follow runs here, which is the limit (ASSAY_MAX_FOLLOWERS)", retry_after=5
            )
        if tenant is not None and load.followers_of[tenant] >= own:
            said = f"{own} of this tenant follow runs here, which is the limit (ASSAY_MAX_TENANT_FOLLOWERS)"
            raise RateLimited(said, retry_after=5, scope="tenant")
        self.release()
        self._follows, self._tenant = True, tenant
        load.followers += 1
        if tenant is not None:
            load.followers_of[tenant] += 1

    def release(self) -> None:
        load, tenant = self._load, self._tenant
        load.requests -= self._counted
        if self._held:
            self.release_bytes(self._held)
        if self._follows:
            load.followers -= 1
        if tenant is not None:
            less(load.followers_of if self._follows else load.of, tenant, 1)
        self._counted = self._follows = False
        self._tenant = None


def less(counts: Counter[str], name: str, by: int) -> None:
    """What comes to nothing is not remembered: names are as many as there were tenants."""
    counts[name] -= by
    if not counts[name]:
        del counts[name]
