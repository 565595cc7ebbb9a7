"""The documents of `--json` of keys and packs. Their schemas come from these types."""

from datetime import datetime

from msgspec import UNSET, Struct, UnsetType

from assay.packs.pack import PackFile
from assay.packs.references import PackSuite


class BuiltDocument(Struct):
    """The document of `pack build --json`."""

    pack: str
    integrity: str
    files: list[str]


class VerifiedPack(Struct, kw_only=True, rename="camel"):
    """The document of `pack verify --json`: what the pack has, or why it is refused."""

    valid: bool
    code: str | UnsetType = UNSET
    problems: list[dict[str, str]] | UnsetType = UNSET
    pack: str | UnsetType = UNSET
    integrity: str | UnsetType = UNSET
    signed_by: str | UnsetType | None = UNSET
    digest_from: str | UnsetType | None = UNSET
    agents: list[str] | UnsetType = UNSET
    suites: list[PackSuite] | UnsetType = UNSET
    files: dict[str, PackFile] | UnsetType = UNSET


class KeyDocument(Struct, kw_only=True):
    """A key of `admin key list --json`; `admin key create --json` adds the key itself."""

    created: datetime
    expires: datetime | None
    id: str
    key: str | UnsetType = UNSET
    note: str
    prefix: str
    revoked: datetime | None
    scopes: list[str]
    state: str
    tenant: str


class MigrationDocument(Struct):
    """The document of `admin migrate --json`. `schema` is the version of the tables."""

    schema: str


class RekeyDocument(Struct):
    """The document of `admin rekey --json`."""

    resealed: int
    rewrapped: int
    key: str | None
