"""
The wheel on every Python that it declares, each in an environment of its own. It needs a package registry.

Interpreters are looked for on the PATH, in pyenv, and at PYTHONS_TO_TEST (paths, as in PATH). A version without one is skipped.
"""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from shutil import which

import pytest
import uv

from assay.extras import EXTRAS
from support.blocks import run_blocks
from support.documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSIONS = [
    found[1] for one in PROJECT["classifiers"] if (found := re.fullmatch(r".* :: Python :: (3\.\d+)", one))
]


@cache
def interpreter(version):
    """A Python of this version that starts."""
    given = [Path(one) for one in os.environ.get("PYTHONS_TO_TEST", "").split(os.pathsep) if one]
    found = which(f"python{version}")
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for one in [*given, *pyenv, *([Path(found)] if found else [])]:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([one, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return one
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    into = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(into.glob("*.whl"))


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def installed(version, wheel, tmp_path_factory):
    """Makes an environment with the wheel and these extras: its folder of programs, and the variables."""
    base = interpreter(version)
    if base is None:
        pytest.skip(f"there is no Python {version} here; PYTHONS_TO_TEST can name one")
    home = tmp_path_factory.mktemp(f"python{version}")

    def install(extras, *options):
        place = home / (extras.replace(",", "-")[:40] or "base")
        environ = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
        if place.exists():
            return place / "bin", environ
        run_plain([uv.find_uv_bin(), "venv", "--quiet", "--python", base, place])
        asked = f"openassay[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
        run_plain(
            [
                uv.find_uv_bin(),
                "pip",
                "install",
                "--quiet",
                "--python",
                place / "bin" / "python",
                *options,
                asked,
            ]
        )
        return place / "bin", environ

    full = run_plain([base, "-c", "import sys; print(sys.version)"])
    sys.stdout.write(f"\n{base}: {full}\n")
    return install


def run_plain(command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=900, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def test_the_import_and_the_help_need_no_extra_and_warn_of_nothing(installed, tmp_path):
    programs, environ = installed("")
    code = "import assay; [getattr(assay, name) for name in assay.__all__]; print(assay.__file__)"
    place = run_plain([programs / "python", "-W", "error", "-c", code], env=environ, cwd=tmp_path)
    assert place.startswith(str(programs.parent))
    assert "evaluate" in run_plain([programs / "assay", "--help"], env=environ, cwd=tmp_path)
    assert (Path(place).parent / "py.typed").exists()


def test_init_try_and_the_first_run(installed, tmp_path):
    _, environ = installed("store")
    (tmp_path / "eval.csv").write_text("question,expected,answer\nCapital of Peru?,Lima,It is Lima.\n")
    for command in (
        "assay init --table eval.csv",
        "assay try 'contains: [Lima]' --output 'It is Lima.'",
        "assay validate checks.yaml assay.toml",
        "assay evaluate eval.csv --checks checks.yaml --save -o results.jsonl",
        "assay show latest",
    ):
        run_plain(["sh", "-e", "-c", command], env=environ | {"PYTHONWARNINGS": "error"}, cwd=tmp_path)


def test_the_examples_of_the_readme(installed, tmp_path):
    programs, environ = installed("compare,store")
    run_blocks(ROOT / "README.md", tmp_path, environ, programs / "python")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*.md")), ids=lambda one: one.stem)
def test_a_tutorial_needs_no_other_extras_than_it_names(page, installed, tmp_path):
    programs, environ = installed(
        re.search(r"pip install 'openassay\[([\w,]+)\]'", page.read_text("utf-8"))[1]
    )
    run_blocks(page, tmp_path, environ, programs / "python")


NO_WHEEL = {"3.14": {"similarity"}}  # a package of these extras has to be compiled: docs/requirements.md


def test_every_extra_can_be_installed_without_a_compiler_and_imported(version, installed, tmp_path):
    extras = sorted(set(EXTRAS) - NO_WHEEL.get(version, set()))
    programs, environ = installed(",".join(extras), "--only-binary", ":all:")
    code = (
        "import importlib\n"
        f"for extra in {extras}:\n"
        "    for module in __import__('assay.extras').extras.EXTRAS[extra].values():\n"
        "        importlib.import_module(module)\n"
        "import assay.host.servers, assay.cli.main"
    )
    run_plain([programs / "python", "-c", code], env=environ, cwd=tmp_path)
