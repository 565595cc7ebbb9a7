"""Plans of checks that come again and again, by the bytes of their text, so that they are compiled once."""

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.fep.context import depth, not_json
from assay.fep.office import Office
from assay.fep.plan import Checks, Plan
from assay.fep.request import checks_from

KEPT = 256
LONGEST = 64 * 1024  # bytes of checks that are worth remembering
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Planned(NamedTuple):
    plan: Plan
    checks: msgspec.Raw | None  # as they are kept with every run that has them


class Plans:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept: OrderedDict[bytes, Planned] = OrderedDict()

    def of(self, text: bytes) -> Planned:
        """The plan of these checks; of none, that of cases which bring their own."""
        found = self._kept.get(text)
        if found is not None:
            self._kept.move_to_end(text)
            return found
        checks = self._checks(text)
        made = Planned(self._office.plan(checks), None if checks is None else msgspec.Raw(_encode(checks)))
        if made.plan.shared is not None and len(text) <= LONGEST:
            self._kept[text] = made
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _checks(self, text: bytes) -> Checks:
        if not text:
            return None
        try:
            document = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise InvalidRequest(Problem("checks", not_json(text, wrong))) from None
        if document is None:
            raise InvalidRequest(Problem("checks", "wanted a list of checks, got null"))
        most = self._office.services.limits.max_depth
        if depth(document) > most:
            raise InvalidRequest(
                Problem("checks", f"nested more than {most} deep, which is the limit (ASSAY_MAX_DEPTH)")
            )
        return checks_from(document)
