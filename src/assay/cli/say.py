"""One clear line on standard error."""

import sys


def say(text: str) -> None:
    print(f"assay: {text}".encode("utf-8", "replace").decode(), file=sys.stderr)  # noqa: T201
