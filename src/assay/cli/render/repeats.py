"""pass^k and pass@k in tables and JSON: which k are shown, and the refusal of a k that the trials do not allow."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from assay.cli.console.console import count_of
from assay.errors import UsageError
from assay.stats.intervals import METHOD_NAMES, Method, Rate
from assay.stats.number_text import rate_text

MAX_SHOWN = 4  # of more k, only the first, the second and the last are shown
Key = TypeVar("Key", str, int)


def read_ks(texts: Sequence[str]) -> tuple[int, ...]:
    """The values of `--k`: each is a number, or several with commas between them."""
    ks: set[int] = set()
    for text in texts:
        for part in text.split(","):
            if not (part.strip().isdecimal() and part.isascii()) or len(part) > 9 or not int(part):
                raise UsageError(f"--k {text!r}: expected whole numbers of at least 1, such as 3 or 1,3,5")
            ks.add(int(part))
    return tuple(sorted(ks))


def validate_ks(ks: Sequence[int], trials: int) -> None:
    """Refuse a k above the number of trials, before the run."""
    for k in ks:
        if k > trials:
            raise UsageError(
                f"--k {k}: expected a number from 1 to {trials}, because the run has {count_of(trials, 'trial')}"
                f" of each case; use --trials {k}, or a smaller k"
            )


def select_ks(rates: Mapping[Key, Rate], ks: Sequence[int]) -> dict[Key, Rate]:
    """The rates of these k; all rates without a choice. A k that no case has enough measured trials for is refused."""
    if not ks:
        return dict(rates)
    by_number = {int(k): k for k in rates}
    for k in ks:
        if k not in by_number:
            most = max(by_number, default=1)
            raise UsageError(
                f"--k {k}: expected a number from 1 to {most}, because no case has more than"
                f" {count_of(most, 'measured trial')}"
                + ("; pass@k and pass^k need several trials of a case" if not by_number else "")
            )
    return {by_number[k]: rates[by_number[k]] for k in ks}


def repeat_line(
    name: str, rates: Mapping[str, Rate] | Mapping[int, Rate], ks: Sequence[int], noun: str = "case"
) -> str | None:
    """
    `pass^1 75.0% (…), pass^2 50.0% (…) (95%)`. `name` is `pass^` or `pass@`. None if there is nothing to show.

    Without a choice, pass@1 is left out, because it is pass^1. A rate over fewer cases than another has their number.
    """
    by_number = {int(k): value for k, value in rates.items()}
    every = max((value.cases for value in by_number.values()), default=0)
    shown = list(ks) or [k for k in by_number if name == "pass^" or k > 1]
    if not ks and len(by_number) > MAX_SHOWN:
        shown = [*shown[:2], shown[-1]] if name == "pass^" else [shown[0], shown[-1]]
    texts = [
        f"{name}{k} {rate_text(value)}"
        + (f" over {count_of(value.cases, noun)}" if value.cases < every else "")
        for k, value in ((k, by_number[k]) for k in shown if k in by_number)
    ]
    if not texts:
        return None
    return f"{', '.join(texts)} (95%)"


def method_line(methods: Iterable[Method]) -> str:
    """`95% intervals: Wilson, Gaffke`, which --verbose prints."""
    return f"95% intervals: {', '.join(dict.fromkeys(METHOD_NAMES[one] for one in methods)) or 'none'}"
