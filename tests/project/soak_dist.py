"""A release: the same bytes from two folders, and a bill of materials of what an installation gets. It needs a package registry."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from support.documents import ROOT

GENERATED = (
    "src/assay/serve/grpc/fep_pb2.py",
    "src/assay/serve/grpc/fep_pb2.pyi",
    "src/assay/serve/page/dist",
)


def sources(folder):
    """The files of the commit and of work on it, with those that are generated."""
    folder.mkdir(parents=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for name in GENERATED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """Two builds from two folders, in other time zones and with another umask."""
    top = tmp_path_factory.mktemp("dist")
    assert subprocess.run(["make", "build/dist-env/.ready"], cwd=ROOT, check=False).returncode == 0
    given = []
    folders = [sources(top / name) for name in ("one", "another place")]  # both before work goes on here
    for folder, zone, umask in zip(folders, ("UTC", "Asia/Tokyo"), (0o022, 0o077), strict=True):
        (folder / "build").mkdir()
        (folder / "build" / "dist-env").symlink_to(ROOT / "build" / "dist-env")
        environ = os.environ | {"TZ": zone, "SOURCE_DATE_EPOCH": "1", "PYTHONHASHSEED": str(umask)}
        command = [sys.executable, "release/build.py"]
        subprocess.run(command, cwd=folder, env=environ, umask=umask, check=True, capture_output=True)
        given.append({file.name: file.read_bytes() for file in (folder / "dist").iterdir()})
    return given


def test_two_folders_give_the_same_bytes(builds):
    first, second = builds
    assert {Path(name).suffix for name in first} == {".gz", ".whl", ".json", ""}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in first.items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in second.items()
    }


def test_the_bill_of_materials_has_the_locked_requirements(builds):
    (text,) = (data for name, data in builds[0].items() if name.endswith(".cdx.json"))
    bom = json.loads(text)
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/all.txt").read_text(), re.MULTILINE))
    assert {one["name"]: one["version"] for one in bom["components"]} == locked
    assert all(one["externalReferences"][0]["hashes"] for one in bom["components"])
    project = bom["metadata"]["component"]
    (top,) = bom["dependencies"]
    assert top["ref"] == project["purl"] == "pkg:pypi/openassay@" + project["version"]
    base = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {canonicalize_name(re.match(r"[\w-]+", line)[0]) for line in base}
    assert names < {ref.removeprefix("pkg:pypi/").partition("@")[0] for ref in top["dependsOn"]}
    assert bom["metadata"]["timestamp"].startswith("20")


def test_a_build_refuses_files_that_are_not_committed(tmp_path):
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "build.py").write_text((ROOT / "release" / "build.py").read_text())
    done = subprocess.run(
        [sys.executable, "release/build.py"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "ARGS=--uncommitted" in done.stderr
    assert "release/" in done.stderr


def test_the_tools_of_a_release_are_not_those_of_development():
    assert find_spec("cyclonedx_py") is None
