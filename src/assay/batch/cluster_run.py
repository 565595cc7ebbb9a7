"""Runs the parts of an input on a Dask cluster, and adds up what the workers say."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from assay.batch.arrow_scorer import ArrowScorer
from assay.batch.cluster_tasks import MARKERS, PartDone, read_marker, score_part
from assay.batch.dataset_parts import DatasetPart, file_system, input_files, store_access
from assay.batch.summary import Summary
from assay.concurrency.workers.machine import available_cores
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import require

DEATHS = 1  # of workers with a part, after which the next one makes it a suspect
LOCAL = {  # the profile of a worker takes a part of its core
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.worker.profile.enabled": False,
}
RETRIES = 2  # of a part whose task failed, such as for a store that did not answer
AHEAD = 4  # parts that are submitted for each thread of the cluster
SECONDS = 30  # to reach a scheduler
MESSAGE = 200  # characters of the message of a store


class SetAside(Struct, frozen=True):
    """A part that is not measured, and why."""

    part: str
    reason: str


class ClusterManifest(Struct, frozen=True, kw_only=True):
    """The manifest of a run, which is written when every part has ended."""

    fingerprint: str
    inputs: list[tuple[str, int]]
    parts: int
    results: int
    bad_rows: int
    set_aside: list[SetAside]


@contextmanager
def open_cluster(scheduler: str | None) -> Generator[Any]:
    """A client of the scheduler at this address, or of one with a process for each core of this machine."""
    require("--cluster dask", "cluster")
    dask: Any = import_module("dask")
    with dask.config.set({"logging.distributed": "critical"}):
        distributed: Any = import_module("distributed")  # it sets up its loggers
    try:
        if scheduler is not None:
            with distributed.Client(scheduler, timeout=SECONDS, set_as_default=False) as client:
                yield client
            return
        with (
            dask.config.set(LOCAL),
            distributed.LocalCluster(
                n_workers=available_cores(), threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
    except OSError as wrong:
        raise EnvironmentFailure(
            f"--scheduler {scheduler}: expected a scheduler of Dask, got {wrong}"
        ) from None


def threads_of(client: Any) -> int:
    """The threads of all workers that the scheduler has now."""
    return max(1, sum(client.nthreads().values()))


class ClusterRun:
    """The parts of a run on a cluster. `summary` is that of the parts so far."""

    def __init__(self, score: ArrowScorer, parts: Sequence[DatasetPart], address: str, output: str) -> None:
        self.score, self._parts, self._address, self._output = score, parts, address, output
        ranges = [msgspec.to_builtins(part) for part in parts]
        self._fingerprint = sha256(msgspec.json.encode([score.fingerprint, ranges])).hexdigest()
        self.summary: Summary | None = None
        self.set_aside: list[SetAside] = []
        self.earlier = 0  # parts whose results were there before

    def prepare(self, *, resume: bool) -> None:
        """Make the folder of the results. Refuse one with results, unless they are those of this run."""
        system, folder = file_system(self._output)
        with store_access(self._output):
            system.makedirs(f"{folder}/{MARKERS}", exist_ok=True)
            found = [name for name in system.find(folder) if name.rstrip("/") != folder]
        if not found:
            return
        if not resume:
            raise UsageError(
                f"-o {self._output}: expected a new or empty folder, got {len(found):,} files in it;"
                " --resume takes the finished parts"
            )
        for part in self._parts:
            with store_access(self._output):
                marker = read_marker(system, folder, part)
            if marker is not None and marker.fingerprint != self._fingerprint:
                raise UsageError(
                    f"-o {self._output}: expected the results of these checks and inputs, got others"
                )

    def execute(self, client: Any, progress: Callable[[int, int], None] = lambda done, of: None) -> None:
        """
        Score every part; a worker that is lost costs only its parts. Raises UsageError for what is refused.

        A part with which two workers were lost may have killed them, or waited on both when somebody stopped them. It
        is scored again when no other part is left, alone: if it loses two workers again, it is set aside.
        """
        suspects: list[DatasetPart] = []
        done = 0
        for part, future in self._submit(client, self._parts):
            if _is_killed(future):
                suspects.append(part)
                continue
            self._add(part, future)
            progress(done := done + 1, len(self._parts))
        for part in suspects:
            for _, future in self._submit(client, [part]):
                self._add(part, future)
            progress(done := done + 1, len(self._parts))
        system, folder = file_system(self._output)
        summary = self.summary
        manifest = ClusterManifest(
            fingerprint=self._fingerprint,
            inputs=input_files(self._parts),
            parts=len(self._parts),
            results=summary.results if summary else 0,
            bad_rows=summary.bad_rows if summary else 0,
            set_aside=self.set_aside,
        )
        with store_access(self._output):
            system.pipe_file(f"{folder}/_manifest.json", msgspec.json.encode(manifest))

    def _submit(self, client: Any, parts: Sequence[DatasetPart]) -> Iterator[tuple[DatasetPart, Any]]:
        """
        Some parts as they end. Only some of them are with the scheduler at a time.

        If a check asks a remote model, these are no more parts than scorers have a share of its limits: workers that
        join later get no share of their own.
        """
        distributed: Any = import_module("distributed")
        waiting = iter(parts)
        ahead = self.score.shares or AHEAD * threads_of(client)
        futures: dict[Any, DatasetPart] = {}
        ended = distributed.as_completed(loop=client.loop)

        def submit(part: DatasetPart) -> None:
            future = client.submit(
                score_part, self.score, part, self._address, self._output, self._fingerprint,
                pure=False, retries=RETRIES,
            )  # fmt: skip
            futures[future] = part
            ended.add(future)

        for part in islice(waiting, ahead):
            submit(part)
        for future in ended:
            yield futures.pop(future), future
            if (part := next(waiting, None)) is not None:
                submit(part)

    def _add(self, part: DatasetPart, future: Any) -> None:
        if future.status != "finished":
            reason = (
                "its workers were lost, also when it was alone"
                if _is_killed(future)
                else f"its task failed: {_message(future.exception())}"
            )
            self.set_aside.append(SetAside(part.name, reason))
            return
        done: PartDone = future.result()
        if done.refusal or done.summary is None:
            raise UsageError(done.refusal)
        self.earlier += done.earlier
        if self.summary is None:
            self.summary = Summary(done.summary.labels, done.summary.dimensions)
        self.summary.add(done.summary)


def _is_killed(future: Any) -> bool:
    """Whether the scheduler gave a part up, because as many workers were lost with it as it allows."""
    return future.status != "finished" and type(future.exception()).__name__ == "KilledWorker"


def _message(error: BaseException) -> str:
    """The kind of an error. That of a store has its words: they are no content."""
    kind = type(error).__name__
    return f"{kind}: {str(error)[:MESSAGE]}" if isinstance(error, OSError) else kind
