"""`assay compare`: is a run better than another, by how much, where, and which cases changed."""

from collections.abc import Sequence

import msgspec

from assay.api.compare import compare_results
from assay.cli.console.console import echo_json
from assay.comparison.sources import CompareOptions


def main(runs: Sequence[str], options: CompareOptions, *, tenant: str | None, json: bool) -> None:
    """Print the comparison."""
    compared = compare_results(runs, options, tenant)
    if json:
        echo_json(msgspec.json.encode(compared))
        return
    from assay.cli.compare.render_comparison import show_comparisons  # deferred import: rich loads slowly

    show_comparisons(compared)
