"""Redacts secret members of a configuration, recognised by their names, as `[REDACTED]` (FEP-17)."""

from typing import Any
from urllib.parse import urlsplit

from assay.protocol.json_types import is_list, is_object
from assay.protocol.redaction import is_secret

REDACTED = "[REDACTED]"
CONFIGURATION = frozenset({"provider_config", "model_config"})


def without_secrets(value: Any) -> Any:
    """
    The configuration as it may be shown.

        without_secrets({"api_key": "sk-1", "timeout": 30}) == {"api_key": "[REDACTED]", "timeout": 30}
    """
    if is_object(value):
        return {
            name: REDACTED if is_secret(name, one) else without_secrets(one) for name, one in value.items()
        }
    if is_list(value):
        return [without_secrets(one) for one in value]
    return _redact_url(value) if isinstance(value, str) else value


def redact_checks(checks: Any) -> Any:
    """Checks as they may be stored, one list or one list per case: without the secrets of their configuration."""
    if is_list(checks):
        return [redact_checks(one) for one in checks]
    if not is_object(checks) or not is_object(checks.get("arguments")):
        return checks
    arguments = {
        name: without_secrets(one) if name in CONFIGURATION else one
        for name, one in checks["arguments"].items()
    }
    return {**checks, "arguments": arguments}


def _redact_url(text: str) -> str:
    """A URL without its user and password, and without its query, which may hold keys."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return REDACTED
    _, at, host = parts.netloc.rpartition("@")
    query = REDACTED if parts.query else ""
    return parts._replace(netloc=f"{REDACTED}@{host}" if at else host, query=query).geturl()
