"""The reference material beside the checkout, where it is there."""

import json
from functools import cache
from pathlib import Path

import jsonschema_rs
import pytest

SHARED = Path(__file__).parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference material ../shared is not here")


@cache
def published(name: str, part: str = ""):
    """A validator of one of the published schemas, `eval-summary`; of a part of it, `#/$defs/evalScored`."""
    folder = SHARED / "openwop" / "schemas"
    schemas = {path.name: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}

    def retrieve(uri: str):
        return schemas.get(uri.rsplit("/", 1)[-1], {})  # what is not in the folder says nothing

    whole = schemas[f"{name}.schema.json"]
    wanted = {"$ref": whole["$id"] + part} if part else whole
    return jsonschema_rs.validator_for(wanted, retriever=retrieve, validate_formats=True)


def fits(name: str, document: object, part: str = "") -> None:
    """It is what the published schema says; a test that asks is skipped, saying so, where the schema is absent."""
    if not SHARED.exists():
        pytest.skip("the reference material ../shared is not here")
    published(name, part).validate(document)
