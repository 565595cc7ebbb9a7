"""Tests of promptfoo in a table: a row is a test, and columns that begin with `__` are not variables."""

import re

from assay.interchange.imported import ImportReport
from assay.interchange.own_files import SCHEME
from assay.interchange.promptfoo.assertions import ASSERTIONS
from assay.protocol.json_types import JSON

_STRING = re.compile(
    rf"(not-)?({'|'.join(map(re.escape, sorted(ASSERTIONS, key=len, reverse=True)))})"
    r"(?:\((\d+(?:\.\d+)?)\))?(?::([\s\S]*))?"
)
_WITH_THRESHOLD = frozenset(
    [
        "answer-relevance",
        "classifier",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "cost",
        "latency",
        "levenshtein",
        "perplexity-score",
        "perplexity",
        "rouge-n",
        "similar",
        "starts-with",
    ]
)
_DEFAULTS = {"similar": 0.8}
_EXPECTED, _METADATA, _CONFIG = "__expected", "__metadata:", "__config:__expected"
_SPECIAL = (
    _EXPECTED,
    "__prefix",
    "__suffix",
    "__description",
    "__providerOutput",
    "__metric",
    "__threshold",
    "__metadata",
    "__config:",
)
_CODE = {"javascript:": "javascript", "fn:": "javascript", "eval:": "javascript", "python:": "python"}


def test_of_row(row: JSON, place: str, report: ImportReport) -> JSON:
    """The test that a row stands for. A column that names nothing of a test is noted."""
    cells = {column.strip(): str(cell) for column, cell in row.items()}
    assertions = [
        assertion_of_text(cell.strip())
        for name, cell in cells.items()
        if name.startswith(_EXPECTED) and cell.strip()
    ]
    for name, cell in cells.items():
        if name.startswith(_CONFIG) and name.endswith(":threshold"):
            number = name.removeprefix(_CONFIG).removesuffix(":threshold")
            at = int(number) - 1 if number.isdigit() else 0
            if (value := _number(cell)) is not None and 0 <= at < len(assertions):
                assertions[at]["threshold"] = value
            elif cell:
                report.leave(place, f"column {name}", "there is no such assertion, or it is no number")
        elif name.startswith(("__config:", "__metadata")) and not name.startswith(_METADATA) and cell:
            report.leave(place, f"column {name}", "it says nothing of a test")
        elif name == "__metric" and cell:
            assertions = [one | {"metric": cell} for one in assertions]
    test: JSON = {
        "vars": {name: cell for name, cell in cells.items() if not name.startswith(_SPECIAL)},
        "assert": assertions,
        "options": {name[2:]: cell for name, cell in cells.items() if name in ("__prefix", "__suffix")},
        "metadata": {
            name.removeprefix(_METADATA).removesuffix("[]"): _texts(cell) if name.endswith("[]") else cell
            for name, cell in cells.items()
            if name.startswith(_METADATA) and cell.strip()
        },
    }
    own = ("__description", "__providerOutput")
    test |= {name[2:]: cell for name, cell in cells.items() if name in own and cell}
    threshold = _number(cells.get("__threshold", ""))
    return test if threshold is None else test | {"threshold": threshold}


def _texts(cell: str) -> list[str]:
    return [one.strip().replace("\\,", ",") for one in re.split(r"(?<!\\),", cell)]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def assertion_of_text(text: str) -> JSON:
    """The assertion that a cell of a table stands for: `contains: x`, `similar(0.8): x`, or a text to equal."""
    for prefix, kind in _CODE.items():
        if text.startswith(prefix):
            return {"type": kind, "value": text.removeprefix(prefix).strip()}
    for prefix in ("grade:", "llm-rubric:"):
        if text.startswith(prefix):
            return {"type": "llm-rubric", "value": text.removeprefix(prefix).strip()}
    if text.startswith(SCHEME):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    found = _STRING.fullmatch(text)
    if found is None:
        return {"type": "equals", "value": text}
    made: JSON = {"type": (found[1] or "") + found[2]}
    if found[4] is not None:
        made["value"] = found[4].strip()
    if found[2] in _WITH_THRESHOLD:
        made["threshold"] = float(found[3]) if found[3] else _DEFAULTS.get(found[2], 0.75)
    return made
