"""Private names of other projects: each has a row here and a reason in ADR-0131, and is still there."""

import ast
import asyncio
import re
from importlib import import_module

import pytest

from support.documents import DOCS, page_name, table
from support.source_code import TOGETHER, Module, modules

PUBLIC = {"os._exit", "_replace", "_asdict", "_fields", "_make"}  # documented in spite of the underscore
UVICORN = "uvicorn.protocols.http.httptools_impl"

FRAMEWORKS = (  # members of agents of frameworks: the contract of their adapters needs each of them
    "_agent_ref", "_invoke_tool_impl",
    "_func", "_afunc", "_wrap_tool_call", "_awrap_tool_call",
    "_cancel_signal", "_interrupt_state", "_invocation_lock", "_model_state", "_require_confirmation",
)  # fmt: skip

ROWS = {  # the name in the source: what must be there
    "re._parser": ["re._parser:parse", "re._parser:State", "re._parser:SubPattern"],
    "re._compiler": ["re._compiler:compile"],
    "re._constants": ["re._constants:MAX_REPEAT", "re._constants:POSSESSIVE_REPEAT", "re._constants:ATOMIC_GROUP"],
    "_recover_pending_workflows": ["dbos:DBOS._recover_pending_workflows"],
    "_unregister_task": ["asyncio.tasks:_unregister_task"],
    "_log_destroy_pending": ["asyncio.tasks:Task._log_destroy_pending"],
    "_transport": [],  # a member of an instance, see below
    "_unset_keepalive_if_required": [f"{UVICORN}:HttpToolsProtocol._unset_keepalive_if_required"],
    **{name: [] for name in FRAMEWORKS},
}  # fmt: skip
OVERRIDDEN = ("connection_made", "data_received", "on_message_begin", "on_header", "on_headers_complete")


def defined_names(modules):
    """The names that assay itself gives to something."""
    names = set[str]()
    for module in modules:
        names.update(node.name for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        names.update(node.id for node in module.nodes(ast.Name) if isinstance(node.ctx, ast.Store))
        names.update(
            node.attr
            for node in module.nodes(ast.Attribute)
            if isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        )
    return names


def private_names(module, own):
    """The private names that a module uses and assay does not define."""
    for node in module.nodes(ast.Attribute, ast.Call, ast.ImportFrom, ast.Subscript):
        match node:
            case ast.Attribute(attr=name, value=base) if re.match(r"_[a-z]", name) and name not in own:
                if not PUBLIC & {name, f"{ast.unparse(base)}.{name}"}:
                    yield name
            case (
                ast.Call(args=[ast.Constant(value=str(name)), *_])
                | ast.Call(args=[_, ast.Constant(value=str(name)), *_])
            ) if re.fullmatch(r"(?:[a-z]\w*\.)*_[a-z]\w*", name) and name not in own:
                if ast.unparse(node.func).endswith(("import_module", "getattr", "setattr", "hasattr")):
                    yield name
            case ast.ImportFrom(module=str(source), names=names) if not source.startswith("assay"):
                yield from (part for part in source.split(".") if re.match(r"_[a-z]", part))
                yield from (one.name for one in names if re.match(r"_[a-z]", one.name))
            case ast.Subscript(value=ast.Attribute(attr="__mro__")):
                yield "__mro__"
            case _:
                pass


@TOGETHER
def test_every_private_name_of_another_project_has_a_row():
    own = defined_names(modules().values())
    used: dict[str, list[str]] = {}
    for path, module in modules().items():
        for name in private_names(module, own):
            used.setdefault(name, []).append(page_name(path))
    assert used.keys() == ROWS.keys(), used


@pytest.mark.parametrize("place", [place for places in ROWS.values() for place in places])
def test_a_private_name_is_still_there(place):
    module, _, path = place.partition(":")
    found = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)


def test_a_process_of_asyncio_has_a_transport():
    async def transport():
        process = await asyncio.create_subprocess_exec("true")
        await process.wait()
        return getattr(process, "_transport", None)

    assert isinstance(asyncio.run(transport()), asyncio.SubprocessTransport)


def test_uvicorn_calls_what_is_overridden():
    protocol = import_module(UVICORN).HttpToolsProtocol
    assert [name for name in OVERRIDDEN if name not in vars(protocol)] == []


def test_every_row_has_a_reason():
    page = (DOCS / "decisions" / "0131-private-names-of-other-projects.md").read_text("utf-8")
    reasons = " ".join(row[0] for row in table(page, "name", "why it is used"))
    missing = [name for name in ROWS if name not in reasons and name != "_unset_keepalive_if_required"]
    assert missing == []
    assert UVICORN in reasons


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import os\nos._exit(1)", []),
        ("import asyncio\nasyncio.tasks._all", ["_all"]),
        ("class A:\n    def _b(self): ...\n\nA()._b()", []),
        ("from x._y import z", ["_y"]),
        ("from x import _y", ["_y"]),
        ("getattr(task, '_state')", ["_state"]),
        ("import_module('re._parser')", ["re._parser"]),
        ("row._replace(a=1)", []),
        ("T.__mro__[2]", ["__mro__"]),
    ],
)
def test_private_names_are_found(source, names):
    module = Module(source)
    assert list(private_names(module, defined_names([module]))) == names
