"""
A golden file is a session: each line `$ …` is a step, and what came back stands below it. Recording runs the steps of the file
again, so that a new step is a new line.

    $ assay VERB …              the command, in a copy of tests/golden/project: `  ` output, `! ` errors, `= ` exit code
    $ cat FILE                  a file that a command wrote; tables as text
    $ head FILE                 its digest and its first lines; `tail` its last
    $ GET /PATH [NAME=VALUE …]  an answer of the server; run-<1> is the id that has this mark above
    $ POST /PATH FILE           the same with a body; JSON may stand for the file
    $ outline /PATH             a large JSON document: a line for each small part, a digest for each large one
    $ wait /PATH                until the run there has ended or waits for a person
    $ grpc METHOD FILE          an answer over gRPC; JSON may stand for the file
    $ proto                     the messages of gRPC
    $ help                      the help of every verb
    $ names                     the public names of the library, with their signatures
    $ public FACE               what other programs depend on: a function of tests/golden/public_face.py
"""

import functools
import hashlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import zipfile
from importlib import import_module
from pathlib import Path

import msgspec

import assay
from assay.cli.console.console import WIDEST, columns_of
from assay.cli.main import SECTIONS
from golden.public_face import FACES
from golden.volatile import Normaliser
from support.commands.command import PROGRESS
from support.waiting import wait_until

HERE = Path(__file__).parent
PROJECT = HERE / "project"
PROTO = HERE.parents[1] / "proto/fep/v1/fep.proto"
ENVIRON = {
    "PATH": os.environ["PATH"],
    "COLUMNS": "80",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
}
LISTS = ("Commands", *SECTIONS)  # of verbs, in help
INNERMOST = re.compile(r"[\[{]\n[^\[\]{}]*\n *[\]}]")  # of indented JSON
JSON_BEGINS = ("{", "[", "]")
HEADERS = (
    "allow",
    "cache-control",
    "content-type",
    "etag",
    "link",
    "location",
    "retry-after",
    "vary",
    "www-authenticate",
)


class Session:
    """In a copy of the project. `connect()` returns a client of the server."""

    def __init__(self, folder, command, connect):
        shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
        self._folder, self._command, self._connect = folder, command, connect
        self._normal = Normaliser(folder)
        self.wide = []  # lines of the command above the width

    @functools.cached_property
    def _client(self):
        return self._connect()

    def play(self, text):
        lines = []
        for line in text.splitlines():
            if line.startswith("#"):
                lines.append(line)
            elif line.startswith("$ "):
                lines += ["", line, *self._normal(self._step(line[2:])).splitlines()]
        return "\n".join(line.rstrip() for line in lines).lstrip("\n") + "\n"

    def _step(self, line):
        verb, *words = shlex.split(self._normal.original(line))
        if verb.isupper():
            return self._request(verb, *words)
        return getattr(self, f"_{verb}")(*words)

    def _assay(self, *words):
        ended = self._command(*words, folder=self._folder, environ=ENVIRON)
        self._look_at_widths(ended)
        errors = [line for line in ended.wrapped_err.splitlines() if not PROGRESS.match(line)]
        return indent("  ", ended.wrapped_out) + indent("! ", "\n".join(errors)) + f"= {ended.code}\n"

    def _look_at_widths(self, ended):
        lines = (ended.wrapped_out + ended.wrapped_err).splitlines()
        self.wide += [
            line for line in lines if columns_of(line) > WIDEST and not line.startswith(JSON_BEGINS)
        ]

    def _cat(self, name):
        return indent("  ", as_text(self._folder / name))

    def _head(self, name, part=slice(3)):
        text = self._normal(as_text(self._folder / name))
        return f"  {digest(text.encode())}\n" + indent("  ", "\n".join(text.splitlines()[part]))

    def _tail(self, name):
        return self._head(name, slice(-2, None))

    def _request(self, method, path, *words):
        headers = dict(word.split("=", 1) for word in words if "=" in word)
        body = next((self._body(word) for word in words if "=" not in word), None)
        if body is not None:
            headers.setdefault("content-type", "application/json")
        answer = self._client.http.request(method, path, content=body, headers=headers)
        fields = "".join(f"  {name}: {answer.headers[name]}\n" for name in HEADERS if name in answer.headers)
        return f"= {answer.status_code}\n{fields}" + indent("  ", pretty(answer.text))

    def _body(self, word):
        return word if word.startswith("{") else (self._folder / word).read_text("utf-8")

    def _outline(self, path):
        document = self._client.http.get(path).json()
        return indent("  ", "\n".join(outline(document, 3)))

    def _wait(self, path):
        """Until the run there rests."""

        def status():
            status = self._client.http.get(path).json()["status"]
            return status not in ("pending", "running", "cancelling") and status

        return f"  {wait_until(status)}\n"

    def _grpc(self, method, word="{}"):
        return indent("  ", self._client.call(method, self._body(word)))

    def _proto(self):
        lines = (line.partition("//")[0].rstrip() for line in PROTO.read_text("utf-8").splitlines())
        return "".join(f"  {line}\n" for line in lines if line)

    def _help(self):
        """Each level of verbs from one process."""
        texts, level = {}, [()]
        while level:
            commands = [[*verbs, "--help"] for verbs in level]
            results = self._command.each(commands, folder=self._folder, environ=ENVIRON)
            for ended in results:
                self._look_at_widths(ended)
            texts.update({verbs: ended.out for verbs, ended in zip(level, results, strict=True)})
            level = [(*verbs, verb) for verbs in level for verb in listed_in(texts[verbs])]

        def whole(*verbs):
            below = "".join(whole(*verbs, verb) for verb in listed_in(texts[verbs]))
            return f"  == {' '.join(('assay', *verbs))}\n" + indent("  ", texts[verbs]) + below

        return whole()

    def _names(self):
        return "".join(f"  {name}{signature(getattr(assay, name))}\n" for name in assay.__all__)

    def _public(self, face):
        return "".join(f"  {line}\n" for line in FACES[face]())


def listed_in(page):
    """The verbs that a page of help lists."""
    return [name for block in re.split(r"\n(?=\w+:\n)", page) if block.split(":")[0] in LISTS for name in
            re.findall(r"^  ([a-z][a-z-]*) ", block, re.MULTILINE)]  # fmt: skip


def indent(mark, text):
    return "".join(f"{mark}{line}\n" for line in text.split("\n")).removesuffix(f"{mark}\n") if text else ""


def digest(data):
    return f"sha256 {hashlib.sha256(data).hexdigest()[:16]}, {len(data)} bytes"


def pretty(text):
    """JSON with a line for each member; the members keep their order and the numbers their form."""
    if len(text) < 100 or not text.startswith(("{", "[")) or "\n{" in text:
        return text
    return INNERMOST.sub(in_one_line, msgspec.json.format(text, indent=1))


def in_one_line(found):
    line = " ".join(found[0].split())
    return line if len(line) <= 100 else found[0]


def outline(value, depth, indent=""):
    """Small parts as they are, large ones by their members, and below `depth` by their digest."""
    for name, part in value.items() if isinstance(value, dict) else enumerate(value):
        # a docstring may be wrapped elsewhere
        text = re.sub(r"\\n *", " ", json.dumps(part, ensure_ascii=False))
        if len(text) <= 160 or not isinstance(part, dict | list):
            yield f"{indent}{name} {text}"
        elif depth == 0:
            yield f"{indent}{name} {digest(text.encode())}"
        else:
            yield f"{indent}{name}"
            yield from outline(part, depth - 1, f"{indent} ")


def as_text(file):
    if not file.exists():
        return "(no such file)"
    if file.suffix == ".parquet":
        table = import_module("pyarrow.parquet").read_table(file)
        rows = "\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
        return f"{table.schema.to_string()}\n{rows}"
    if file.suffix == ".xlsx":
        with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as book:
            sheets = [
                name for name in sorted(book.namelist()) if "sheet" in name.lower() and name.endswith(".xml")
            ]
            return "\n".join(book.read(name).decode().replace("<row", "\n<row") for name in sheets)
    return file.read_text("utf-8")


def signature(value):
    """Names and plain defaults: annotations name modules, which may move."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(map(parameter, parameters))})"


def parameter(one):
    name = str(one.replace(annotation=one.empty, default=one.empty))
    if one.default is one.empty:
        return name
    return (
        f"{name}={one.default!r}" if isinstance(one.default, bool | int | float | str | None) else f"{name}=…"
    )
