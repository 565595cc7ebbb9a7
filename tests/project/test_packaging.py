"""The distribution: its name, its extras and its version are the same in pyproject.toml, the code and the documents."""

import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

import httpx
import uv
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import assay
from assay.extras import DISTRIBUTION, EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = "assay/serve/page/dist/"
OPTIONAL = PROJECT["optional-dependencies"]


def _name(requirement: str) -> str:
    return re.match(r"[\w-]+", requirement)[0]


def test_the_table_of_extras_is_that_of_the_project():
    declared = {
        extra: {_name(line) for line in lines if ";" not in line}  # a marker: not on every platform
        for extra, lines in OPTIONAL.items()
        if extra != "all"
    }
    assert declared == {extra: set(packages) for extra, packages in EXTRAS.items()}


def test_the_extra_all_has_every_other_one():
    names = re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", OPTIONAL["all"][0])[1]
    assert sorted(names.split(",")) == sorted(set(OPTIONAL) - {"all"})
    assert PROJECT["name"] == DISTRIBUTION


def test_the_documents_name_extras_that_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    lines = [
        (page.name, *found)
        for page in pages
        for found in re.findall(r"'([\w.]*)\[([\w,-]+)\]'", page.read_text())
    ]
    assert len(lines) > 8
    for page, name, extras in lines:
        assert name in (".", DISTRIBUTION), page
        assert set(extras.split(",")) <= set(OPTIONAL), page
    table = (ROOT / "docs" / "getting-started.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(OPTIONAL)


def test_the_version_does_not_depend_on_the_metadata_of_an_installation():
    """A source tree, or an installation under another name, has the version too."""
    code = (
        "import importlib.metadata as m\n"
        "def gone(name): raise m.PackageNotFoundError(name)\n"
        "m.version = gone\n"
        "import sys; sys.argv = ['assay', '--version']\n"
        "from assay.cli.main import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"assay {assay.__version__}\n", "")
    assert PROJECT["dynamic"] == ["version"]


def test_the_newest_section_of_the_changelog_is_this_version():
    """`make dist` gives the files its date."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(assay.__version__)} \(20\d\d-\d\d-\d\d\)", headings[1])


def test_the_locked_requirements_of_all_extras_are_those_that_the_tests_run_with():
    """The bill of materials of a release is made from them."""
    tested, locked = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("dev.txt", "all.txt")
    )
    assert locked.items() <= tested.items()
    needed = {canonicalize_name(_name(line)) for lines in OPTIONAL.values() for line in lines} - {
        DISTRIBUTION
    }
    assert needed | {canonicalize_name(_name(line)) for line in PROJECT["dependencies"]} <= set(locked)


# The wheel, in an environment of its own


def closure(wheel: Path, *extras: str) -> set[str]:
    """The distributions that the wheel asks for, and those that these ask for: names as in a registry."""
    with ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        lines = metadata.PathDistribution(ZipPath(wheel, name.removesuffix("METADATA"))).requires or []
    found: set[str] = set()
    waiting = [(line, extras) for line in lines]
    while waiting:
        line, chosen = waiting.pop()
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *chosen)):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            found.add(name)
            waiting += [(one, tuple(requirement.extras)) for one in metadata.requires(name) or []]
    return found


def link(name: str, site: Path) -> None:
    """A distribution of this environment in another one: links instead of a download."""
    distribution = metadata.distribution(name)
    tops = {Path(str(file)).parts[0] for file in distribution.files or [] if ".." not in str(file)}
    for top in tops - {"__pycache__"}:
        there = Path(str(distribution.locate_file(top)))
        if there.exists() and not (site / top).exists():
            (site / top).symlink_to(there)


def first_screen(page: str) -> tuple[dict[str, str], str, str]:
    """The files, the commands and the output of the first example of a page."""
    blocks = re.findall(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    at = next(number for number, (language, _, _) in enumerate(blocks) if language == "sh")
    files = {name: text for _, name, text in blocks[:at] if name}
    assert blocks[at + 1][0] == "text"
    return files, blocks[at][2], blocks[at + 1][2]


def test_the_wheel_in_an_empty_environment_runs_the_first_screen_of_the_readme(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob(f"{DISTRIBUTION}-{assay.__version__}-*.whl")
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    install = [
        uv.find_uv_bin(),
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        str(python),
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=300)  # what pip would do, without its start
    site = next((home / "lib").glob("python*/site-packages"))
    needed = closure(wheel, "store")
    assert not {"pytest", "grpcio", "starlette", "aiohttp"} & needed
    for name in needed:
        link(name, site)
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith(PAGE)}
    built = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / PAGE).rglob("*")
        if file.is_file()
    }
    assert packed == built  # the page, if `make web` has built it
    files, commands, output = first_screen((ROOT / "README.md").read_text("utf-8"))
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    environ = {"PATH": f"{home / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steady = [re.sub(r"\d+\.\d s|run-\w+", "…", text).split() for text in (done.stdout, output)]
    assert steady[0] == steady[1]
    result = subprocess.run(
        [home / "bin" / "assay", "serve"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith(
        "pip install 'openassay[serve,grpc]' (in a clone: pip install -e '.[serve,grpc]')\n"
    )
    for name in closure(wheel, "store", "serve", "grpc"):
        link(name, site)
    assert ("<div id=" if built else "make web") in front_page(home, folder, environ)


def front_page(home: Path, folder: Path, environ: dict[str, str]) -> str:
    """What the installed server answers at `/`."""
    serve = [home / "bin" / "assay", "serve", "--port", "0", "--grpc-port", "0"]
    environ = environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        serve, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        address = next(line for line in server.stdout if line.startswith("assay serves")).split()[2]
        try:
            return httpx.get(f"{address}/", timeout=60).text
        finally:
            server.terminate()


def test_node_of_the_requirements_builds_the_page_where_the_machine_has_none(monkeypatch):
    """A wheel has no links, so npm of the package is called by its file."""
    monkeypatch.setenv("PATH", "/nonexistent")
    spec = spec_from_file_location("page_build", ROOT / "web" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    command, folder = build.npm_command()
    npm = subprocess.run(
        [str(Path(folder, command[0])), *command[1:], "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", npm.stdout)
