"""The refusals of packs, with the codes that registries publish (openwop-contract §7.3)."""

from collections.abc import Sequence
from typing import Literal

from assay.errors import InvalidRequest, Problem

Code = Literal[
    "tarball_gunzip_failed", "tarball_too_large", "tarball_manifest_missing", "tarball_manifest_not_json",
    "tarball_entry_missing", "tarball_entry_too_large", "tarball_path_traversal", "tarball_tar_parse_failed",
    "invalid_manifest", "manifest_name_mismatch", "manifest_version_mismatch", "pack_integrity_failure",
    "unsupported_runtime", "pack_engine_unsupported", "pack_peer_dependency_missing", "pack_version_not_found",
]  # fmt: skip


class PackRefused(InvalidRequest):
    """A pack that is not installed: one published code, and every problem with the file it is in."""

    def __init__(self, code: Code, problems: str | Problem | Sequence[Problem]) -> None:
        self.code = code
        super().__init__(problems)

    @property
    def lines(self) -> tuple[str, ...]:
        """For a terminal, with the code: other hosts answer with the same one."""
        return tuple(f"{self.code}: {line}" for line in super().lines)


class PackTooLarge(PackRefused):
    """A pack above a bound of this host."""

    code: Code = "tarball_too_large"
