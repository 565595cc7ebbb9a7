"""Plans of checks that come again and again, by the bytes of their text, so that they are compiled once."""

from typing import NamedTuple

import msgspec

from assay.errors import InvalidRequest, Problem
from assay.fep.context import depth, not_json, too_deep
from assay.fep.office import Office
from assay.fep.plan import Checks, Plan
from assay.fep.request import checks_from
from assay.protocol.cache import ByteCache
from assay.workers import pool

CACHED = 64 << 20  # bytes of all plans that are remembered
LONGEST = 64 * 1024  # bytes of checks that are worth remembering
FACTOR = 40  # bytes of a plan for one of its text
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Planned(NamedTuple):
    plan: Plan
    checks: msgspec.Raw | None  # as they are kept with every run that has them


class Plans:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._kept = ByteCache[Planned](CACHED)

    def of(self, text: bytes) -> Planned:
        """The plan of these checks; of none, that of cases which bring their own."""
        owner = pool.owner.get()
        found = self._kept.get(text, owner)
        if found is not None:
            return found
        checks = self._checks(text)
        made = Planned(self._office.plan(checks), None if checks is None else msgspec.Raw(_encode(checks)))
        if made.plan.shared is not None and len(text) <= LONGEST:
            self._kept.put(text, made, FACTOR * len(text), owner)
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
        limits = self._office.services.limits
        if depth(document) > limits.max_depth:
            raise InvalidRequest(Problem("checks", too_deep(limits)))
        return checks_from(document)
