"""
Writes the software bill of materials, CycloneDX as JSON: `python release/sbom.py FILE VERSION`. release/build.py calls it.

cyclonedx-py reads requirements/all.txt: the versions that openassay[all] installs, each with its digests. Here the project gets
its version and what it asks for directly, and each component the name by which others refer to it.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation import make_schemabased_validator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SPEC = "1.6"


def components() -> dict[str, Any]:
    command = [
        sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", ROOT / "requirements" / "all.txt",
        "--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--spec-version", SPEC, "--output-reproducible",
    ]  # fmt: skip
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603


def direct() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(line for one in project["optional-dependencies"].values() for line in one),
    ]
    return {canonicalize_name(Requirement(line).name) for line in lines} - {
        canonicalize_name(project["name"])
    }


def completed(bom: dict[str, Any], version: str) -> dict[str, Any]:
    project = bom["metadata"]["component"]
    project["version"] = version
    project["bom-ref"] = project["purl"] = f"pkg:pypi/{project['name']}@{version}"
    for component in bom["components"]:
        line = component.pop("description")  # the line of the requirements with every digest again
        component["bom-ref"] = component["purl"]
        marker = re.search(r" ; (.+?)\s+--hash", line)
        if marker:  # not on every platform
            component["properties"] = [{"name": "assay:marker", "value": marker[1]}]
    asked = direct()
    parts = [one["bom-ref"] for one in bom["components"] if canonicalize_name(one["name"]) in asked]
    bom["dependencies"] = [{"ref": project["bom-ref"], "dependsOn": sorted(parts)}]
    bom["components"].sort(key=lambda one: one["bom-ref"])
    return bom


def main() -> None:
    target, version = sys.argv[1:]
    text = json.dumps(completed(components(), version), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    wrong = make_schemabased_validator(OutputFormat.JSON, SchemaVersion.from_version(SPEC)).validate_str(text)
    if wrong is not None:
        sys.exit(f"{target}: not CycloneDX {SPEC}: {wrong}")
    Path(target).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
