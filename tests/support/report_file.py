"""The data of a report in HTML."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import zstandard


def report_text(file: Path) -> str:
    """The data as JSON; empty if the file has none."""
    data = file.read_text("utf-8").partition('id="report">')[2].partition("</script>")[0]
    return zstandard.ZstdDecompressor().decompress(b64decode(data)).decode() if data else ""


def report_data(file: Path) -> Any:
    return json.loads(report_text(file))
