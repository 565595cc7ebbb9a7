"""The reference page of the Python API, from the signatures and docstrings of the code."""

import ast
import inspect
import textwrap
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import assay

WIDTH = 118
HEAD = """# The Python API

This page lists every name of `assay`. It is made from the code:
`.venv/bin/python -m pytest tests/project/test_python_api.py --record` writes it again. [Evaluate outputs](evaluate.md),
[compare runs](compare.md) and [judges](judges.md) show how the names are used.
"""
ALIASES = (
    ("assay.api.evaluation", ("Checks", "OneCheck", "Cases", "Outputs", "Document", "OnProgress")),
    ("assay.api.sources", ("Results",)),
    ("assay.api.gate", ("File",)),
    ("assay.api.judge_check", ("Labels",)),
)


def page() -> str:
    """The whole page."""
    names = {name: getattr(assay, name) for name in assay.__all__}
    functions = {name: value for name, value in names.items() if inspect.isfunction(value)}
    errors = {
        name: value for name, value in names.items() if _is_class(value) and issubclass(value, Exception)
    }
    classes = {name: value for name, value in names.items() if _is_class(value) and name not in errors}
    others = [name for name in names if name not in functions | errors | classes]
    parts = [HEAD, "## Functions\n", *(_function(name, functions[name]) for name in functions)]
    parts += ["## Types of arguments\n", _aliases()]
    parts += ["## Classes\n", *(_class(name, classes[name]) for name in classes)]
    parts += ["## Errors\n", *(_error(name, errors[name]) for name in errors), ""]
    parts += ["## Others\n", *(_other(name, names[name]) for name in others)]
    return "\n".join(parts) + "\n"


def _is_class(value: object) -> bool:
    return inspect.isclass(value)


@cache
def _tree(module: str) -> ast.Module:
    file = import_module(module).__file__
    assert file is not None
    return ast.parse(Path(file).read_text("utf-8"))


def _definition(value: object) -> ast.AST:
    """The definition of a function or a class; of overloads the last."""
    found = [
        node
        for node in _tree(value.__module__).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name == value.__name__
    ]
    return found[-1]


def _function(name: str, value: object) -> str:
    node = _definition(value)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return f"### assay.{name}\n\n{_code(_signature(name, node))}\n{_text(ast.get_docstring(node))}\n"


def _signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The signature as it is in the source, on several lines if it is long."""
    word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{word}{name}({ast.unparse(node.args)}){returns}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {one},\n" for one in _parameters(node.args))
    return f"{word}{name}(\n{inner}){returns}"


def _parameters(arguments: ast.arguments) -> list[str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    lines = [_parameter(one, default) for one, default in zip(plain, defaults, strict=True)]
    if arguments.vararg is not None:
        lines.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        lines.append("*")
    return lines + [
        _parameter(one, default)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    return f"{argument.arg}{kind}" + ("" if default is None else f" = {ast.unparse(default)}")


def _aliases() -> str:
    lines: list[str] = []
    for module, names in ALIASES:
        for node in _tree(module).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id in names
            ):
                line = f"{node.targets[0].id} = {ast.unparse(node.value)}"
                lines += [f"\n{' ' * 4}| ".join(line.split(" | "))] if len(line) > WIDTH else [line]
    return _code("\n".join(lines))


def _class(name: str, value: type) -> str:
    parts = [f"### assay.{name}\n"]
    node = _definition(value)
    assert isinstance(node, ast.ClassDef)
    bases = [
        base.__name__ for base in value.__bases__ if base.__module__.startswith("assay.") or base is float
    ]
    if bases:
        parts.append(f"A subclass of {' and '.join(f'`{base}`' for base in bases)}.\n")
    if about := _text(ast.get_docstring(node)):
        parts.append(f"{about}\n")
    fields = [line for one in node.body if (line := _field(one)) is not None]
    parts += [_code("\n".join(fields))] if fields else []
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    shown = [one for one in methods if not one.name.startswith("_") and ast.get_docstring(one)]
    parts += ["\n".join(_method(one) for one in shown) + "\n"] if shown else []
    return "\n".join(parts)


def _field(node: ast.stmt) -> str | None:
    if (
        not isinstance(node, ast.AnnAssign)
        or not isinstance(node.target, ast.Name)
        or node.target.id.startswith("_")
    ):
        return None
    default = "" if node.value is None else f" = {ast.unparse(node.value)}"
    return f"{node.target.id}: {ast.unparse(node.annotation)}{default}"[:WIDTH]


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    is_property = any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)
    arguments = [one for one in _parameters(node.args) if one not in ("self", "cls")]
    call = "" if is_property else f"({', '.join(arguments)})"
    return textwrap.fill(
        f"- `{node.name}{call}`: {first}", WIDTH, subsequent_indent="  ", break_long_words=False
    )


def _error(name: str, value: type) -> str:
    bases = " and ".join(f"`{base.__name__}`" for base in value.__bases__)
    return textwrap.fill(
        f"- `{name}`, a subclass of {bases}: {' '.join((value.__doc__ or '').split())}",
        WIDTH,
        subsequent_indent="  ",
    )


def _other(name: str, value: object) -> str:
    about = (inspect.getdoc(value) or "").split("\n\n")[0] if isinstance(value, ModuleType) else OTHERS[name]
    return textwrap.fill(f"- `{name}`: {' '.join(about.split())}", WIDTH, subsequent_indent="  ")


OTHERS = {
    "STANDARD": "the table of the standard checks, a `Registry`.",
    "Answer": "what a check returns: a mapping, with `passed` if it passes or fails.",
    "Number": "an argument of a check that is a JSON number.",
    "Opaque": "an argument of a check that is configuration: never a path, and shown without its secrets.",
    "Schema": "an argument of a check that is a JSON Schema: never a path.",
    "Template": "an argument of a check that is a prompt: paths only inside `{{…}}`.",
}


def _code(text: str) -> str:
    return f"```text drawing\n{text}\n```\n"


def _text(docstring: str | None) -> str:
    """A docstring as Markdown. Its indented examples are code."""
    parts: list[tuple[bool, str]] = []
    for block in (docstring or "").split("\n\n"):
        is_code = any(line.startswith(" ") for line in block.splitlines())
        if is_code and parts and parts[-1][0]:
            parts[-1] = True, f"{parts[-1][1]}\n\n{block}"
        else:
            parts.append((is_code, block))
    return "\n\n".join(
        f"```text drawing\n{textwrap.dedent(block)}\n```" if is_code else _filled(block)
        for is_code, block in parts
    )


def _filled(block: str) -> str:
    return textwrap.fill(" ".join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
