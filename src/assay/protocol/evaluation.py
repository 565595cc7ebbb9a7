"""Evaluation requests: test cases, outputs, checks, experiments (FEP 2.1, 2.2, 2.3, 3.2)."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import force_setattr

from assay.protocol.json_types import JSON
from assay.protocol.versions import SEMVER

# For the JSON Schema only: values are validated elsewhere, with better messages.
Version = Annotated[str, Meta(extra_json_schema={"pattern": SEMVER})]
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1})]
MAX_CHECK_NAME = 128
CheckName = Annotated[
    str,
    Meta(
        description="The row of this check in tables; unique among the checks of a case (an extension of assay).",
        extra_json_schema={"minLength": 1, "maxLength": MAX_CHECK_NAME},
    ),
]


def unset(struct: Struct, *names: str) -> None:
    """Treat optional members that are null as absent (FEP-44)."""
    for name in names:
        if getattr(struct, name) is None:
            force_setattr(struct, name, UNSET)


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One check of an output (FEP 2.3). A string argument that begins with `$.` is a path."""

    type: str
    arguments: JSON
    version: Version | UnsetType | None = UNSET
    name: CheckName | UnsetType | None = UNSET  # FEP-45

    def __post_init__(self) -> None:
        unset(self, "version", "name")


class CallMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    What must hold of the arguments of a call: each member that is given.

    `check` is put to `{"tool": …, "arguments": …}`: its paths begin with `$.arguments`.
    """

    arguments: dict[str, Any] | UnsetType = UNSET  # each member equal as JSON
    argument_match: Literal["equal", "subset"] | UnsetType = UNSET  # whether a call may have more arguments
    schema: dict[str, Any] | bool | UnsetType = UNSET  # a JSON Schema of the arguments
    check: Check | UnsetType = UNSET


class CallPattern(CallMatch, frozen=True, kw_only=True):
    """Calls of a tool. Without other members, every call of it."""

    tool: Annotated[str, Meta(min_length=1)]


class TestCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One evaluation unit (FEP 2.1). `input` may be any JSON value, and so may `expected` (FEP-1).

    Additional members are stored, addressable and returned (FEP-10). In Python, pass a case with additional members as
    a dict.
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
    """The output of the system under test (FEP 2.2). Additional members are treated as in a test case."""

    id: Id | UnsetType | None = UNSET
    value: Any
    metadata: JSON | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "id", "metadata")


class ExperimentMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The experiment of a run (FEP 3.2)."""

    name: str | UnsetType | None = UNSET
    metadata: JSON | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "name", "metadata")


class EvaluationRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    Everything for one run (FEP 3.1): `outputs[i]` answers `test_cases[i]`.

    `checks` is one list for all cases, or one list per case. Without it, every case has its own (FEP-11).
    """

    test_cases: list[TestCase]
    outputs: list[Output]
    checks: list[Check | list[Check]] | UnsetType | None = UNSET
    experiment_metadata: ExperimentMetadata | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        unset(self, "checks", "experiment_metadata")
