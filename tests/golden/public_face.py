"""Lists of what other programs depend on, for the golden file `public.txt`: one line for each name that can be relied on."""

import inspect
import tomllib
from collections.abc import Iterator

import msgspec

from assay import batch, testing
from assay.backends.agents.frameworks import recognise
from assay.checks import STANDARD, registry
from assay.cli.admin.document_schemas import DOCUMENTS, LIST, document_types
from assay.errors import exit_codes
from assay.ports.telemetry import COUNTERS, GAUGES, TIMES
from assay.settings import PREFIX, Settings
from support.documents import ROOT


def settings() -> Iterator[str]:
    """Of the command and the server: types and defaults. In the environment a name has the prefix and capital letters."""
    yield f"prefix {PREFIX}"
    yield from described([Settings])


def documents() -> Iterator[str]:
    """What `--json` prints: the document of each verb, then the members of each type."""
    for verb, names in DOCUMENTS.items():
        listed = [f"list of {one.__args__[0].__name__}" if name.startswith(LIST) else one.__name__
                  for name, one in zip(names, document_types(verb), strict=True)]  # fmt: skip
        yield f"{verb}: {' | '.join(listed)}"
    yield from described([one for verb in DOCUMENTS for one in document_types(verb)])


def metrics() -> Iterator[str]:
    """With their labels, and without `assay_`: some look like API keys then."""
    for kind, known in (("counter", COUNTERS), ("histogram", TIMES)):
        yield from (
            f"{kind} {name.removeprefix('assay_')}({', '.join(metric.labels)})"
            for name, metric in known.items()
        )
    yield from (f"gauge {name.removeprefix('assay_')}" for name in GAUGES)


def codes() -> Iterator[str]:
    """Of the command and of a gate."""
    yield from (f"{value} {name}" for name, value in vars(exit_codes).items() if isinstance(value, int))


def entry_points() -> Iterator[str]:
    """Those that the distribution has, and the groups in which other packages add to assay."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    yield from (f"command {name} = {target}" for name, target in project["scripts"].items())
    for group, points in project["entry-points"].items():
        yield from (f"{group} {name} = {target}" for name, target in points.items())
    yield from (f"group {one.GROUP}" for one in (registry, recognise))
    yield from (f"extra {name}" for name in project["optional-dependencies"])


def checks() -> Iterator[str]:
    """Built-in checks with their versions and arguments."""
    for one in STANDARD:
        fields = ", ".join(
            field.encode_name + ("" if field.required else "?") for field in msgspec.structs.fields(one)
        )
        yield f"{one.type} {one.version}({fields})"


def modules() -> Iterator[str]:
    """The public modules beside `assay`."""
    for module in (batch, testing):
        names = getattr(module, "__all__", None) or [
            name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__
        ]
        for name in sorted(names):
            if not name.startswith("_"):
                parameters = inspect.signature(getattr(module, name)).parameters
                yield f"{module.__name__}.{name}({', '.join(parameters)})"


FACES = {one.__name__: one for one in (settings, documents, metrics, codes, entry_points, checks, modules)}


def described(types: list[type]) -> Iterator[str]:
    """The members of each type: `?` is optional, `=` a default."""
    _, parts = msgspec.json.schema_components(types, ref_template="{name}", schema_hook=named)
    for name in sorted(parts):
        part = parts[name]
        if "properties" not in part:
            yield f"{name}: {short(part)}"
            continue
        yield f"{name}"
        required = part.get("required", ())
        for member, value in part["properties"].items():
            default = f" = {msgspec.json.encode(value['default']).decode()}" if "default" in value else ""
            mark = "" if member in required or default else "?"
            yield f"  {member}{mark}: {short(value)}{default}"


def named(kind: type) -> dict:
    return {"type": kind.__name__}


def short(schema: dict) -> str:
    match schema:
        case {"$ref": name}:
            return name
        case {"anyOf": choices}:
            return " | ".join(map(short, choices))
        case {"enum": values}:
            return " | ".join(map(repr, values))
        case {"const": value}:
            return repr(value)
        case {"type": "array", "items": dict(items)}:
            return f"[{short(items)}]"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"{{{short(values)}}}"
        case {"type": kind}:
            bounds = [
                f"{name} {schema[name]}" for name in ("minimum", "maximum", "pattern") if name in schema
            ]
            return " ".join([kind, *bounds])
        case _:
            return "any"
