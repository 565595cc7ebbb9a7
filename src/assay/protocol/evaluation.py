"""What is asked: test cases, outputs, checks, experiments (FEP 2.1, 2.2, 2.3, 3.2)."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.protocol.values import JSON


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One question, put to an output (FEP 2.3). A string argument that begins with `$.` is a path."""

    type: str
    arguments: JSON
    version: str | UnsetType = UNSET


class TestCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One evaluation unit (FEP 2.1). `input` may be any JSON value, and so may `expected` (decision 1).

    Members beyond these are kept, addressable and echoed (decision 10): give the case as a dict to have some.
    """

    __test__ = False  # for pytest, which collects classes by this name

    id: str
    input: Any
    expected: Any | UnsetType = UNSET
    metadata: JSON | UnsetType = UNSET
    checks: list[Check] | UnsetType = UNSET


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the system answered (FEP 2.2). Members beyond these are kept, as in a test case."""

    id: str | UnsetType = UNSET
    value: Any
    metadata: JSON | UnsetType = UNSET


class ExperimentMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the run belongs to (FEP 3.2)."""

    name: str | UnsetType = UNSET
    metadata: JSON | UnsetType = UNSET


class EvaluationRequest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    Everything for one run (FEP 3.1): `outputs[i]` answers `test_cases[i]`.

    `checks` is one list for all cases, or one list a case; without it every case carries its own (decision 11).
    """

    test_cases: list[TestCase]
    outputs: list[Output]
    checks: list[Check | list[Check]] | UnsetType = UNSET
    experiment_metadata: ExperimentMetadata | UnsetType = UNSET
