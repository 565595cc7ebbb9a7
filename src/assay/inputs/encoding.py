"""Refuses a CSV file that is not UTF-8, before a part of it is used."""

from codecs import getincrementaldecoder
from pathlib import Path
from shlex import quote

from assay.errors import UsageError
from assay.inputs.files import BLOCK, format_of, open_file


def check_encoding(name: str) -> None:
    """Raise UsageError for a CSV that is not UTF-8. What is no file on disk is not read here."""
    form, compressed = format_of(name, "jsonl")
    if form != "csv" or name == "-" or not Path(name).is_file():
        return
    decoder, line, block = getincrementaldecoder("utf-8")(), 1, b"-"
    with open_file(name, compressed=compressed) as file:
        while block:
            block = file.read(BLOCK)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as wrong:
                line += wrong.object[: wrong.start].count(b"\n")
                raise UsageError(
                    f"{name}:{line}: not UTF-8; save it as CSV UTF-8, or convert it, if it is of Windows (cp1252):",
                    f"next: iconv -f CP1252 -t UTF-8 {quote(name)} > utf8.csv",
                ) from None
            line += block.count(b"\n")
