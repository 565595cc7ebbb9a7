"""The projects of `[traces.NAME]`, checked: their checks are planned when the server starts."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.registry import Registry
from assay.errors import InvalidRequest, Problem, UsageError
from assay.fep.planning.request import plan_of
from assay.fep.planning.short_checks import expand_checks
from assay.fep.planning.sources import checks_in
from assay.fep.records.run_header import SHARD, StoredRequest
from assay.fep.trace_windows.window import WindowPlan, bounds_of
from assay.ports import Services
from assay.ports.config import TraceProjectConfig, seconds_of
from assay.protocol.evaluation import ExperimentMetadata

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class TraceProject(Struct, frozen=True, kw_only=True):
    """A project as a server uses it."""

    name: str
    config: TraceProjectConfig
    request: StoredRequest  # of each of its windows
    digest: str

    def takes(self, tenant: str) -> bool:
        return not self.config.tenants or tenant in self.config.tenants

    def window(self, moment: datetime) -> WindowPlan:
        """The window of this moment."""
        config = self.config
        start, end = bounds_of(moment, _seconds(config.window))
        return WindowPlan(
            project=self.name,
            start=start,
            end=end,
            sample=config.sample,
            filter=config.filter,
            case=config.case,
            settle=_seconds(config.settle),
            quiet=_seconds(config.quiet),
            retention=_seconds(config.retention),
            digest=self.digest,
            to=config.targets,
        )

    @property
    def retention(self) -> int:
        return _seconds(self.config.retention)


def _seconds(text: str) -> int:
    found = seconds_of(text)
    assert found is not None
    return found


def trace_projects(
    configs: Mapping[str, TraceProjectConfig], registry: Registry, services: Services
) -> dict[str, TraceProject]:
    """Check the projects of the settings and plan their checks. Everything that is wrong is one UsageError."""
    wrong: list[str] = []
    projects: dict[str, TraceProject] = {}
    for name, config in configs.items():
        place = f"settings: traces.{name}"
        if not _NAME.fullmatch(name):
            wrong.append(f"{place}: expected a name of up to 64 letters, digits and . _ -, got {name!r}")
        wrong += [
            f"{place}.{member}: expected a span above 0, such as 15m, 1h or 1d, got {getattr(config, member)!r}"
            for member in ("window", "quiet")
            if not seconds_of(getattr(config, member))
        ]
        try:
            projects[name] = _project(name, config, registry, services)
        except InvalidRequest as refusal:
            wrong += [f"{place}.checks: {problem}" for problem in refusal.problems]
    if wrong:
        raise UsageError(*wrong)
    return projects


def _project(name: str, config: TraceProjectConfig, registry: Registry, services: Services) -> TraceProject:
    checks: Any = config.checks
    if isinstance(checks, str):
        checks = checks_in(checks, services.limits)
    else:
        checks, problems = expand_checks(checks, "checks")
        if problems:
            raise InvalidRequest(problems)
    if not checks:
        raise InvalidRequest(Problem("", "expected one check at least, got none"))
    plan = plan_of(checks, registry, services)
    waits = plan.shared is None or plan.shared.waits
    request = StoredRequest(
        checks=msgspec.to_builtins(plan.checks),
        experiment=ExperimentMetadata(name=name),
        shard=1 if waits else SHARD,
    )
    content = msgspec.json.encode((config, request.checks), order="deterministic")
    return TraceProject(
        name=name, config=config, request=request, digest=hashlib.sha256(content).hexdigest()[:32]
    )
