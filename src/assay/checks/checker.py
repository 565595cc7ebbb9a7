"""The base class of checks (FEP 2.3), and the types of their arguments."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
from msgspec import Meta, Struct

from assay.checks.worker_tasks import WorkerTask
from assay.ports import Services
from assay.protocol.canonical import canonical

Answer = Mapping[str, Any]
Run = Callable[..., Any]

PASSED: Final[Answer] = {"passed": True}
FAILED: Final[Answer] = {"passed": False}
FALLBACK: Final[Answer] = {
    "": "returned by a compiled form for an unusual value: the interpreted form answers"
}


class AnswerWithMetadata(dict[str, Any]):
    """An answer whose check result has additional metadata."""

    __slots__ = ("metadata",)

    def __init__(self, results: Answer, metadata: Mapping[str, Any]) -> None:
        super().__init__(results)
        self.metadata = dict(metadata)


class Text(str):
    """Any JSON value except null, as text. A string stays as it is; any other value is canonical JSON (FEP-19)."""

    __slots__ = ()


class Canonical(Text):
    """The text of a value that is not a string, with the value: numbers are compared by value (FEP-51)."""

    __slots__ = ("value",)

    def __new__(cls, text: str, value: Any) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Canonical, (str(self), self.value)


def as_text(value: Any) -> Text:
    """The text of a value: a string stays, others become canonical JSON. ValueError for null (FEP-19)."""
    if isinstance(value, str):
        return Text(value)
    if value is None:
        raise ValueError("expected a text or a value that can be written as text")
    return Canonical(canonical(value), value)


class Nodes(list[Any]):
    """The values of all nodes that a path finds; the list may be empty. For checks that test whether a value exists."""

    __slots__ = ()


# configuration: never a path (FEP-12), and shown without its secrets (FEP-17)
Opaque = Annotated[dict[str, Any], Meta(extra={"literal": True, "secrets": True})]
Schema = Annotated[dict[str, Any], Meta(extra={"literal": True})]  # a JSON Schema: never a path either
Template = Annotated[
    str, Meta(extra={"literal": True, "template": True})
]  # a prompt: paths only inside {{…}}
Prompt = Annotated[  # a template whose text up to its first placeholder is marked: a provider may cache it
    str, Meta(extra={"literal": True, "template": True, "marked": True})
]
Number = int | float  # JSON numbers only: msgspec takes no strings and no bools here (FEP-23)
Phrase = Annotated[str, Meta(min_length=1)]


class InvalidArgument(ValueError):
    """A literal that is invalid in every case. `argument` is its name."""

    def __init__(self, argument: str, message: str) -> None:
        self.argument = argument
        super().__init__(message)


def verdict(passed: bool) -> Answer:
    return PASSED if passed else FAILED


class Checker(Struct, forbid_unknown_fields=True):
    """
    The typed fields are the argument schema. `run`, or `async def run`, returns the answer: a dict for `results`.

    class Polite(Checker):
        type = "polite"

        text: Text

        def run(self, services: Services) -> Answer:
            return {"passed": "please" in self.text}

    `waits = False` promises that `run` is quick and never blocks: it is then called in place, without a thread and
    without a deadline. `isolate = True` runs it in a process of its own, which a deadline can kill.
    `keeps_time = True` promises that it ends by itself within `check_seconds`, apart from the wait for a rate limit.
    """

    type: ClassVar[str] = ""
    version: ClassVar[str] = "1.0.0"
    waits: ClassVar[bool] = True
    isolate: ClassVar[bool] = False
    keeps_time: ClassVar[bool] = False
    results_schema: ClassVar[dict[str, Any]] = {"type": "object"}
    default_paths: ClassVar[
        Mapping[str, str]
    ] = {}  # arguments that are paths if the caller does not give them

    def run(self, services: Services) -> Answer | Awaitable[Answer] | WorkerTask:
        """Return the answer for one output. Raise a Fault, or any exception, if there is no answer."""
        raise TypeError(f"{type(self).__name__} has no run()")

    @classmethod
    def validate_class(cls) -> None:
        """Raise ValueError for a class that cannot be registered."""

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        """
        Raise InvalidArgument or ValueError for literals that are invalid in every case. Their types are already
        checked.
        """

    @classmethod
    def validate_host(cls, literals: Mapping[str, Any], services: Services) -> None:
        """Raise InvalidRequest, with paths among the arguments, for what this host cannot do."""

    @classmethod
    def held_bytes(cls, literals: Mapping[str, Any]) -> int:
        """An estimate of the memory that the compiled form of these literals holds, beyond the literals."""
        return 0

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        """
        A faster form for these literals, or None: build and run.

        It takes the values of the other arguments, in the order of the fields, and answers PASSED, FAILED,
        another answer, or FALLBACK to let the interpreted form answer.
        """
        return None


def closed_object(properties: Mapping[str, Any], optional: Collection[str] = ()) -> dict[str, Any]:
    """The schema of an object with these members and no others; all but the optional ones are required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


PASSED_SCHEMA: Final = closed_object({"passed": {"type": "boolean"}})


def argument_schema(checker: type[Checker]) -> dict[str, Any]:
    """The JSON Schema of a check's arguments. A `$.` path may replace any argument that is not opaque."""
    return msgspec.json.schema(checker, schema_hook=_schema_of)


def _schema_of(kind: Any) -> dict[str, Any]:
    if kind is Text:
        return {"description": "any JSON value but null, as text"}
    if kind is Nodes:
        return {"type": "string", "pattern": r"^\$\.", "description": "a path"}
    return {}
