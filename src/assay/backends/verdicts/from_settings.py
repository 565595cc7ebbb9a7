"""The backends that get the verdicts of projects: `to` and `headers` of `[traces.NAME]`."""

from collections.abc import Mapping

from assay.backends.provider_config import InvalidProviderConfig, expand
from assay.backends.verdicts import receiver_of
from assay.errors import UsageError
from assay.ports.config import TraceProjectConfig
from assay.ports.verdicts import VerdictReceiver


def verdict_receivers(
    configs: Mapping[str, TraceProjectConfig], environment: Mapping[str, str]
) -> dict[str, dict[str, VerdictReceiver]]:
    """By project, and by what `to` says. Raises UsageError; no message has the value of a header."""
    found: dict[str, dict[str, VerdictReceiver]] = {}
    for name, config in configs.items():
        place = f"settings: traces.{name}"
        headers = _headers(config.headers, environment, place) if config.headers else None
        if headers and not config.targets:
            raise UsageError(f"{place}.headers: expected `to` with them; they are those of its requests")
        receivers = {
            spec: receiver_of(spec, environment, headers, place=f"{place}.to") for spec in config.targets
        }
        if len({one.address for one in receivers.values()}) < len(config.targets):
            raise UsageError(f"{place}.to: expected each address once")
        if receivers:
            found[name] = receivers
    return found


def _headers(table: Mapping[str, str], environment: Mapping[str, str], place: str) -> dict[str, str]:
    try:
        found = {name.lower(): expand(text, environment, name) for name, text in table.items()}
    except InvalidProviderConfig as wrong:
        raise UsageError(f"{place}.headers.{wrong.member}: {wrong}") from None
    for name, value in found.items():
        if not (value.isprintable() and name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
            raise UsageError(
                f"{place}.headers: expected names of letters, digits and -, with values of printable characters,"
                f" got {name[:40]!r}"
            )
    return found
