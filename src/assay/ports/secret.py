"""A text that is not shown by accident."""


class Secret:
    """A key. Only `reveal()` gives its text; printed, formatted or put in a record it is `[REDACTED]`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "[REDACTED]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)
