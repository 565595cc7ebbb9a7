"""GET …/traces/{project}/windows: the newest windows of a project of traces, with what came in them. No content."""

from msgspec import Struct, structs

from assay.errors import InvalidRequest, NotFound, Problem
from assay.fep.trace_windows.window import Window, WindowRow, windows_of
from assay.runs.run_statistics import stored_statistics
from assay.serve.overview.run_rows import ScoreInterval, score_interval
from assay.serve.web.request import NAME, HttpRequest
from assay.serve.web.responses import Response, answer

MOST = 100
USUAL = 10


class TraceWindow(WindowRow, frozen=True, kw_only=True):
    """A window: the run that it is, and what it counts. `score` is that of a window that has ended."""

    score: ScoreInterval | None


class WindowsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The windows of the caller's tenant, the newest first."""

    project: str
    windows: list[TraceWindow]


async def get_windows(call: HttpRequest) -> Response:
    params = call.query("limit")
    text = params.get("limit", str(USUAL))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= MOST):
        raise InvalidRequest(Problem("limit", f"expected a number from 1 to {MOST}, got {text[:20]!r}"))
    project: str = call.scope["path_params"]["project"]
    if not NAME.fullmatch(project):
        raise NotFound(f"there is no project of traces {project[:64]!r}")
    found = await windows_of(call.server.store, call.tenant, project, limit=int(text))
    return answer(WindowsAnswer(project=project, windows=[_row(one) for one in found]))


def _row(window: Window) -> TraceWindow:
    statistics = stored_statistics(window.run)
    score = None if statistics is None else score_interval(statistics.score)
    return TraceWindow(**structs.asdict(window.row), score=score)
