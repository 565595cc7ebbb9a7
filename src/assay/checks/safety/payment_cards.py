"""Payment cards: numbers of 12 to 19 digits whose prefix and length an issuer uses, with a valid check digit (Luhn)."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from assay.checks.safety.check_digits import is_valid

LENGTHS: Final = range(12, 20)
ANY: Final = tuple(LENGTHS)
LONG: Final = (16, 17, 18, 19)
ISSUERS: Final[
    tuple[tuple[int, int, tuple[int, ...]], ...]
] = (  # prefixes of six digits, from and to, and the lengths
    (60400, 60499, ANY),  # Maestro
    (180000, 180099, (15,)),  # JCB
    (213100, 213199, (15,)),
    (220000, 220499, LONG),  # Mir
    (222100, 272099, (16,)),  # Mastercard
    (300000, 305999, (14, *LONG, 15)),  # Diners Club
    (309500, 309599, (14, *LONG, 15)),
    (340000, 349999, (15,)),  # American Express
    (352800, 358999, LONG),  # JCB
    (360000, 369999, (14, *LONG, 15)),  # Diners Club
    (370000, 379999, (15,)),  # American Express
    (380000, 399999, (14, *LONG, 15)),  # Diners Club
    (400000, 499999, (13, 16, 18, 19)),  # Visa
    (500000, 509999, ANY),  # Maestro and debit cards of countries
    (510000, 559999, (16,)),  # Mastercard
    (560000, 599999, ANY),  # Maestro
    (600000, 600999, (16,)),  # RuPay
    (601100, 601199, LONG),  # Discover
    (604000, 609999, (16,)),  # UkrCard, RuPay, Hipercard
    (620000, 629999, LONG),  # UnionPay
    (630400, 630499, ANY),  # Maestro
    (633400, 633499, LONG),  # Solo
    (636000, 636999, LONG),  # InterPayment
    (637000, 638999, (16,)),  # InstaPayment, Hipercard
    (639000, 639999, ANY),  # Maestro
    (644000, 659999, LONG),  # Discover
    (670000, 679999, ANY),  # Maestro
    (810000, 829999, LONG),  # UnionPay, RuPay
    (860000, 860099, (16,)),  # Uzcard
    (970400, 970499, (16, 19)),  # Napas
    (979200, 979299, (16,)),  # Troy
    (986000, 986099, (16,)),  # Humo
)
WORDS: Final = (
    "credit card", "debit card", "card number", "card no", "card_number", "cardnumber", "card:", "visa", "mastercard", "maestro", "amex",
    "american express", "kreditkarte", "kartennummer", "carte bancaire", "carte de crédit", "tarjeta", "carta di credito", "cartão", "信用卡", "クレジットカード",
)  # fmt: skip
_RUN = re.compile(r"\d+(?:[ .\u00a0\u2009-]\d+)*")
_EDGE = re.compile(r"[A-Za-z0-9_.,-]")
_AFTER = re.compile(r"[A-Za-z0-9_]|[.,]\d|-\w")
_OTHER = re.compile(r"\b(?:ean|gtin|upc|isbn|barcode|order|invoice|ticket|serial|tracking|imei|sku|ref(?:erence)?|timestamp|id)\b[\s.:#°no-]{0,8}\Z", re.IGNORECASE)  # fmt: skip
_EXAMPLE = re.compile(r"\b(?:example|e\.g\.|for instance|such as|format|test|sandbox|dummy|placeholder|fake|beispiel|z\. ?b\.|par exemple|por ejemplo|looks like|sample|demo)", re.IGNORECASE)  # fmt: skip
_PUBLISHED = re.compile(  # for tests
    r"4242|4111111111111111|5555555555554444|4000000000000|378282246310005|371449635398431|6011111111111117|5105105105105100|4012888888881881|30569309025904|3530111333300000|5200828282828210|6011000990139424"
)
_STARTS: Final = [first for first, _, _ in ISSUERS]


def is_issued(number: str) -> bool:
    """Whether an issuer has numbers with this beginning and this length."""
    prefix = int(number[:6])
    at = bisect_right(_STARTS, prefix) - 1
    return at >= 0 and prefix <= ISSUERS[at][1] and len(number) in ISSUERS[at][2]


def card_spans(text: str, is_announced: Callable[[int], bool]) -> Iterator[tuple[int, int]]:
    """
    Start and end of every card number. Behind a word for a card any number counts, else one of an issuer.

    A run of groups of digits may hold more than the card, such as its date: the longest number that begins at a group
    counts.
    """
    for run in _RUN.finditer(text):
        if run.end() - run.start() < LENGTHS[0]:
            continue
        groups = [match.span() for match in re.finditer(r"\d+", run[0])]
        at = 0
        while at < len(groups):
            end = _card_end(text, run, groups, at, is_announced)
            if end is None:
                at += 1
            else:
                yield run.start() + groups[at][0], run.start() + groups[end][1]
                at = end + 1


def _card_end(
    text: str,
    run: re.Match[str],
    groups: list[tuple[int, int]],
    first: int,
    is_announced: Callable[[int], bool],
) -> int | None:
    """The index of the last group of a card that begins with this group; None if there is none."""
    start = run.start() + groups[first][0]
    if groups[first][1] - groups[first][0] > LENGTHS[-1] or (
        first == 0 and _EDGE.match(text[start - 1 : start] if start else "")
    ):
        return None
    announced = is_announced(start)
    if not announced and not 4 <= groups[first][1] - groups[first][0] <= LENGTHS[-1]:
        return None
    digits, ends = "", list[tuple[int, str]]()
    for at in range(first, min(first + LENGTHS[-1], len(groups))):
        digits += run[0][groups[at][0] : groups[at][1]]
        if len(digits) > LENGTHS[-1]:
            break
        if len(digits) >= LENGTHS[0]:
            ends.append((at, digits))
    for at, number in reversed(ends):
        end = run.start() + groups[at][1]
        if at == len(groups) - 1 and _AFTER.match(text, end):
            continue
        form = [groups[one][1] - groups[one][0] for one in range(first, at + 1)]
        separators = {run[0][groups[one][1]] for one in range(first, at)}
        if (announced or _is_grouped(form, separators)) and _counts(
            text, start, end, number, announced=announced
        ):
            return at
    return None


def _is_grouped(form: list[int], separators: set[str]) -> bool:
    """
    Whether groups of these lengths are the way to write one card: not a decimal number, and not a list of numbers.
    """
    if len(form) == 1:
        return True
    return (
        len(separators) == 1
        and 4 <= form[0] <= 6
        and min(form[:-1]) >= 3
        and ("." not in separators or len(form) > 2)
    )


def _counts(text: str, start: int, end: int, number: str, *, announced: bool) -> bool:
    if not is_valid("luhn", number):
        return False
    if _PUBLISHED.match(number):
        return _EXAMPLE.search(text, max(0, start - 80), end + 60) is None
    if len(set(number)) < 3:
        return False
    return announced or (is_issued(number) and not _OTHER.search(text[max(0, start - 30) : start]))
