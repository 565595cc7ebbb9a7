"""Every knob, read once: command line > ASSAY_* > assay.toml > defaults."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.errors import WrongUsage
from assay.ports import Limits

PREFIX = "ASSAY_"


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ASSAY_CONCURRENCY` or `concurrency` in assay.toml; the limits under `[limits]`, in the environment flat."""

    home: str = ".assay"
    database_url: str = ""  # "": SQLite, assay.db in the home folder
    concurrency: int = 16
    check_modules: list[str] = []
    limits: Limits = Limits()


def load(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """What holds here and now. An unknown name or an impossible value is refused, with where it was said."""
    environment = os.environ if environment is None else environment
    told = _from_file(environment)
    limits: dict[str, Any] = dict(told.pop("limits", {}))
    for field in msgspec.structs.fields(Limits):
        if (said := environment.get(PREFIX + field.name.upper())) is not None:
            limits[field.name] = said
    for field in msgspec.structs.fields(Settings):
        if field.name != "limits" and (said := environment.get(PREFIX + field.name.upper())) is not None:
            told[field.name] = said.split(",") if field.type == list[str] else said
    told.update((name, value) for name, value in given.items() if value is not None)
    try:
        settings = msgspec.convert({**told, "limits": limits}, Settings, strict=False)
    except msgspec.ValidationError as wrong:
        raise WrongUsage(f"settings: {_place(wrong)}") from None
    _positive(settings)
    return settings


def _from_file(environment: Mapping[str, str]) -> dict[str, Any]:
    named = environment.get(PREFIX + "CONFIG")
    path = Path(named or "assay.toml")
    try:
        told = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            raise WrongUsage(f"ASSAY_CONFIG names {named}, and there is no such file") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise WrongUsage(f"{path}: not TOML: {wrong}") from None
    except OSError as wrong:
        raise WrongUsage(f"{path}: cannot be read: {wrong.strerror}") from None
    known = {field.name for field in msgspec.structs.fields(Settings)}
    for name in told:
        if name not in known:
            raise WrongUsage(f"{path}: no setting {name!r}; there are {', '.join(sorted(known))}")
    return told


def _place(wrong: msgspec.ValidationError) -> str:
    message, _, place = str(wrong).partition(" - at `$.")
    return f"{place.rstrip('`')}: {message}" if place else message


def _positive(settings: Settings) -> None:
    numbers = {"concurrency": settings.concurrency, **msgspec.structs.asdict(settings.limits)}
    for name, value in numbers.items():
        if value <= 0:
            raise WrongUsage(f"settings: {name}: wanted a number above 0, got {value}")
