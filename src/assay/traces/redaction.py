"""
Replaces secrets and personal data in what a trace recorded.

Equal values get the same replacement, such as `[email-1]`, so that an input, the arguments of a call and its result
still belong together.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from assay.checks.safety.pii_leak import personal_spans
from assay.checks.safety.secret_leak import secret_spans
from assay.protocol.json_types import is_list, is_object
from assay.protocol.redaction import HIDDEN
from assay.protocol.secret_patterns import find_secrets

_REPLACED = re.compile(r"\[[^\[\]]+-\d+\]")


class Redactor:
    """Redacts values and counts the distinct ones that it replaced, by rule."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self.counts = Counter[str]()

    def value(self, value: Any) -> Any:
        """A copy of a JSON value. Names of members are redacted too."""
        if isinstance(value, str):
            return self.text(value)
        if is_list(value):
            return [self.value(one) for one in value]
        if is_object(value):
            return {self.text(name): self._member(name, one) for name, one in value.items()}
        return value

    def text(self, text: str, lead: str = "") -> str:
        """A text without secrets and personal data. `lead` is the name of the member that has it."""
        text = self._without(text, [(one.first, one.last, one.name) for one in find_secrets(text)])
        text = self._without(text, secret_spans(text))
        return self._without(text, personal_spans(text, lead))

    def _without(self, text: str, spans: Sequence[tuple[int, int, str]]) -> str:
        parts: list[str] = []
        done = 0
        for start, end, rule in spans:
            if start >= done and not _REPLACED.fullmatch(text[start:end]):
                parts += [text[done:start], self._replacement(rule, text[start:end])]
                done = end
        return "".join((*parts, text[done:]))

    def _member(self, name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.value(value)
        if value and HIDDEN.search(name):
            return self._replacement(name.lower(), value)
        return self.text(value, f"{name}: ")

    def _replacement(self, rule: str, value: str) -> str:
        key = rule, value
        if key not in self._names:
            self.counts[rule] += 1
            self._names[key] = f"[{rule}-{self.counts[rule]}]"
        return self._names[key]
