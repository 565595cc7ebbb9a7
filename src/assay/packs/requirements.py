"""
What a pack requires of its host: the version of the protocol, other packs, and capabilities (openwop-contract §7.2, RFC
0072 §C).

A capability that the manifest marks optional may be missing; the inventory of agents then lists it as degraded.
"""

from collections.abc import Mapping

from msgspec import UNSET

from assay.errors import Problem
from assay.packs.archive import PackRefused
from assay.packs.pack_manifest import PACK_JSON, PackManifest
from assay.protocol.versions import VersionRange

PROTOCOL_VERSION = "1.1.0"
# By name: a capability that is there or not, a version, or the words that a range may name.
Supplied = Mapping[str, bool | str | tuple[str, ...]]


def check_requirements(manifest: PackManifest, supplied: Supplied) -> None:
    """Refuse a pack for another version of the protocol, or with a capability that this host does not have."""
    if not VersionRange(manifest.engines.openwop).admits(PROTOCOL_VERSION):
        message = (
            f"expected a range with {PROTOCOL_VERSION}, the version of this host, got "
            f"{manifest.engines.openwop!r}"
        )
        raise PackRefused("pack_engine_unsupported", Problem(f"{PACK_JSON}: engines.openwop", message))
    missing = unmet(required_peers(manifest), supplied)
    if missing:
        raise PackRefused(
            "pack_peer_dependency_missing",
            [
                Problem(
                    f"{PACK_JSON}: peerDependencies.{name}",
                    f"expected a host with {name} {wanted!r}; this one has none",
                )
                for name, wanted in missing.items()
            ],
        )


def required_peers(manifest: PackManifest) -> dict[str, str]:
    optional = optional_peers(manifest)
    return {name: wanted for name, wanted in _peers(manifest).items() if name not in optional}


def optional_peers(manifest: PackManifest) -> dict[str, str]:
    about = {} if manifest.peer_dependencies_meta is UNSET else manifest.peer_dependencies_meta
    return {
        name: wanted for name, wanted in _peers(manifest).items() if name in about and about[name].optional
    }


def _peers(manifest: PackManifest) -> dict[str, str]:
    return {} if manifest.peer_dependencies is UNSET else manifest.peer_dependencies


def unmet(peers: Mapping[str, str], supplied: Supplied) -> dict[str, str]:
    """Those of the capabilities that this host does not supply."""
    return {
        name: wanted
        for name, wanted in peers.items()
        if not _meets(supplied.get(name.removeprefix("openwop."), False), wanted)
    }


def _meets(has: bool | str | tuple[str, ...], wanted: str) -> bool:
    if not has:
        return False
    if wanted in ("supported", "*"):
        return True
    if isinstance(has, str):
        try:
            return VersionRange(wanted).admits(has)
        except ValueError:
            return False
    words = () if has is True else has
    return _word(wanted.removeprefix(">=").strip()) in map(_word, words)


def _word(text: str) -> str:
    """`longTerm` and `long-term` are the same."""
    return text.replace("-", "").casefold()
