"""The optional dependencies of assay: which extra installs which packages, and the refusal if they are missing."""

from importlib.util import find_spec

from assay.errors import MissingExtra

DISTRIBUTION = "openassay"  # the name for pip; the import and the command are `assay`

EXTRAS: dict[str, dict[str, str]] = {  # extra: its packages, as in pyproject.toml, and the module of each
    "agents": {"aiohttp": "aiohttp", "mcp": "mcp"},
    "cluster": {
        "ddsketch": "ddsketch",
        "distributed": "distributed",
        "fsspec": "fsspec",
        "pyarrow": "pyarrow",
    },
    "compare": {"numpy": "numpy", "scipy": "scipy"},
    "grpc": {
        "grpcio": "grpc",
        "grpcio-health-checking": "grpc_health",
        "grpcio-reflection": "grpc_reflection",
        "grpcio-status": "grpc_status",
        "protobuf": "google.protobuf",
    },
    "guard": {"cryptography": "cryptography", "pyjwt": "jwt"},
    "judges": {"aiohttp": "aiohttp", "genai-prices": "genai_prices"},
    "serve": {
        "httptools": "httptools",
        "sse-starlette": "sse_starlette",
        "starlette": "starlette",
        "uvicorn": "uvicorn",
    },
    "similarity": {"wordllama": "wordllama"},
    "tables": {"pandas": "pandas", "pyarrow": "pyarrow", "xlsxwriter": "xlsxwriter"},
    "telemetry": {
        "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
        "opentelemetry-sdk": "opentelemetry.sdk",
        "prometheus-client": "prometheus_client",
    },
    "text": {"rapidfuzz": "rapidfuzz", "sacrebleu": "sacrebleu"},
    "workers": {"dbos": "dbos"},
    "store": {
        "alembic": "alembic",
        "psycopg": "psycopg",
        "sqlalchemy": "sqlalchemy",
        "zstandard": "zstandard",
    },
}


def require(feature: str, *extras: str, package: str | None = None) -> None:
    """
    Refuse if a package of these extras is not installed. The message names all of them at once.

    With `package`, only that one is necessary: `require("a model", "judges", package="aiohttp")`.
    """
    missing = missing_packages(*extras)
    if package in missing if package else missing:
        raise missing_extra(feature, *extras)


def missing_extra(feature: str, *extras: str, error: ModuleNotFoundError | None = None) -> MissingExtra:
    """
    The refusal, with the commands that install the extras that are missing.

    `error` names a package of none of them, or a module that an install generates.
    """
    lacking = [extra for extra in extras if missing_packages(extra)] or list(extras)
    packages = missing_packages(*extras) or [str(error.name) if error else "?"]
    names = ",".join(lacking)
    return MissingExtra(
        f"{feature} needs {', '.join(packages)}: pip install '{DISTRIBUTION}[{names}]' "
        f"(in a clone: pip install -e '.[{names}]')"
    )


def missing_packages(*extras: str) -> list[str]:
    """The packages of these extras that are not installed, each once."""
    modules = {package: module for extra in extras for package, module in EXTRAS[extra].items()}
    return [package for package, module in modules.items() if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a parent
        return False
