"""Every knob, read once: command line > ASSAY_* > assay.toml > defaults."""

import math
import os
import re
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from assay.auth.jwt_settings import JwtSettings, validate
from assay.backends.provider_config import InvalidProviderConfig, read
from assay.errors import UsageError
from assay.ports import Limits, Provider, Secret
from assay.ports.config import AgentConfig, McpServer, ToolConfig, VerifierLoopConfig
from assay.protocol.json_types import is_object
from assay.protocol.validation_messages import message_of, place_in
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.web.limits import ServerLimits

PREFIX = "ASSAY_"
MODEL, JWT = f"{PREFIX}MODEL_", f"{PREFIX}JWT_"
TABLES = frozenset(
    {"limits", "serving", "openwop", "jwt", "models", "providers", "agents", "tools", "mcp", "workflows"}
)


Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    `ASSAY_CONCURRENCY` or `concurrency` in assay.toml; those of `[limits]`, `[serving]` and `[openwop]` in the environment flat.

    `[models]` names models by what they are for (`judge = "openai:gpt-4o-mini"`, or `ASSAY_MODEL_JUDGE`), and
    `[providers.NAME]` says where they are; `${VARIABLES}` there are filled in when a provider is used. Those of `[jwt]` are
    `ASSAY_JWT_ISSUER` and so on.
    """

    home: str = ".assay"
    database_url: str = ""  # "": SQLite, assay.db in the home folder
    evidence_key: Secret | None = None  # ID:BASE64, the newest first; None: the record lies in clear
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""  # "": clients need no certificate
    concurrency: int = 16
    worker_processes: Annotated[int, msgspec.Meta(ge=0)] = 0  # 0: one more than there are cores
    host_id: str = "assay.local/main"  # how other hosts name this one
    grpc_port: Port = 8322  # 0: any that is free
    check_modules: list[str] = []
    limits: Limits = Limits()
    serving: ServerLimits = ServerLimits()
    openwop: OpenWopFeatures = OpenWopFeatures()
    jwt: JwtSettings = JwtSettings()
    models: dict[str, str] = {}
    providers: dict[str, Provider] = {}
    agents: dict[str, AgentConfig] = {}
    tools: dict[str, ToolConfig] = {}
    mcp: dict[str, McpServer] = {}
    workflows: dict[str, VerifierLoopConfig] = {}


def load(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """What holds here and now. An unknown name or an impossible value is refused, with where it was said."""
    environment = os.environ if environment is None else environment
    told = _from_file(environment)
    limits, serving, openwop, jwt, models, tables, agents, tools, mcp, workflows = (
        _table(told, name)
        for name in (
            "limits",
            "serving",
            "openwop",
            "jwt",
            "models",
            "providers",
            "agents",
            "tools",
            "mcp",
            "workflows",
        )
    )
    flat = (
        (limits, Limits, PREFIX),
        (serving, ServerLimits, PREFIX),
        (openwop, OpenWopFeatures, PREFIX),
        (jwt, JwtSettings, JWT),
    )
    for name, said in environment.items():
        if name.startswith(MODEL) and said:
            models[name.removeprefix(MODEL).lower()] = said
    for table, kind, prefix in flat:
        for field in msgspec.structs.fields(kind):
            if (said := environment.get(prefix + field.name.upper())) is not None:
                table[field.name] = said
    for field in msgspec.structs.fields(Settings):
        if field.name not in TABLES and (said := environment.get(PREFIX + field.name.upper())) is not None:
            told[field.name] = [one for one in said.split(",") if one] if field.type == list[str] else said
    told.update((name, value) for name, value in given.items() if value is not None)
    if "evidence_key" in told and isinstance(said := told["evidence_key"], str):
        told["evidence_key"] = Secret(said) if said.strip() else None
    tabled = {"limits": limits, "serving": serving, "openwop": openwop, "jwt": jwt, "models": models}
    try:
        settings = msgspec.convert({**told, **tabled}, Settings, strict=False)
    except msgspec.ValidationError as wrong:
        raise _validation_error(wrong, {**told, **tabled}, environment) from None
    _positive(settings, environment)
    validate(settings.jwt)
    return msgspec.structs.replace(
        settings,
        providers=_providers(tables),
        **_configured({"agents": agents, "tools": tools, "mcp": mcp, "workflows": workflows}),
    )


def _table(told: dict[str, Any], name: str) -> dict[str, Any]:
    table = told.pop(name, {})
    if not is_object(table):
        raise UsageError(f"settings: {name}: expected a table, [{name}]")
    return dict(table)


def _providers(tables: dict[str, Any]) -> dict[str, Provider]:
    providers: dict[str, Provider] = {}
    for name, table in tables.items():
        if not is_object(table):
            raise UsageError(f"settings: providers.{name}: expected a table, [providers.{name}]")
        try:
            providers[name] = read(name, table)
        except InvalidProviderConfig as wrong:
            raise UsageError(f"settings: providers.{name}.{wrong.member}: {wrong}") from None
    return providers


CONFIGURED = {"agents": AgentConfig, "tools": ToolConfig, "mcp": McpServer, "workflows": VerifierLoopConfig}
TOOL = re.compile(r"[^:\s]+:\S+\Z")


def _configured(told: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`[agents."<id>"]` and its like: every problem of every table at once, each with its place."""
    wrong: list[str] = []
    read: dict[str, dict[str, Any]] = {name: {} for name in told}
    for name, tables in told.items():
        for id, table in tables.items():
            place = f'settings: {name}."{id}"'
            if name == "tools" and not TOOL.match(id):
                wrong.append(f"{place}: a tool's id is <scope>:<tool-id>, such as shop:orders")
            problems = _problems(table, CONFIGURED[name], place)
            wrong += problems
            if not problems:
                read[name][id] = msgspec.convert(table, CONFIGURED[name])
    if wrong:
        raise UsageError(*wrong)
    return read


def _problems(table: Any, kind: type[Struct], place: str) -> list[str]:
    if not is_object(table):
        return [f"{place}: expected a table"]
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    wrong = [
        f"{place}.{one}: no such setting; there are {', '.join(fields)}" for one in table if one not in fields
    ]
    for field in fields.values():
        if field.name not in table:
            wrong += [f"{place}.{field.name}: must be said"] if field.required else []
            continue
        try:
            msgspec.convert(table[field.name], field.type)
        except msgspec.ValidationError as bad:
            wrong.append(f"{place}.{field.name}{place_in(bad)}: {message_of(bad, field.type)}")
    return wrong


def _from_file(environment: Mapping[str, str]) -> dict[str, Any]:
    named = environment.get(PREFIX + "CONFIG")
    path = Path(named or "assay.toml")
    try:
        told = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        if named:
            raise UsageError(f"ASSAY_CONFIG names {named}, and there is no such file") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise UsageError(f"{path}: not TOML: {wrong}") from None
    except OSError as wrong:
        raise UsageError(f"{path}: cannot be read: {wrong.strerror}") from None
    known = {field.name for field in msgspec.structs.fields(Settings)}
    for name in told:
        if name not in known:
            raise UsageError(f"{path}: no setting {name!r}; there are {', '.join(sorted(known))}")
    return told


def _validation_error(
    wrong: msgspec.ValidationError, said: dict[str, Any], environment: Mapping[str, str]
) -> UsageError:
    place, words = place_in(wrong).lstrip("."), message_of(wrong, Settings)
    value: Any = said
    for name in place.split("."):
        value = value.get(name) if is_object(value) else None
    if isinstance(value, str):
        words = words.replace("got `str`", f"got {value!r}")
    return UsageError(f"{_source_of(place, environment)}: {words}" if place else f"settings: {words}")


def _source_of(place: str, environment: Mapping[str, str]) -> str:
    """The variable that said it, or else its place in the file."""
    table, _, name = place.rpartition(".")
    variable = (JWT if table == "jwt" else PREFIX) + name.upper()
    return variable if variable in environment else f"settings: {place}"


def _positive(settings: Settings, environment: Mapping[str, str]) -> None:
    tables = (
        msgspec.structs.asdict(table) for table in (settings.limits, settings.serving, settings.openwop)
    )
    numbers = ChainMap({"concurrency": settings.concurrency}, *tables)
    for name, value in numbers.items():
        if not (isinstance(value, bool) or 0 < value < math.inf):
            raise UsageError(f"{_source_of(name, environment)}: expected a number above 0, got {value}")
