"""All settings, loaded once. Precedence: command line, ASSAY_* variables, assay.toml, defaults."""

import math
import os
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from assay import client_tls
from assay.auth.jwt_settings import JwtSettings, validate
from assay.auth.oidc_settings import OidcSettings, validate_oidc
from assay.backends.provider_config import InvalidProviderConfig, read
from assay.errors import UsageError
from assay.errors.nearest import did_you_mean
from assay.ports import Limits, Provider, Secret
from assay.ports.config import (
    AgentConfig,
    McpServer,
    PackKeyConfig,
    Retention,
    SafetyPolicy,
    ToolConfig,
    TraceProjectConfig,
    VerifierLoopConfig,
)
from assay.protocol.json_types import is_object
from assay.protocol.validation_messages import message_of, path_in
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.web.limit_settings import ServerLimits

T = TypeVar("T", bound=Struct)
PREFIX = "ASSAY_"
MOST_LINES = 100  # problems that are reported together
UNKNOWN = re.compile(r"(?:an o|O)bject contains unknown field `([^`]+)`")
MODEL, JWT, OIDC, WORKERS = f"{PREFIX}MODEL_", f"{PREFIX}JWT_", f"{PREFIX}OIDC_", f"{PREFIX}WORKERS_"
TABLES = (
    "limits",
    "serving",
    "openwop",
    "jwt",
    "oidc",
    "workers",
    "models",
    "providers",
    "agents",
    "tools",
    "mcp",
    "workflows",
    "pack_keys",
    "safety",
    "retention",
    "traces",
)


Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class WorkerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[workers]`: how `assay worker` processes share runs. The variables are `ASSAY_WORKERS_LEASE` and so on."""

    lease: float = 10.0  # seconds without a heartbeat after which other workers take over
    tenant_units: Annotated[int, msgspec.Meta(ge=0)] = (
        0  # of one tenant, at once, on all workers; 0: no limit
    )
    tenant_units_per_minute: Annotated[int, msgspec.Meta(ge=0)] = 0  # that start; 0: no limit


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    A setting is `concurrency` in assay.toml or `ASSAY_CONCURRENCY`.

    Variables for `[limits]`, `[serving]` and `[openwop]` have no table name in them; those for `[jwt]` are
    `ASSAY_JWT_ISSUER` and so on, and those for `[oidc]` `ASSAY_OIDC_ISSUER`.

    `[models]` names models by their use (`judge = "openai:gpt-4o-mini"`, or `ASSAY_MODEL_JUDGE`). `[providers.NAME]`
    configures a provider; `${VARIABLES}` in it are expanded when the provider is used.
    """

    home: str = ".assay"
    database_url: str = ""  # "": SQLite, assay.db in the home folder
    evidence_key: Secret | None = None  # ID:BASE64, newest first; None: records are not encrypted
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""  # "": clients need no certificate
    tls_ca: str = (
        ""  # a file of CAs that are trusted beside those of the system, for connections to other hosts
    )
    concurrency: int = 16
    jobs: Annotated[int, msgspec.Meta(ge=0)] = (
        0  # processes of `assay evaluate`, at most; 0: the number of cores
    )
    worker_processes: Annotated[int, msgspec.Meta(ge=0)] = 0  # 0: the number of cores plus one
    host_id: str = "assay.local/main"  # the name of this host for other hosts
    grpc_port: Port = 8322  # 0: any free port
    server_processes: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1  # processes of `assay serve`
    engine: Literal["local", "workers"] = "local"  # workers: `assay serve` only serves
    check_modules: list[str] = []
    agent_hosts: list[str] = []  # hosts that agents of tenants may have beside public addresses
    allow_python_code: bool = False  # checks may bring code, which runs with the rights of this process
    send_explanations: bool = (
        False  # verdicts that `--to` sends have the reasons of checks, which are content
    )
    promotion_policy: str = ""  # a file; "": a passed eval run for the states staged and active
    limits: Limits = Limits()
    serving: ServerLimits = ServerLimits()
    openwop: OpenWopFeatures = OpenWopFeatures()
    jwt: JwtSettings = JwtSettings()
    oidc: OidcSettings = OidcSettings()
    workers: WorkerSettings = WorkerSettings()
    models: dict[str, str] = {}
    providers: dict[str, Provider] = {}
    agents: dict[str, AgentConfig] = {}
    tools: dict[str, ToolConfig] = {}
    mcp: dict[str, McpServer] = {}
    workflows: dict[str, VerifierLoopConfig] = {}
    pack_keys: dict[str, PackKeyConfig] = {}
    safety: SafetyPolicy = SafetyPolicy()  # of tool calls, in the mode adversarial
    retention: Retention = Retention()  # what `assay admin gc` removes
    traces: dict[str, TraceProjectConfig] = {}  # the projects that a server takes traces for


def load(environment: Mapping[str, str] | None = None, **options: Any) -> Settings:
    """Load the settings. An unknown name or invalid value is a UsageError that names its source."""
    environment = os.environ if environment is None else environment
    values, unknown = _from_file(environment)
    (
        limits,
        serving,
        openwop,
        jwt,
        oidc,
        workers,
        models,
        tables,
        agents,
        tools,
        mcp,
        workflows,
        pack_keys,
        safety,
        retention,
        traces,
    ) = (_table(values, name) for name in TABLES)
    flat = (
        (limits, Limits, PREFIX),
        (serving, ServerLimits, PREFIX),
        (openwop, OpenWopFeatures, PREFIX),
        (jwt, JwtSettings, JWT),
        (oidc, OidcSettings, OIDC),
        (workers, WorkerSettings, WORKERS),
    )
    for name, text in environment.items():
        if name.startswith(MODEL) and text:
            models[name.removeprefix(MODEL).lower()] = text
    for table, kind, prefix in flat:
        for name in kind.__struct_fields__:
            if (text := environment.get(prefix + name.upper())) is not None:
                table[name] = text
    for name in Settings.__struct_fields__:
        if name not in TABLES and (text := environment.get(PREFIX + name.upper())) is not None:
            is_list = Settings.__annotations__[name] == list[str]
            values[name] = [part for part in text.split(",") if part] if is_list else text
    values.update((name, value) for name, value in options.items() if value is not None)
    _read_secret(values, "evidence_key")
    _read_secret(oidc, "client_secret")
    if isinstance(text := oidc.get("grants"), str):
        oidc["grants"] = _from_json(f"{OIDC}GRANTS", text)
    tabled = {
        "limits": limits, "serving": serving, "openwop": openwop, "jwt": jwt, "oidc": oidc, "workers": workers,
        "models": models,
    }  # fmt: skip
    groups = {
        "agents": agents, "tools": tools, "mcp": mcp, "workflows": workflows, "pack_keys": pack_keys, "traces": traces,
    }  # fmt: skip
    parsed = _all_of(
        unknown,
        {
            "settings": lambda: _flat({**values, **tabled}, environment),
            "providers": lambda: _providers(tables),
            "safety": lambda: _single(safety, SafetyPolicy, "safety"),
            "retention": lambda: _single(retention, Retention, "retention"),
            "tables": lambda: _parse_tables(groups),
        },
    )
    settings, configs = parsed.pop("settings"), parsed.pop("tables")
    client_tls.trust(settings.tls_ca)
    return msgspec.structs.replace(settings, **parsed, **configs)


def _all_of(wrong: list[str], readers: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each part reads. The problems of all parts are reported together, after those that are known."""
    parsed: dict[str, Any] = {}
    for name, read_part in readers.items():
        try:
            parsed[name] = read_part()
        except UsageError as refusal:
            wrong += refusal.lines
    if wrong:
        raise UsageError(*wrong)
    return parsed


def _flat(values: dict[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings that stand outside tables of named entries. Every wrong one is reported."""
    wrong: list[str] = []
    while True:
        try:
            settings = msgspec.convert(values, Settings, strict=False)
            break
        except msgspec.ValidationError as error:
            place = _place_of(error)
            wrong.append(_validation_line(error, place, values, environment))
            if len(wrong) >= MOST_LINES or not _leave_out(values, place):
                raise UsageError(*wrong) from None
    if wrong:
        raise UsageError(*wrong)
    _positive(settings, environment)
    validate(settings.jwt)
    return msgspec.structs.replace(settings, oidc=validate_oidc(settings.oidc))


def _read_secret(table: dict[str, Any], name: str) -> None:
    """An empty text is no secret."""
    if isinstance(text := table.get(name), str):
        table[name] = Secret(text) if text.strip() else None


def _from_json(variable: str, text: str) -> Any:
    """A table in a variable. It may be empty, as other variables."""
    try:
        return msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as wrong:
        raise UsageError(f"{variable}: expected JSON, such as {{}}: {wrong}") from None


def _leave_out(values: dict[str, Any], place: str) -> bool:
    """Remove a wrong value, so that the next one is found. False: there is none at this place."""
    *around, last = place.split(".")
    table: Any = values
    for name in around:
        table = table.get(name) if is_object(table) else None
    return is_object(table) and table.pop(last, None) is not None


def _table(values: dict[str, Any], name: str) -> dict[str, Any]:
    table = values.pop(name, {})
    if not is_object(table):
        raise UsageError(f"settings: {name}: expected a table, [{name}]")
    return dict(table)


def _single(table: dict[str, Any], kind: type[T], name: str) -> T:
    """Parse a table such as `[safety]`, of which there is one."""
    if problems := _problems(table, kind, f"settings: {name}"):
        raise UsageError(*problems)
    return msgspec.convert(table, kind)


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


CONFIGURED = {
    "agents": AgentConfig,
    "tools": ToolConfig,
    "mcp": McpServer,
    "workflows": VerifierLoopConfig,
    "pack_keys": PackKeyConfig,
    "traces": TraceProjectConfig,
}
TOOL = re.compile(r"[^:\s]+:\S+\Z")


def _parse_tables(groups: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Parse tables such as `[agents."<id>"]`. All problems of all tables are reported together."""
    wrong: list[str] = []
    configs: dict[str, dict[str, Any]] = {name: {} for name in groups}
    for name, tables in groups.items():
        for id, table in tables.items():
            place = f'settings: {name}."{id}"'
            if name == "tools" and not TOOL.match(id):
                wrong.append(f"{place}: a tool's id is <scope>:<tool-id>, such as shop:orders")
            problems = _problems(table, CONFIGURED[name], place)
            wrong += problems
            if not problems:
                configs[name][id] = msgspec.convert(table, CONFIGURED[name])
    if wrong:
        raise UsageError(*wrong)
    return configs


def _problems(table: Any, kind: type[Struct], path: str) -> list[str]:
    if not is_object(table):
        return [f"{path}: expected a table"]
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    wrong = [
        f"{path}.{one}: no such setting; there are {', '.join(fields)}" for one in table if one not in fields
    ]
    for field in fields.values():
        if field.name not in table:
            wrong += [f"{path}.{field.name}: is required"] if field.required else []
            continue
        try:
            msgspec.convert(table[field.name], field.type)
        except msgspec.ValidationError as bad:
            wrong.append(f"{path}.{field.name}{path_in(bad)}: {message_of(bad, field.type)}")
    return wrong


def _from_file(environment: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values of the file, and a line for each name in it that is no setting."""
    named = environment.get(PREFIX + "CONFIG")
    path = Path(named or "assay.toml")
    if not named and not os.path.exists(path):
        return {}, []
    import tomllib  # deferred import: most programs have no such file

    try:
        values = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        if named:
            raise UsageError(f"ASSAY_CONFIG: there is no file {named}") from None
        return {}, []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise UsageError(f"{path}: not TOML: {wrong}") from None
    except OSError as wrong:
        raise UsageError(f"{path}: expected a file that can be read, got {wrong.strerror}") from None
    names = set(Settings.__struct_fields__)
    unknown = [name for name in values if name not in names]
    listed = ", ".join(sorted(names))
    wrong = [
        f"{path}: there is no setting {name!r}{did_you_mean(name, names, ' (', ')')}; there are {listed}"
        for name in unknown[:MOST_LINES]
    ]
    return {name: value for name, value in values.items() if name in names}, wrong


def _place_of(error: msgspec.ValidationError) -> str:
    """`limits.max_cases`: the wrong value, or the member that does not exist."""
    unknown = UNKNOWN.search(str(error))
    return f"{path_in(error)}{f'.{unknown[1]}' if unknown else ''}".lstrip(".")


def _validation_line(
    error: msgspec.ValidationError, place: str, values: dict[str, Any], environment: Mapping[str, str]
) -> str:
    words = UNKNOWN.sub("no such setting", message_of(error, Settings))
    value: Any = values
    for name in place.split("."):
        value = value.get(name) if is_object(value) else None
    if isinstance(value, str):
        words = words.replace("got a string", f"got {value!r}")
    return f"{_source_of(place, environment)}: {words}" if place else f"settings: {words}"


def _source_of(path: str, environment: Mapping[str, str]) -> str:
    """The variable that set it, or its place in the file."""
    table, _, name = path.rpartition(".")
    variable = {"jwt": JWT, "oidc": OIDC, "workers": WORKERS}.get(table, PREFIX) + name.upper()
    return variable if variable in environment else f"settings: {path}"


def _positive(settings: Settings, environment: Mapping[str, str]) -> None:
    tables = (
        msgspec.structs.asdict(table) for table in (settings.limits, settings.serving, settings.openwop)
    )
    own = {"concurrency": settings.concurrency, "workers.lease": settings.workers.lease}
    numbers = ChainMap(own, *tables)
    for name, value in numbers.items():
        if not (isinstance(value, bool) or 0 < value < math.inf):
            raise UsageError(f"{_source_of(name, environment)}: expected a number above 0, got {value}")


# The switches of the test-only parts: variables of the environment that only an operator sets.


def fixtures_enabled() -> bool:
    """Whether the conformance suite may start its own workflows here (openwop-contract §11)."""
    return os.environ.get("OPENWOP_CONFORMANCE_SEED") == "true"


def routes_enabled() -> bool:
    """Whether this host serves the test-only routes of the conformance suite (openwop-contract §0.6)."""
    return os.environ.get("OPENWOP_TEST_SEAM_ENABLED") == "true"
