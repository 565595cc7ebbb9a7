"""Safety findings in words, as every headline has them."""

from collections.abc import Sequence

MAX_KINDS = 3  # that a sentence names


def findings_text(number: int, severity: str, kinds: Sequence[str]) -> str:
    """`4 critical findings (secret-leak, pii-leak)`."""
    noun = "finding" if number == 1 else "findings"
    named = ", ".join(kinds[:MAX_KINDS]) + (", …" if len(kinds) > MAX_KINDS else "")
    return f"{number:,} {severity} {noun}" + (f" ({named})" if named else "")
