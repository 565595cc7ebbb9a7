"""A message in pieces, of which some are the same in all that are like it; and the function that reads those, written out as Python."""

from struct import Struct
from typing import Any, NamedTuple

from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.length_prefixes import Heads, Steps


class Same(NamedTuple):
    said: bytes


class Leaf(NamedTuple):
    """A value of a fixed length, by its format and its name."""

    form: str
    name: str


class LengthPrefix(NamedTuple):
    """Of a text or a message of any length, by the number of its piece."""

    steps: Steps
    number: int


class TextField(NamedTuple):
    """Of any length, after its head."""

    head: int
    name: str


class End(NamedTuple):
    """Of a message of any length."""

    head: int


class Mark(NamedTuple):
    """A place that is looked at again."""

    name: str


SourcePart = Same | Leaf | LengthPrefix | TextField | End | Mark


class SourceLines:
    """A function that goes through a message from its beginning to its end; `p` is how far it has come."""

    def __init__(self, marks: str, sizes: dict[int, int]) -> None:
        self.scope: dict[str, Any] = {"far": unpacked.check_finite}
        self._lines, self._marks, self._sizes = ["p = at"], marks, sizes
        self._same: list[bytes] = [b""]
        self._leaves: list[Leaf] = []
        self._gone = 0  # bytes that were looked at behind `p`
        self._heads: list[LengthPrefix] = []

    def source(self, said: str, about: str) -> str:
        self._flush()
        self._lines += ["if p != end: return None", f"return {said}, {about}"]
        return "\n    ".join(["def read(data, at, end):", *self._lines])

    def add(self, piece: SourcePart) -> None:
        if isinstance(piece, LengthPrefix):
            self._cut()
            self._heads.append(piece)
            return
        if isinstance(piece, TextField):
            self._flush(piece)
            return
        if self._heads and not (isinstance(piece, Mark) and piece.name not in self._marks):
            self._flush()
        if isinstance(piece, Same):
            self._same[-1] += piece.said
            self._gone += len(piece.said)
        elif isinstance(piece, Leaf):
            self._leaves.append(piece)
            self._same.append(b"")
            self._gone += Struct(f"<{piece.form}").size
        elif isinstance(piece, End):
            self._lines.append(f"if p + {self._gone} != end{piece.head}: return None")
        elif piece.name in self._marks:
            self._lines.append(f"{piece.name} = p + {self._gone}")

    def _flush(self, text: TextField | None = None) -> None:
        """Heads that follow one another, and the text behind the last."""
        self._cut()
        if not self._heads:
            return
        number, wide = self._heads[0].number, sum(self._sizes[head.number] for head in self._heads)
        heads = Heads([head.steps for head in self._heads])
        self.scope |= {f"known{number}": heads.known.get, f"heads{number}": heads.read}
        ends = ", ".join(f"end{head.number}" for head in self._heads)
        self._lines += [
            f"found = known{number}(data[p : p + {wide}]) or heads{number}(data, p)",
            "if found is None: return None",
            f"long, {ends} = found",
            *(f"end{head.number} += p" for head in self._heads),
            "p += long",
        ]
        if text is not None:
            self._lines += [f"{text.name} = data[p : end{text.head}]", f"p = end{text.head}"]
        self._heads = []

    def _cut(self) -> None:
        """What is the same, and what has the same length."""
        if not self._gone:
            return
        many, number = self._gone, len(self._lines)
        self._lines.append(f"if p + {many} > end: return None")
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
            self._lines.append(f"if data[p : p + {many}] != {self._same[0]!r}: return None")
        self._lines.append(f"p += {many}")
        self._same, self._leaves, self._gone = [b""], [], 0
