"""Plans of checks that come again and again, by the bytes of their text, so that they are compiled once."""

from collections import OrderedDict
from typing import Any, NamedTuple

import msgspec

from assay.checks.run import Options
from assay.errors import InvalidRequest, Problem
from assay.fep.context import not_json
from assay.fep.office import Office
from assay.fep.plan import Plan
from assay.fep.request import plan_of
from assay.protocol.values import depth

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

    def of(self, text: bytes, *, arguments: bool = True) -> Planned:
        """The plan of these checks; of none, that of cases which bring their own. `arguments`: results say what checks were given."""
        key = text if arguments else b"-" + text
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        given, office = self._given(text), self._office
        plan = plan_of(given, office.registry, office.services, Options(resolved_arguments=arguments))
        made = Planned(plan, None if plan.checks is None else msgspec.Raw(_encode(plan.checks)))
        if plan.shared is not None and len(text) <= LONGEST:
            self._kept[key] = made
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _given(self, text: bytes) -> Any:
        if not text:
            return None
        try:
            document = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            raise InvalidRequest(Problem("checks", not_json(text, wrong))) from None
        most = self._office.services.limits.max_depth
        if depth(document) > most:
            raise InvalidRequest(
                Problem("checks", f"nested more than {most} deep, which is the limit (ASSAY_MAX_DEPTH)")
            )
        return document
