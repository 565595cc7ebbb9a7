"""The options of `assay evaluate`."""

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.cli.console.only import Only
from assay.inputs.portions import Portion
from assay.runs.run_names import name_tag


class EvaluateOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay evaluate`."""

    request: str | None = None
    contexts: str | None = None
    cases: str | None = None
    outputs: str | None = None
    traces: list[str] = []
    columns: list[str] = []  # --map
    agent: str | None = None
    trials: int = 1
    ks: tuple[int, ...] = ()  # --k
    checks: str | None = None
    to: list[str] = []
    modules: list[str] = []
    by: list[str] = []
    bars: list[str] = []  # --min-pass-rate
    baseline: str | None = None
    standardize_by: str | None = None
    allow_errors: bool = False
    resolved_arguments: bool = True
    timings: bool = False
    skip_bad_lines: bool = False
    limit: int | None = None
    only: Only = Only()
    experiment: str | None = None
    name: str | None = None  # of the stored run
    own_tags: list[str] = []  # --tag
    concurrency: int | None = None
    timeout: float | None = None
    fail_fast: bool = False
    max_cost: float | None = None
    cache: bool = False
    batch: bool = False
    batch_hours: float | None = None
    until: str | None = None
    margin: float | None = None
    seed: int = 0  # of the order of --until
    jobs: int | None = None  # None: as many as the run is worth
    resume: bool = False
    shard: Portion | None = None
    cluster: str | None = None
    scheduler: str | None = None
    save: bool = False
    send: list[str] = []  # --to
    verbose: bool = False
    json: bool = False

    @property
    def tags(self) -> list[str]:
        """Those of the stored run."""
        return [*self.own_tags, *([] if self.name is None else [name_tag(self.name, "--name")])]

    @property
    def data_digest(self) -> str:
        """A digest of the names of the cases' files and of the agent, by which a later run finds this one; or ""."""
        files = [self.cases] if self.cases else self.inputs
        if "-" in files:
            return ""
        paths = [str(Path(name).resolve()) for name in files]
        return hashlib.sha256(msgspec.json.encode([*paths, self.agent or ""])).hexdigest()

    @property
    def inputs(self) -> list[str]:
        """The files that hold test cases or outputs."""
        names = (self.request, self.contexts, self.cases, self.outputs, *self._trace_files)
        return [name for name in names if name]

    @property
    def _trace_files(self) -> list[str]:
        if not self.traces:
            return []
        from assay.traces.trace_files import files_of  # deferred import: most runs read no traces

        return files_of(self.traces)
