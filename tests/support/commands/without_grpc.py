"""`assay` where gRPC is not installed: a job for the one that forks."""

import sys
from typing import Any


def main():
    modules: dict[str, Any] = sys.modules
    modules["grpc"] = None  # so that it is not found
    from assay.cli.main import main as command

    command()
