"""
Backends of traces that receive verdicts: `otlp` and `phoenix`, each at its usual address or at a URL.

To add one, write its file and a line of the table.
"""

from collections.abc import Callable, Mapping

from assay.backends.verdicts.otlp import OtlpReceiver
from assay.backends.verdicts.phoenix import PhoenixReceiver
from assay.errors import UsageError
from assay.ports.verdicts import VerdictReceiver

RECEIVERS: dict[str, Callable[[str, Mapping[str, str]], VerdictReceiver]] = {
    "otlp": OtlpReceiver,
    "phoenix": PhoenixReceiver,
}
FORMS = ", ".join(form for name in RECEIVERS for form in (name, f"{name}=URL"))


def receiver_of(spec: str, environment: Mapping[str, str]) -> VerdictReceiver:
    """The receiver that `--to` names. The environment has its address, if the spec does not, and its keys."""
    name, _, url = spec.partition("=")
    if name not in RECEIVERS:
        raise UsageError(f"--to {spec!r}: expected one of {FORMS}")
    try:
        return RECEIVERS[name](url, environment)
    except ValueError as wrong:
        raise UsageError(f"--to {name}: {wrong}") from None
