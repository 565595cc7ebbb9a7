"""Reads the file of `assay run --policy`: the members of `[safety]`, in TOML, YAML or JSON."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from assay.checks.safety.tool_policy import policy_document
from assay.errors import UsageError
from assay.inputs.yaml_reader import read_yaml
from assay.ports.config import SafetyPolicy
from assay.protocol.json_types import is_object, kind_of
from assay.protocol.validation_messages import problems_in

MAX_BYTES = 1 << 20


def read_policy(name: str) -> SafetyPolicy:
    """The policy. A UsageError lists everything that is wrong with the file."""
    place = f"--policy {name}"
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as wrong:
        raise UsageError(f"{place}: cannot be read: {wrong.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{place}: expected at most {MAX_BYTES:,} bytes")
    document = _parse(name, data, place)
    if not is_object(document):
        raise UsageError(f"{place}: expected the members of [safety], got {kind_of(document)}")
    if problems := problems_in(document, SafetyPolicy):
        raise UsageError(*(f"{place}: {one}" for one in problems))
    policy = msgspec.convert(document, SafetyPolicy)
    policy_document(policy, f"{place}: ")
    return policy


def _parse(name: str, data: bytes, place: str) -> Any:
    if not name.endswith(".toml"):
        return read_yaml(data, place)  # JSON is YAML
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise UsageError(f"{place}: not TOML: {wrong}") from None
