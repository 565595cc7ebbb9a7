"""What the command line of `assay evaluate` asks for."""

from msgspec import Struct


class EvaluateOptions(Struct, frozen=True, kw_only=True):
    request: str | None = None
    contexts: str | None = None
    cases: str | None = None
    outputs: str | None = None
    checks: str | None = None
    to: list[str] = []
    modules: list[str] = []
    bar: float | None = None
    allow_errors: bool = False
    resolved_arguments: bool = True
    timings: bool = False
    skip_bad_lines: bool = False
    limit: int | None = None
    experiment: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    fail_fast: bool = False
    max_cost: float | None = None
    cache: bool = False
    jobs: int = 1
    resume: bool = False
    save: bool = False
    json: bool = False

    @property
    def inputs(self) -> list[str]:
        """The files that hold test cases or outputs."""
        return [name for name in (self.request, self.contexts, self.cases, self.outputs) if name]
