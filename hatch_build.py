"""Build step: generates the gRPC messages of the package from proto/."""

import shutil
import sys
import tempfile
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PROTO = "fep/v1/fep.proto"
ROOM = ROOT / "src" / "assay" / "serve" / "grpc"


def make() -> list[Path]:
    """Generate fep_pb2.py and its type stubs."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        known = files("grpc_tools") / "_proto"
        asked = [f"-I{ROOT / 'proto'}", f"-I{known}", f"--python_out={folder}", f"--pyi_out={folder}", PROTO]
        if protoc.main(["protoc", *asked]) != 0:
            sys.exit(f"{PROTO} could not be compiled")
        made = sorted(Path(folder, PROTO).parent.iterdir())
        return [_copied(one, ROOM / one.name) for one in made]


def _copied(source: Path, target: Path) -> Path:
    """Write only a file that changes: a process that imports it meanwhile would find half of it."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copy(source, target)
    return target


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand
    pass
else:

    class Hook(BuildHookInterface[Any]):
        """Generate for a wheel, and for an editable install if grpcio-tools is installed. Otherwise `make` generates them later."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.target_name == "wheel" and (version != "editable" or find_spec("grpc_tools")):
                make()


if __name__ == "__main__":
    make()
