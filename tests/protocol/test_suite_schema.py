"""The schema `AgentEvalSuite` accepts what assay accepts: every suite of the project, and those of its documents."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from assay.agenteval.suites.suite import read_own_suite
from assay.errors import InvalidRequest
from assay.protocol.schemas import schema_of

ROOT = Path(__file__).parents[2]
FILES = [
    file
    for folder in ("examples", "tests/golden/project", "conformance/openwop")
    for kind in ("yaml", "json")
    for file in sorted((ROOT / folder).rglob(f"*.{kind}"))
    if "suiteId" in file.read_text("utf-8")
]
BLOCKS = [
    (f"{page.name} {number}", text)
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, text in enumerate(
        re.findall(r"^```(?:yaml|json).*\n([\s\S]*?)^```", page.read_text("utf-8"), re.MULTILINE)
    )
    if re.search(r'^(?:\{?\s*)"?suiteId"?:', text, re.MULTILINE)
]
SUITES = [(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in FILES] + BLOCKS


@pytest.fixture(scope="module")
def validator():
    return jsonschema_rs.validator_for(json.loads(schema_of("AgentEvalSuite")))


def test_the_schema_accepts_every_suite_that_assay_accepts(validator):
    accepted = extended = 0
    for name, text in SUITES:
        document = yaml.safe_load(text)
        try:
            read_own_suite(document)
        except InvalidRequest:
            continue
        accepted += 1
        extended += "x-assay" in document
        assert [str(one) for one in validator.iter_errors(document)] == [], name
    assert (accepted > 15, extended > 1) == (True, True), (accepted, extended)


def test_the_schema_refuses_what_assay_refuses(validator):
    suite = {"suiteId": "local.a.evals.a", "version": "1.0.0", "modes": ["golden"], "tasks": []}
    for wrong in (
        {"x-other": {}},
        {"x-assay": {"task": {}}},
        {"x-assay": {"tasks": {"a": {"must_cal": []}}}},
    ):
        assert not validator.is_valid(suite | wrong), wrong
