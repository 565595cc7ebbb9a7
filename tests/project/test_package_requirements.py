"""Requirements: the page has the ranges of the project, and each framework of the page fits beside `openassay[all]`."""

import re
import subprocess
import sys
import tomllib
from functools import cache

import pytest
import uv
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.documents import DOCS, ROOT, table

PAGE = (DOCS / "requirements.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BESIDE = table(PAGE, "framework", "mcp", "dbos", "protobuf")
SECONDS = 120


def test_the_page_has_the_ranges_of_the_project():
    declared = {"none": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    rows = table(PAGE, "extra", "requirements")
    shown = {extra.strip("`"): re.findall(r"`([^`]+)`", cell) for extra, cell in rows}
    known = {extra: [one.partition(";")[0] for one in listed] for extra, listed in declared.items()}
    assert shown == {extra: listed for extra, listed in known.items() if extra != "all"}


def run_uv(*arguments, **options):
    """What uv says; the test is skipped where no registry answers."""
    command = [uv.find_uv_bin(), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False, **options
    )
    if done.returncode and "No solution found" not in done.stderr:
        pytest.skip("no registry of packages answers")
    return done


@cache
def resolved(requirement):
    """The versions that the project with all extras and this requirement get, by name."""
    words = (
        "pip",
        "compile",
        "pyproject.toml",
        "-",
        "--extra",
        "all",
        "--quiet",
        "--no-header",
        "--no-annotate",
    )
    done = run_uv(*words, "--python-version", "3.11", input=requirement)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)", done.stdout, re.MULTILINE))


@pytest.mark.sample(6)
@pytest.mark.parametrize("row", BESIDE, ids=[re.sub(r"[^\w.-]+", "-", row[0]) for row in BESIDE])
def test_a_framework_fits_beside_every_extra(row):
    text = re.match(r"`([^`]+)`", row[0])[1]
    requirement = Requirement(text)
    versions = resolved(text)
    assert versions[canonicalize_name(requirement.name)] in requirement.specifier
    for name in ("mcp", "dbos", "protobuf"):
        declared = next(
            Requirement(line)
            for lines in PROJECT["optional-dependencies"].values()
            for line in lines
            if line.startswith(name)
        )
        assert versions[name] in declared.specifier


MESSAGES = """
import importlib.util, sys
from google.protobuf import __version__
spec = importlib.util.spec_from_file_location("fep_pb2", sys.argv[1])
fep = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fep)
request = fep.EvaluationRequest(test_cases=[fep.TestCase(id="a")])
assert fep.EvaluationRequest.FromString(request.SerializeToString()) == request
assert fep.EVALUATION_STATUS_COMPLETED == 1
assert "EvaluationService" in fep.DESCRIPTOR.services_by_name
print(__version__.split(".")[0])
"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("major", ["5", "6", "7"])
def test_the_messages_of_grpc_work_with_each_major_version_of_protobuf(major, tmp_path):
    installed = run_uv(
        "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), f"protobuf=={major}.*"
    )
    assert installed.returncode == 0, installed.stderr
    messages = ROOT / "src" / "assay" / "serve" / "grpc" / "fep_pb2.py"
    command = [sys.executable, "-W", "error", "-c", MESSAGES, str(messages)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert (done.stdout, done.stderr) == (f"{major}\n", "")
