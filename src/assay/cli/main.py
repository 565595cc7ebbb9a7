"""The command: one file a verb; a refusal is one clear line and an exit code, never a traceback."""

import sys
from typing import Any, NoReturn

import typer

from assay.cli import evaluate, key, schema
from assay.errors import BadLine, Broken, InvalidRequest, Refusal

app = typer.Typer(
    name="assay",
    help="Is it good enough to ship? Evaluate outputs with checks (FEP).",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate", help=evaluate.HELP)(evaluate.evaluate)
app.command("schema", help=schema.HELP)(schema.schema)
app.add_typer(key.key, name="key", help=key.HELP)

PASSED, BROKEN, USAGE, NOT_PASSED = 0, 1, 2, 3


@app.callback()
def _root() -> None:
    pass


def main() -> NoReturn:
    try:
        app()
    except Refusal as refusal:
        _say(refusal)
        sys.exit(BROKEN if isinstance(refusal, Broken | BadLine) else USAGE)
    except KeyboardInterrupt:
        print("assay: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(BROKEN)
    except BrokenPipeError:  # whoever read our output has gone
        sys.stderr.close()
        sys.exit(BROKEN)
    sys.exit(PASSED)


def _say(refusal: Refusal) -> None:
    told: Any = refusal.problems if isinstance(refusal, InvalidRequest) else [refusal]
    for one in told:
        print(f"assay: {one}".encode("utf-8", "replace").decode(), file=sys.stderr)  # noqa: T201
