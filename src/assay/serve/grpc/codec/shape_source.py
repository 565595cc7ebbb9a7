"""Generates the Python source of a function that reads all messages of one shape."""

from struct import Struct
from typing import Any, NamedTuple

from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.length_prefixes import LengthPrefixes, Steps


class Same(NamedTuple):
    """Bytes that all messages of the shape have."""

    data: bytes


class Leaf(NamedTuple):
    """A value of fixed length, with its struct format and its variable name."""

    form: str
    name: str


class LengthPrefix(NamedTuple):
    """The prefix of a text or a message of variable length, with the index of its part."""

    steps: Steps
    number: int


class TextField(NamedTuple):
    """A text of variable length, after its prefix."""

    prefix: int
    name: str


class End(NamedTuple):
    """The end of a message of variable length."""

    prefix: int


class Mark(NamedTuple):
    """A position that the result refers to."""

    name: str


SourcePart = Same | Leaf | LengthPrefix | TextField | End | Mark


class SourceLines:
    """The lines of a function that reads a message from begin to end; its variable `p` is the position."""

    def __init__(self, marks: str, sizes: dict[int, int]) -> None:
        self.scope: dict[str, Any] = {"far": unpacked.check_finite}
        self._lines, self._marks, self._sizes = ["p = at"], marks, sizes
        self._same: list[bytes] = [b""]
        self._leaves: list[Leaf] = []
        self._covered_bytes = 0  # bytes after `p` that are already covered
        self._prefixes: list[LengthPrefix] = []

    def source(self, document: str, metadata: str) -> str:
        self._flush()
        self._lines += ["if p != end: return None", f"return {document}, {metadata}"]
        return "\n    ".join(["def read(data, at, end):", *self._lines])

    def add(self, piece: SourcePart) -> None:
        if isinstance(piece, LengthPrefix):
            self._cut()
            self._prefixes.append(piece)
            return
        if isinstance(piece, TextField):
            self._flush(piece)
            return
        if self._prefixes and not (isinstance(piece, Mark) and piece.name not in self._marks):
            self._flush()
        if isinstance(piece, Same):
            self._same[-1] += piece.data
            self._covered_bytes += len(piece.data)
        elif isinstance(piece, Leaf):
            self._leaves.append(piece)
            self._same.append(b"")
            self._covered_bytes += Struct(f"<{piece.form}").size
        elif isinstance(piece, End):
            self._lines.append(f"if p + {self._covered_bytes} != end{piece.prefix}: return None")
        elif piece.name in self._marks:
            self._lines.append(f"{piece.name} = p + {self._covered_bytes}")

    def _flush(self, text: TextField | None = None) -> None:
        """Emit the pending prefixes, and the text after the last one."""
        self._cut()
        if not self._prefixes:
            return
        number, wide = self._prefixes[0].number, sum(self._sizes[head.number] for head in self._prefixes)
        heads = LengthPrefixes([head.steps for head in self._prefixes])
        self.scope |= {f"cache{number}": heads.cache.get, f"heads{number}": heads.read}
        ends = ", ".join(f"end{head.number}" for head in self._prefixes)
        self._lines += [
            f"found = cache{number}(data[p : p + {wide}]) or heads{number}(data, p)",
            "if found is None: return None",
            f"long, {ends} = found",
            *(f"end{head.number} += p" for head in self._prefixes),
            "p += long",
        ]
        if text is not None:
            self._lines += [f"{text.name} = data[p : end{text.prefix}]", f"p = end{text.prefix}"]
        self._prefixes = []

    def _cut(self) -> None:
        """Emit the pending bytes and values of fixed length."""
        if not self._covered_bytes:
            return
        size, number = self._covered_bytes, len(self._lines)
        self._lines.append(f"if p + {size} > end: return None")
        if self._leaves:
            forms = [f"{len(same)}s{leaf.form}" for same, leaf in zip(self._same, self._leaves, strict=False)]
            cut = Struct(f"<{''.join(forms)}{len(self._same[-1])}s").unpack_from
            self.scope |= {f"cut{number}": cut, f"same{number}": tuple(self._same)}
            self._lines += [
                f"found = cut{number}(data, p)",
                f"if found[::2] != same{number}: return None",
                f"[{', '.join(leaf.name for leaf in self._leaves)}] = found[1::2]",
            ]
        else:
            self._lines.append(f"if data[p : p + {size}] != {self._same[0]!r}: return None")
        self._lines.append(f"p += {size}")
        self._same, self._leaves, self._covered_bytes = [b""], [], 0
