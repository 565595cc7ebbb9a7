"""The packs that a host offers to its tenants."""

from typing import NamedTuple

from assay.packs.pack import PackReader
from assay.packs.store import PackStore


class PackService(NamedTuple):
    """The stored packs, and the reader with the keys of the host. `offered`: False answers as if there were none."""

    packs: PackStore
    reader: PackReader
    offered: bool = True
