"""
The command `assay`: it loads the verb that is called. A refusal is one clear line and an exit code, never a traceback.
"""

import io
import logging
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.main

from assay.cli.console.console import echo, echo_err, echo_err_plain
from assay.cli.console.help import APP, HELP
from assay.cli.console.option_groups import OPTION_GROUPS, format_groups, name_argument
from assay.cli.console.options import Group
from assay.cli.console.usage import usage_message
from assay.errors import BadLine, EnvironmentFailure, Refusal
from assay.errors.door import enter
from assay.errors.exit_codes import ERROR, PASSED, USAGE
from assay.terminal import one_line
from assay.version import __version__

SECTIONS: dict[
    str, dict[str, Any]
] = {  # a verb is `folder.name`, found in `verbs` of the folder, or verbs of its own
    "Measure": {
        "evaluate": "evaluate.evaluate",
        "merge": "merge.merge",
        "run": "agent_evals.run",
        "verify": "approvals.verify",
        "judge": "agent_evals.judge",
        "try": "evaluate.try_",
    },
    "Look": {
        "view": "server.view",
        "list": "stored_runs.list_",
        "show": "stored_runs.show",
        "diff": "stored_runs.diff",
        "history": "compare.history",
        "report": "compare.report",
        "export": "stored_runs.export",
    },
    "Decide": {
        "compare": "compare.compare",
        "gate": "compare.gate",
        "watch": "compare.watch",
        "annotate": "agent_evals.annotate",
        "respond": "approvals.respond",
        "deploy": {
            "promote": "approvals.promote",
            "rollback": "approvals.rollback",
            "list": "approvals.deployments",
        },
    },
    "Write": {
        "init": "agent_evals.init",
        "import": "evaluate.import_",
        "validate": "evaluate.validate",
        "suite": "agent_evals.suite",
        "skills": "coding_agents.skills",
        "pack": "admin.pack",
    },
    "Serve": {
        "serve": "server.serve",
        "worker": "server.worker",
        "mcp": "coding_agents.mcp",
        "conform": "conformance.conform",
    },
    "Admin": {
        "admin": {
            "key": "admin.key",
            "audit": "admin.audit",
            "delete": "stored_runs.delete",
            "gc": "stored_runs.gc",
            "rekey": "admin.rekey",
            "migrate": "admin.migrate",
        },
        "providers": "admin.providers",
        "schema": "admin.schema",
    },
}


class _Commands(MutableMapping[str, Any]):
    """Commands by name; each is imported when it is looked up. `path` is the words before the name."""

    def __init__(self, verbs: dict[str, Any], path: str) -> None:
        self._verbs, self._path = verbs, path
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(f"{self._path}{name}", self._verbs[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._verbs

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


def _load(path: str, verb: Any) -> Any:
    name = path.rpartition(" ")[2]
    if not isinstance(verb, str):
        return LazyGroup(
            verb, f"{path} ", name=name, help=HELP[path], no_args_is_help=True, rich_markup_mode=None
        )
    folder, _, found = verb.partition(".")
    verb = getattr(import_module(f"assay.cli.{folder}.verbs"), found)
    if not isinstance(verb, typer.Typer):
        function, verb = verb, typer.Typer(rich_markup_mode=None, add_completion=False)
        verb.command(name, help=HELP[path])(function)
    command = typer.main.get_command(verb)
    command.name, command.help = name, HELP[path]
    prepare(command, path)
    return command


class LazyGroup(Group):
    """Verbs that are imported when they are called. Their summaries come from the table of help texts."""

    def __init__(self, verbs: dict[str, Any], path: str, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands(verbs, path)
        self._sections = {"Commands": [(name, HELP[f"{path}{name}"]) for name in verbs]}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        longest = max(len(name) for rows in self._sections.values() for name, _ in rows)
        for section, rows in self._sections.items():
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (f"{name:{longest}}", _summary(text, formatter.width - 6 - longest))
                        for name, text in rows
                    ]
                )


class Assay(LazyGroup):
    """The verbs of `assay`, in sections."""

    def __init__(self, **options: Any) -> None:
        verbs = {name: verb for section in SECTIONS.values() for name, verb in section.items()}
        super().__init__(verbs, "", **options)
        self._sections = {
            title: [(name, HELP[name]) for name in section] for title, section in SECTIONS.items()
        }


def _summary(text: str, width: int) -> str:
    return textwrap.shorten(text.partition("\n")[0], width, placeholder="...")


app = typer.Typer(
    name="assay",
    cls=Assay,
    help=APP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        echo(f"assay {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command and exit. Every error becomes a line on standard error."""
    _prepare_streams()
    enter("command")
    code = ERROR
    try:
        code = app(standalone_mode=False) or PASSED
    except SystemExit as ending:
        code = ending.code
    except typer.TyperException as error:
        _show_usage(error)
        code = USAGE
    except Refusal as refusal:
        _echo_last(*refusal.lines)
        code = ERROR if isinstance(refusal, EnvironmentFailure | BadLine) else USAGE
    except KeyboardInterrupt:
        _echo_last("interrupted")
    except BrokenPipeError:
        pass  # the reader of our output has gone
    except OSError as error:
        _echo_last(f"{error.filename or 'standard output'}: {error.strerror or error}")
        if not error.filename:
            _discard(sys.stdout)  # reported once is enough
    except MemoryError:
        _echo_last("there is not enough memory for this")
    except Exception as bug:  # noqa: BLE001  # the last boundary: any other error is a bug, and one line too
        _echo_last(f"a bug in assay, please report it: {type(bug).__name__}: {bug} ({_traceback_line(bug)})")
    sys.exit(_flush(code))


def _prepare_streams() -> None:
    """Replace a standard stream that the caller closed; escape characters that the terminal cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for the life of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:  # the warnings of libraries, where no server configured a log
        logging.lastResort.setFormatter(_OneLineFormatter())
        if not logging.root.handlers:  # else `logging.warning` of a library adds one that prints tracebacks
            logging.root.addHandler(logging.lastResort)


class _OneLineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(record.getMessage())


def _flush(code: Any) -> Any:
    """Flush here: at exit Python would print its own complaint about output that cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            _discard(stream)
            if not isinstance(error, BrokenPipeError):
                _echo_last(f"standard output: {error.strerror}")
            code = code or ERROR
    return code


def _discard(stream: Any) -> None:
    """Send what is still buffered to the null device."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _echo_last(*lines: str) -> None:
    with suppress(OSError):
        sys.stdout.flush()  # keep the order where both streams are one file
    with suppress(OSError):
        for line in lines:
            echo_err(line)


def _show_usage(error: Any) -> None:
    """Print the error of a command line, or the help, escaped: an option may hold any character."""
    message = error.format_message()
    if not message.startswith("Usage: "):
        _echo_last(usage_message(error))
        return
    with suppress(OSError):  # the help, for a command without arguments
        for line in message.split("\n"):
            echo_err_plain(line)


def _traceback_line(bug: Exception) -> str:
    frame = traceback.extract_tb(bug.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


# The values of options that need no validation: texts, flags, and plain numbers in their range.

NUMBERS = {int: re.compile("[0-9]{1,15}"), float: re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")}
NOT_PLAIN = object()


def prepare(command: Any, path: str) -> None:
    """Let a command and the commands in it accept plain values without pydantic, and print long help in groups."""
    listed = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        params = listed(ctx)
        for param in params:
            if "process_value" not in vars(param):
                param.process_value = partial(process_value, param, param.process_value)
                if param.param_type_name == "argument":
                    name_argument(param)
        return params

    command.get_params = get_params
    if path in OPTION_GROUPS:
        command.format_options = partial(format_groups, command, OPTION_GROUPS[path])
    for name, inner in getattr(command, "commands", {}).items():
        prepare(inner, f"{path} {name}")


def process_value(param: Any, by_typer: Any, ctx: Any, value: Any) -> Any:
    """The value of a parameter, as `process_value` of Typer's parameter returns it."""
    plain = plain_value(param, value)
    if plain is NOT_PLAIN or (param.required and param.value_is_missing(plain)):
        return by_typer(ctx, value)
    return plain if param.callback is None else param.callback(ctx, param, plain)


def plain_value(param: Any, value: Any) -> Any:
    """The value as the function of a verb gets it, or NOT_PLAIN."""
    descriptor = getattr(param, "type_descriptor", None)  # other versions of Typer have none
    if descriptor is None or descriptor.parameter_info.parser is not None:
        return NOT_PLAIN
    kind = descriptor.annotation
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    if kind in (str, bool):
        return value if type(value) is kind else NOT_PLAIN
    if kind == list[str]:
        whole = type(value) in (list, tuple) and all(type(item) is str for item in value)
        return list(value) if whole else NOT_PLAIN
    return _number(kind, value, descriptor.parameter_info) if kind in NUMBERS else NOT_PLAIN


def _number(kind: Any, value: Any, bounds: Any) -> Any:
    if isinstance(value, str) and NUMBERS[kind].fullmatch(value):
        value = kind(value)
    inside = type(value) is kind and not bounds.clamp
    if inside and bounds.min is not None:
        inside = value >= bounds.min
    if inside and bounds.max is not None:
        inside = value <= bounds.max
    return value if inside else NOT_PLAIN
