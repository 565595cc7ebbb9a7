"""Where datasets of other tools have what a case needs. `--map preset=NAME` and `assay import` use them."""

from typing import NamedTuple


class ColumnPreset(NamedTuple):
    """The names of a part, the first that a table has."""

    input: tuple[str, ...]
    output: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    id: tuple[str, ...] = ("id",)


PRESETS: dict[str, ColumnPreset] = {
    "flex-evals": ColumnPreset(("input",), ("output",), ("expected",)),
    "pydantic-evals": ColumnPreset(("inputs",), ("output",), ("expected_output",), ("name",)),
    "deepeval": ColumnPreset(
        ("input", "scenario"), ("actual_output",), ("expected_output", "expected_outcome"), ("name", "id")
    ),
    "ragas": ColumnPreset(
        ("user_input", "question"),
        ("response", "answer"),
        ("reference", "ground_truth", "ground_truths"),
    ),
    "langsmith": ColumnPreset(("inputs",), ("output",), ("outputs", "reference_outputs")),
}
