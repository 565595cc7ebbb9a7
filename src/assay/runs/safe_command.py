"""
A command line without secrets: by the name of an option, a variable or a header, by the format of a text, and by the
values of the variables that hold secrets.
"""

import os
import shlex
from collections.abc import Mapping, Sequence

from assay.checks.safety.secret_formats import is_random
from assay.checks.safety.secret_leak import secret_spans
from assay.lazy_pattern import lazy_pattern
from assay.protocol.redaction import REDACTED, is_secret, redact_text, redact_url

MAX_COMMAND = 2_000  # characters
LEAST_SECRET = 6  # characters of the value of a variable that is searched for
_OPTION = lazy_pattern(r"--?([A-Za-z][\w-]*)\Z")
_ASSIGNED = lazy_pattern(r"(-{0,2}[A-Za-z_][\w.-]*)(=|:\s?)(.+)\Z")
_URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'`<>]+")
_ID = lazy_pattern(r"(?:run-|eval_)[0-9a-f-]+\Z")
_FILE = lazy_pattern(
    r"[\w./+@ -]+\.(?:jsonl?|ndjson|csv|tsv|ya?ml|toml|xlsx|parquet|pb|gz|py|html|md|db|txt|xml|sarif)\Z"
)


def safe_command(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The command line as it may be stored and shown."""
    secrets = sorted(
        {
            value
            for name, value in environment.items()
            if len(value) >= LEAST_SECRET and is_secret(name, value)
        },
        key=len,
        reverse=True,
    )
    words: list[str] = []
    hidden = False
    for raw in arguments:
        argument = raw
        for secret in secrets:
            argument = argument.replace(secret, REDACTED)
        words.append(REDACTED if hidden else _safe_argument(argument))
        option = _OPTION.match(argument)
        hidden = option is not None and is_secret(option[1], "")
    text = shlex.join(["assay", *words]).replace(f"'{REDACTED}'", REDACTED)
    return text if len(text) <= MAX_COMMAND else f"{text[: MAX_COMMAND - 1]}…"


def _safe_argument(argument: str) -> str:
    """An argument may be a command line itself, such as that of an agent."""
    argument = _URL.sub(lambda match: _safe_url(match[0]), argument)
    assigned = _ASSIGNED.match(argument)
    if assigned is not None and is_secret(assigned[1], "") and "://" not in argument:
        return f"{assigned[1]}{assigned[2]}{REDACTED}"
    for start, end, _ in reversed(secret_spans(argument)):
        argument = f"{argument[:start]}{REDACTED}{argument[end:]}"
    argument = redact_text(argument)
    words: list[str] = []
    hidden = False
    for word in argument.split(" "):
        words.append(REDACTED if hidden and word else _safe_word(word))
        option = _OPTION.match(word)
        hidden = option is not None and is_secret(option[1], "")
    return " ".join(words)


def _safe_url(url: str) -> str:
    """Without user, password and query; and without a part of the path that looks like a key."""
    scheme, mark, rest = redact_url(url).partition("://")
    return scheme + mark + "/".join(REDACTED if is_random(part) else part for part in rest.split("/"))


def _safe_word(word: str) -> str:
    assigned = _ASSIGNED.match(word)
    name, between, value = (assigned[1], assigned[2], assigned[3]) if assigned else ("", "", word)
    if name and is_secret(name, "") and "://" not in word:
        return f"{name}{between}{REDACTED}"
    if "://" in value or _ID.match(value) or _FILE.match(value) or os.path.exists(value):
        return word
    return f"{name}{between}{REDACTED}" if is_random(value) else word
