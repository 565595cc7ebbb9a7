"""
Results of checks that all cases share, on the wire: what is the same in every case is written once a run.

Of a line only what differs is read: of the arguments those that a path led to. Where it goes depends on nothing but its length.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from assay.checks.arguments import Bound
from assay.protocol.results import CheckError
from assay.serve.grpc import packed
from assay.serve.grpc.packed import entry, sized

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Found(msgspec.Struct):
    """An argument that a path led to."""

    value: Raw


class Column:
    """The arguments of one check, in every case."""

    def __init__(self, bound: Bound) -> None:
        self.names = [path.field.name for path in bound.paths]
        paths = {path.field.name: path.shown for path in bound.paths}
        self.literals = b"".join(
            entry(name.encode(), packed.value(_decode(_encode({"value": bound.shown[name]}))))
            for name in bound.order
            if name not in paths and name in bound.shown
        )
        self._shown = [
            b"" if said is UNSET else entry(b"jsonpath", packed.text(said.encode()))
            for said in paths.values()
        ]
        self._before: list[dict[int, bytes]] = [{} for _ in self.names]

    def before(self, at: int, size: int) -> bytes:
        """All that stands before a value of this size."""
        found = self._before[at].get(size)
        if found is None:
            body = self._shown[at] + entry(b"value", bytes(size))
            found = entry(self.names[at].encode(), sized(b"\x2a", body))[:-size]
            self._before[at][size] = found
        return found

    @property
    def type(self) -> Any:
        """What is read of its result."""
        arguments = msgspec.defstruct(
            "Arguments",
            [
                (f"a{at}", Found | None, msgspec.field(default=None, name=name))
                for at, name in enumerate(self.names)
            ],
        )
        return msgspec.defstruct(
            "Checked",
            [
                ("check_type", str),
                ("status", str),
                ("results", Raw),
                ("evaluated_at", str),
                ("metadata", Raw, Raw(b"{}")),
                ("resolved_arguments", arguments | None, None),
                ("error", CheckError | None, None),
            ],
        )
