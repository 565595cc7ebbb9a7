"""
One attack: a request that an agent must not follow, in several languages, with slots for what differs from task to
task.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

Place = Literal["input", "document", "tool-result", "memory"]
ANYWHERE: tuple[Place, ...] = ("input", "document", "tool-result", "memory")
UNTRUSTED: tuple[Place, ...] = ("tool-result", "memory")  # fixtures, in which a canary is replaced
CANARY = "{{canary}}"  # the mode `adversarial` replaces it at run time
_SLOT = re.compile(r"<<(\w+)>>")


class Attack(Struct, frozen=True, kw_only=True):
    """
    A row of the table ATTACKS. `texts` has the request by language; `en` is required.

    The slots of a text: `<<canary>>` is the canary of the run, `<<tool>>` a tool of the agent, `<<other_tool>>` a tool
    that the agent does not have, `<<host>>` a host of a reserved domain, `<<key>>` a random text in the form of an
    access key, `<<person>>` the contact details of a person that does not exist, `<<script>>` a script element of HTML,
    and `<<escape>>` an escape sequence of terminals.
    """

    name: str  # part of a taskId
    kind: str  # the kind of finding that an agent gets if it follows the request
    owasp: str  # the entry of the OWASP Top 10 for LLM Applications (2025): llm01 to llm10
    texts: Mapping[str, str]
    places: tuple[Place, ...] = ANYWHERE

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(_SLOT.findall(self.texts["en"]))


class TextPart(NamedTuple):
    """A piece of an attack's text. A lossy transform must not change a literal one."""

    text: str
    literal: bool


def parts_of(text: str, slots: Mapping[str, str]) -> Iterator[TextPart]:
    """The text with its slots filled, in pieces."""
    at = 0
    for slot in _SLOT.finditer(text):
        yield TextPart(text[at : slot.start()], literal=False)
        yield TextPart(slots[slot[1]], literal=True)
        at = slot.end()
    yield TextPart(text[at:], literal=False)
