"""The public keys that an operator trusts: those of the settings, and those of a command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import UsageError
from assay.extras import missing_extra
from assay.ports.config import PackKeyConfig

if TYPE_CHECKING:
    from assay.packs.signature import TrustedKey


def trusted_keys(configs: Mapping[str, PackKeyConfig], files: Sequence[str] = ()) -> list["TrustedKey"]:
    """
    The keys of `[pack_keys]`, and those of `--public-key FILE` or `ID=FILE`, which come first.

    Without ID= the id of a key is the name of its file without the ending.
    """
    if not configs and not files:
        return []
    try:
        from assay.packs.signature import read_trusted_key  # deferred import: the extra `guard`
    except ModuleNotFoundError as error:
        raise missing_extra("the key of a pack", "guard", error=error) from error
    keys: list[TrustedKey] = []
    for text in files:
        id, is_named, file = text.partition("=")
        if not is_named:
            id, file = Path(text).stem, text
        if not id or not file:
            raise UsageError(f"--public-key {text!r}: expected FILE or ID=FILE")
        keys.append(read_trusted_key(id, file, (), "--public-key"))
    for id, config in configs.items():
        place = f'settings: pack_keys."{id}"'
        keys.append(read_trusted_key(id, config.file, config.namespaces, place))
    return keys
