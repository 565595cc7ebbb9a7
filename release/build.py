"""
Builds what a release consists of: `make dist`. The same sources give the same bytes, in any folder and at any time.

    openassay-VERSION.tar.gz           the sources, with the built page and the generated messages of gRPC
    openassay-VERSION-py3-none-any.whl built from them
    openassay-VERSION.cdx.json         the software bill of materials: release/sbom.py
    SHA256SUMS                         their digests, for `sha256sum --check`

The version is that of src/assay/version.py. Every file has the date of that version in CHANGELOG.md.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SBOM_PYTHON = ROOT / "build" / "dist-env" / "bin" / "python"
HEADING = re.compile(r"^## (\d\S*) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
VERSION = re.compile(r'^__version__ = "(\S+)"$', re.MULTILINE)


def version_of(root: Path) -> str:
    found = VERSION.search((root / "src" / "assay" / "version.py").read_text("utf-8"))
    assert found is not None
    return found[1]


def epoch_of(root: Path, version: str) -> int:
    """The second at which the day of the newest section of CHANGELOG.md begins, in UTC."""
    found = HEADING.search((root / "CHANGELOG.md").read_text("utf-8"))
    if found is None or found[1] != version:
        newest = f"its newest version is {found[1]}" if found else "it has no version"
        sys.exit(f"CHANGELOG.md: expected a section '## {version} (YYYY-MM-DD)', {newest}")
    return int(datetime.fromisoformat(found[2]).replace(tzinfo=UTC).timestamp())


def uncommitted(root: Path) -> list[str]:
    """The files that differ from the commit. A folder without git has none."""
    if not (root / ".git").exists():
        return []
    status = ["git", "status", "--porcelain"]
    done = subprocess.run(status, cwd=root, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout.splitlines()


def build(root: Path, into: Path, sbom_python: Path | None) -> list[Path]:
    """Without `sbom_python` there is no bill of materials."""
    version = version_of(root)
    environ = os.environ | {"SOURCE_DATE_EPOCH": str(epoch_of(root, version)), "TZ": "UTC"}
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)

    def run(folder: Path, *command: str | Path) -> None:
        if subprocess.run([*map(str, command)], cwd=folder, env=environ, check=False).returncode:  # noqa: S603
            sys.exit(f"failed: {' '.join(map(str, command))}")

    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", into, "-t")
    run(root, *hatchling, "sdist")
    (sources,) = into.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sources) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
            archive.extractall(folder)  # noqa: S202  # made above
        run(Path(folder, sources.name.removesuffix(".tar.gz")), *hatchling, "wheel")
    if sbom_python is not None:
        run(root, sbom_python, root / "release" / "sbom.py", into / f"openassay-{version}.cdx.json", version)
    files = sorted(into.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (into / "SHA256SUMS").write_text("".join(sums), "utf-8")
    return files


def main() -> None:
    arguments = argparse.ArgumentParser(description="Build the files of a release.")
    arguments.add_argument(
        "--into", type=Path, default=ROOT / "dist", help="a folder, which is emptied first"
    )
    arguments.add_argument("--uncommitted", action="store_true", help="also if files are not committed")
    asked = arguments.parse_args()
    changed = uncommitted(ROOT)
    if changed and not asked.uncommitted:
        sys.exit("\n".join(["not committed; commit, or give ARGS=--uncommitted:", *changed]))
    for file in build(ROOT, asked.into.resolve(), SBOM_PYTHON):
        print(f"{file.stat().st_size:>10,}  {file}")  # noqa: T201


if __name__ == "__main__":
    main()
