"""
Backends of traces that receive verdicts: `otlp` and `phoenix`, each at its usual address or at a URL.

To add one, write its file and a line of the table.
"""

from collections.abc import Callable, Mapping

from assay.backends.verdicts.otlp import OtlpReceiver
from assay.backends.verdicts.phoenix import PhoenixReceiver
from assay.errors import UsageError
from assay.ports.verdicts import VerdictReceiver

RECEIVERS: dict[str, Callable[[str, Mapping[str, str], Mapping[str, str] | None], VerdictReceiver]] = {
    "otlp": OtlpReceiver,
    "phoenix": PhoenixReceiver,
}
FORMS = ", ".join(form for name in RECEIVERS for form in (name, f"{name}=URL"))


def receiver_of(
    spec: str,
    environment: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    *,
    place: str = "--to",
) -> VerdictReceiver:
    """
    The receiver that `--to` names. The environment has its address, if the spec does not, and its keys.

    `headers` are in place of those of the environment: a key for one backend must not go to another.
    """
    name, _, url = spec.partition("=")
    if name not in RECEIVERS:
        raise UsageError(f"{place} {spec!r}: expected one of {FORMS}")
    try:
        return RECEIVERS[name](url, environment, headers)
    except ValueError as wrong:
        raise UsageError(f"{place} {name}: {wrong}") from None
