"""What does not fit is refused in words that say what would: of a choice, what there is to choose from."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Struct, inspect

from assay.auth.jwt_settings import JwtSettings
from assay.checks import STANDARD
from assay.checks.arguments import convert, fields_of
from assay.errors import InvalidRequest, UsageError, ValueFault
from assay.ports import Provider
from assay.protocol.agents import ModelClass
from assay.protocol.manifest import read_manifest
from assay.protocol.validation_messages import message_of, path_in
from assay.settings import CONFIGURED, load
from assay.workflow.loop_settings import read_loop
from assay.workflow.state.decisions import read_decision


class One(Struct, tag="one", tag_field="kind"):
    way: Annotated[Literal["in", "out"] | None, msgspec.Meta(description="where")] = None


class Two(Struct, tag="two", tag_field="kind"):
    by_key: dict[Literal["k", "l"], int] = msgspec.field(default_factory=dict, name="byKey")
    deep: dict[str, list[tuple[Literal[1, 2], ...]]] = {}


@pytest.mark.parametrize(
    ("value", "place", "message"),
    [
        ({"kind": "three"}, ".kind", "expected one of one, two, got 'three'"),
        ({"kind": "one", "way": "up"}, ".way", "expected one of in, out, got 'up'"),
        ({"kind": "two", "byKey": {"m": 1}}, ".byKey", "expected one of k, l, got 'm'"),
        ({"kind": "two", "deep": {"a": [[1], [2, 3]]}}, ".deep[...][1][1]", "expected one of 1, 2, got 3"),
        ({"kind": "one", "way": "u" * 50}, ".way", f"expected one of in, out, got '{'u' * 39}…"),
        ({"kind": "one", "way": 1}, ".way", "expected a string or null, got a whole number"),
        ({}, "", "an object missing required field `kind`"),
    ],
)
def test_a_wrong_choice_is_refused_with_the_possible_ones(value, place, message):
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert(value, One | Two)
    assert (path_in(wrong.value), message_of(wrong.value, One | Two)) == (place, message)
    assert not message_of(wrong.value, One | Two, include_value=False).endswith(("'", "…", "3"))


class Closed(Struct, forbid_unknown_fields=True):
    first: int = 0
    within: "list[Closed]" = msgspec.field(default_factory=list, name="inside")


@pytest.mark.parametrize(
    ("value", "place", "kind", "message"),
    [
        ({"frist": 1}, "", Closed, "an object contains unknown field `frist`; it may have first, inside"),
        ({"inside": [{"x": 1}]}, ".inside[0]", Closed, "an object contains unknown field `x`; it may have first, inside"),
        ({"x": 1}, "", Any, "an object contains unknown field `x`"),
        ({"str": 1}, "", Any, "an object contains unknown field `str`"),
        ({"first": None}, ".first", Closed, "expected a whole number, got null"),
        ({"inside": True}, ".inside", Closed, "expected a list, got true or false"),
        ({"inside": [""]}, ".inside[0]", Closed, "expected an object, got a string"),
    ],
)  # fmt: skip
def test_an_unknown_member_is_refused_with_the_known_ones(value, place, kind, message):
    with pytest.raises(msgspec.ValidationError) as wrong:
        msgspec.convert(value, Closed)
    assert (path_in(wrong.value), message_of(wrong.value, kind)) == (place, message)


def choices(kind: Any) -> dict[str, list[str]]:
    """The members of a struct that are a choice."""
    found = {}
    for field in inspect.type_info(kind).fields:
        parts = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        for part in parts:
            if isinstance(part, inspect.LiteralType):
                found[field.name] = [str(one) for one in part.values]
    return found


TABLES = {
    **{name: (f"{name}.one", kind) for name, kind in CONFIGURED.items()},
    "providers": ("providers.one", Provider),
}
SETTINGS = [
    pytest.param(place, name, there, id=f"{place}.{name}")
    for place, kind in TABLES.values()
    for name, there in choices(kind).items()
]


def test_there_are_settings_that_are_a_choice():
    assert len(SETTINGS) >= 8
    assert not choices(JwtSettings)


@pytest.mark.parametrize(("place", "name", "there"), SETTINGS)
def test_a_wrong_setting_is_refused_with_the_possible_values(tmp_path, monkeypatch, place, name, there):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text(f'[{place}]\n{name} = "vibes"\n')
    with pytest.raises(UsageError) as refused:
        load({})
    (line,) = [line for line in str(refused.value).splitlines() if f".{name}: " in line]
    assert f"expected one of {', '.join(there)}" in line


def test_a_wrong_argument_is_refused_with_the_possible_values():
    found = 0
    for checker in STANDARD:
        there = choices(checker)
        for field in fields_of(checker):
            if field.attribute in there:
                found += 1
                with pytest.raises(ValueFault) as fault:
                    convert(field, "vibes")
                wanted = ", ".join(there[field.attribute])
                assert str(fault.value) == f"{field.name}: expected one of {wanted} but got 'vibes'"
    assert found >= 2


def test_a_loop_a_manifest_and_a_decision_refuse_with_the_possible_values():
    with pytest.raises(
        InvalidRequest, match=r"on_fail: expected one of escalate, give-up, retry, got 'shrug'"
    ):
        read_loop("mine", {"actor": "a", "on_fail": "shrug"})
    _, problems = read_manifest({"modelClass": "vibes", "role": "boss"})
    messages = {problem.place: problem.message for problem in problems}
    assert messages["role"] == "expected one of assistant, skill, got 'boss'"
    there = ", ".join(sorted(ModelClass.__args__))
    assert messages["modelClass"] == f"expected one of {there}, got 'vibes'"
    with pytest.raises(
        ValueError, match="kind: expected one of next-worker, ask-user, terminate, got 'shrug'"
    ):
        read_decision({"kind": "shrug"})
