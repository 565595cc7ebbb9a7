"""The digest of a tarball, and the version manifest that a registry publishes beside it (openwop-contract §7.5)."""

import base64
import hashlib
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from assay.errors import Problem
from assay.packs.refusal import Code, PackRefused
from assay.protocol.json_types import is_object

FORM = re.compile(r"sha256-[A-Za-z0-9+/]{43}=")
REGISTRY = frozenset(
    {
        "integrity", "publishedAt", "tarballUrl", "signatureUrl", "deprecated", "yanked", "yankedReason",
        "deprecationReason", "supersededBy", "advisoryUrl",
    }
)  # fmt: skip  # the members of a version manifest that the registry adds


class ExpectedDigest(Struct, frozen=True, kw_only=True):
    """
    The digest that an operator supplies, and the version manifest if it came from one. `origin` names it in messages.
    """

    integrity: str
    origin: str
    source: Literal["manifest", "integrity"] = "integrity"
    manifest: dict[str, Any] = {}


def integrity_of(data: bytes) -> str:
    """`sha256-<base64>`, as in a version manifest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(data).digest()).decode()


def hex_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def expected_digest(text: str, origin: str) -> ExpectedDigest:
    """The digest as an option or a header gives it."""
    if not FORM.fullmatch(text):
        message = f"expected sha256- and 44 characters of base64, got {text[:80]!r}"
        raise PackRefused("pack_integrity_failure", Problem(origin, message))
    return ExpectedDigest(integrity=text, origin=origin)


def read_version_manifest(data: bytes, origin: str) -> ExpectedDigest:
    """The digest of a version manifest. A version that its registry withdrew is refused."""
    try:
        document: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise PackRefused("pack_integrity_failure", Problem(origin, f"not JSON: {wrong}")) from None
    if not is_object(document) or not isinstance(document.get("integrity"), str):
        message = "expected a version manifest, which is an object with the member integrity"
        raise PackRefused("pack_integrity_failure", Problem(origin, message))
    if document.get("yanked"):
        reason = str(document.get("yankedReason", ""))[:512]
        raise PackRefused(
            "pack_integrity_failure", Problem(origin, f"the registry withdrew this version {reason}".rstrip())
        )
    digest = expected_digest(document["integrity"], f"{origin}: integrity")
    return ExpectedDigest(integrity=digest.integrity, origin=origin, source="manifest", manifest=document)


def check_digest(data: bytes, expected: ExpectedDigest) -> None:
    """Compare the tarball with the digest, before anything of it is read."""
    found = integrity_of(data)
    if found != expected.integrity:
        message = (
            f"the digest of the tarball is {found}, expected {expected.integrity}: the tarball was "
            "changed, or is another one"
        )
        raise PackRefused("pack_integrity_failure", Problem(expected.origin, message))


def check_version_manifest(expected: ExpectedDigest, pack: dict[str, Any]) -> None:
    """The version manifest repeats pack.json: each shared member must be equal."""
    if expected.source != "manifest":
        return
    codes: dict[str, Code] = {"name": "manifest_name_mismatch", "version": "manifest_version_mismatch"}
    for name, code in codes.items():
        if expected.manifest.get(name) != pack.get(name):
            message = f"expected {pack.get(name)!r}, as in pack.json, got {expected.manifest.get(name)!r}"
            raise PackRefused(code, Problem(f"{expected.origin}: {name}", message))
    names = (set(expected.manifest) | set(pack)) - REGISTRY
    different = sorted(name for name in names if expected.manifest.get(name, ...) != pack.get(name, ...))
    if different:
        raise PackRefused(
            "pack_integrity_failure",
            [Problem(f"{expected.origin}: {name}", "it differs from pack.json") for name in different],
        )
