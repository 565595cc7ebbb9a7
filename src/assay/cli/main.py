"""The command: one file a verb; a refusal is one clear line and an exit code, never a traceback."""

import io
import logging
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from assay.cli import (
    annotate,
    audit,
    evaluate,
    key,
    providers,
    rekey,
    run,
    runs,
    schema,
    serve,
    suite,
    verify,
)
from assay.cli.say import note, say, tell
from assay.errors import BadLine, EnvironmentFailure, Refusal
from assay.terminal import one_line

app = typer.Typer(
    name="assay",
    help="Is it good enough to ship? Put outputs to checks (FEP), agents to suites (OpenWOP).",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("evaluate", help=evaluate.HELP)(evaluate.evaluate)
app.command("run", help=run.HELP)(run.run)
app.command("verify", help=verify.VERIFY)(verify.verify)
app.command("respond", help=verify.RESPOND)(verify.respond)
app.command("serve", help=serve.HELP)(serve.serve)
app.command("list", help=runs.LIST)(runs.list_)
app.command("show", help=runs.SHOW)(runs.show)
app.command("export", help=runs.EXPORT)(runs.export)
app.command("annotate", help=annotate.HELP)(annotate.annotate)
app.command("rekey", help=rekey.HELP)(rekey.rekey)
app.command("schema", help=schema.HELP)(schema.schema)
app.add_typer(suite.suite, name="suite", help=suite.HELP)
app.add_typer(providers.providers, name="providers", help=providers.HELP)
app.add_typer(key.key, name="key", help=key.HELP)
app.add_typer(audit.audit, name="audit", help=audit.HELP)

PASSED, BROKEN, USAGE, NOT_PASSED = 0, 1, 2, 3
UNUSABLE: type[Exception] = typer.BadParameter.__mro__[2]  # what all complaints about the command line are


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # a lazy door: hardly anybody asks

        tell(f"assay {version('assay')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Say which version this is.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    _stand_on_something()
    code = BROKEN
    try:
        code = app(standalone_mode=False) or PASSED
    except SystemExit as ending:
        code = ending.code
    except UNUSABLE as unusable:
        _show(unusable)
        code = USAGE
    except Refusal as refusal:
        _say(*refusal.lines)
        code = BROKEN if isinstance(refusal, EnvironmentFailure | BadLine) else USAGE
    except KeyboardInterrupt:
        _say("interrupted")
    except BrokenPipeError:
        pass  # whoever read our output has gone
    except OSError as wrong:
        _say(f"{wrong.filename or 'standard output'}: {wrong.strerror or wrong}")
        if not wrong.filename:
            _let_go(sys.stdout)  # it has been told once
    except MemoryError:
        _say("there is not enough memory for this")
    except Exception as bug:  # noqa: BLE001  # the last boundary: what is left is ours, and is one line too
        _say(f"a bug in assay, please report it: {type(bug).__name__}: {bug} ({_place(bug)})")
    sys.exit(_flushed(code))


def _stand_on_something() -> None:
    """A stream that the caller closed is one that takes everything; a sign that a terminal lacks is written out."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as we live
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:  # what a library warns of, where no server has set up its log
        logging.lastResort.setFormatter(_Line())


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(record.getMessage())


def _flushed(code: Any) -> Any:
    """Python itself would end with a complaint of its own about output that nobody takes."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as wrong:
            _let_go(stream)
            if not isinstance(wrong, BrokenPipeError):
                _say(f"standard output: {wrong.strerror}")
            code = code or BROKEN
    return code


def _let_go(stream: Any) -> None:
    """What is still to be written goes nowhere."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(*lines: str) -> None:
    with suppress(OSError):
        sys.stdout.flush()  # where both are one, in the order they were said
    with suppress(OSError):
        for line in lines:
            say(line)


def _show(unusable: Any) -> None:
    """How the command is used, and what was wrong; a file name or an option in it may hold anything."""
    text = io.StringIO()
    unusable.show(text)
    with suppress(OSError):
        for line in text.getvalue().removesuffix("\n").split("\n"):
            note(line)


def _place(bug: Exception) -> str:
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
