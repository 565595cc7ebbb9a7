"""The reader of packs of one host: it trusts the keys of the operator and validates suites as uploads are validated."""

from collections.abc import Mapping, Sequence

from assay.agenteval.suite import read_suite
from assay.packs.archive import PackLimits
from assay.packs.pack import PackReader, trusted_keys
from assay.packs.requirements import Supplied
from assay.ports import Limits
from assay.ports.config import PackKeyConfig


def pack_reader(
    keys: Mapping[str, PackKeyConfig], limits: Limits, supplied: Supplied, key_files: Sequence[str] = ()
) -> PackReader:
    """With the keys of `[pack_keys]` and of `--public-key`. A key that cannot be read is refused now."""
    return PackReader(
        trusted_keys(keys, key_files), read_suite, PackLimits(limits.max_pack_bytes), supplied=supplied
    )
