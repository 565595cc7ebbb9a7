"""What is asked: test cases, outputs, checks, experiments (FEP 2.1, 2.2, 2.3, 3.2)."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from assay.protocol.json_types import JSON

SEMVER = (  # as the text has it (FEP 5.1)
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
# in schemas only: what does not fit is refused in words of our own
Version = Annotated[str, Meta(extra_json_schema={"pattern": SEMVER})]
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1})]


def unset(struct: Struct, *names: str) -> None:
    """Optional members that are null are as if absent (decision 44)."""
    for name in names:
        if getattr(struct, name) is None:
            force_setattr(struct, name, UNSET)


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One question, put to an output (FEP 2.3). A string argument that begins with `$.` is a path."""

    type: str
    arguments: JSON
    version: Version | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "version")


class TestCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One evaluation unit (FEP 2.1). `input` may be any JSON value, and so may `expected` (decision 1).

    Members beyond these are kept, addressable and echoed (decision 10): give the case as a dict to have some.
    """

    __test__ = False  # for pytest, which collects classes by this name

    id: Id
    input: Any
    expected: Any | UnsetType = UNSET
    metadata: JSON | UnsetType | None = UNSET
    checks: list[Check] | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "metadata", "checks")


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the system answered (FEP 2.2). Members beyond these are kept, as in a test case."""

    id: Id | UnsetType | None = UNSET
    value: Any
    metadata: JSON | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "id", "metadata")


class ExperimentMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the run belongs to (FEP 3.2)."""

    name: str | UnsetType | None = UNSET
    metadata: JSON | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "name", "metadata")


class EvaluationRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    Everything for one run (FEP 3.1): `outputs[i]` answers `test_cases[i]`.

    `checks` is one list for all cases, or one list a case; without it every case carries its own (decision 11).
    """

    test_cases: list[TestCase]
    outputs: list[Output]
    checks: list[Check | list[Check]] | UnsetType | None = UNSET
    experiment_metadata: ExperimentMetadata | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "checks", "experiment_metadata")
