"""`assay compare`: is a run better than another, by how much, where, and which cases changed."""

import msgspec

from assay.cli.compare_sources import CompareOptions, compare_references
from assay.cli.console import echo_json


def main(options: CompareOptions, *, json: bool) -> None:
    """Print the comparison."""
    compared = compare_references(options)
    if json:
        echo_json(msgspec.json.encode(compared))
        return
    from assay.cli.render_comparison import show_comparisons  # deferred import: rich loads slowly

    show_comparisons(compared)
