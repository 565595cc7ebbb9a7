"""Which checks of a case are resolved on the event loop."""

from assay.checks.arguments import BoundCheck
from assay.errors import MalformedPath

INLINE_CONTEXT_BYTES = 32 * 1024  # of a context whose checks are prepared on the event loop


def resolves_inline(bound: BoundCheck, size: int) -> bool:
    """
    Whether resolving the arguments of a check is quick: a small context of `size` bytes and no path that searches.
    """
    return size <= INLINE_CONTEXT_BYTES and all(
        isinstance(path.query, MalformedPath) or path.query.singular for path in bound.paths
    )
