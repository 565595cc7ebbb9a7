"""
json_schema (an extension to FEP): passes if a value is valid against a JSON Schema. External references are not
fetched.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from assay.checks.checker import Answer, Checker, InvalidArgument, closed_object
from assay.checks.schema_validator import Validator, format_path, validator_for
from assay.checks.standard.parse import Parse, parse_value, run_parsed
from assay.checks.worker_tasks import WorkerTask, offload
from assay.errors import ValueFault
from assay.ports import Services

MAX_ERRORS = 20


class JsonSchema(Checker):
    type = "json_schema"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "errors": {
                "type": "array",
                "description": f"what does not fit and where, the first {MAX_ERRORS}",
                "items": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
                },
            },
        },
        optional=("errors",),
    )

    value: Any
    schema: dict[str, Any] | bool
    negate: bool = False
    parse: Parse | UnsetType = UNSET

    def run(self, services: Services) -> Answer | WorkerTask:
        if self.parse is not UNSET:
            return run_parsed(lambda: self._parse_text(services), services)
        if self._validator().is_expensive(self.value):
            return offload(self, "schema", "negate")
        return self.answer(services)

    def _parse_text(self, services: Services) -> "JsonSchema":
        return replace(self, value=parse_value(self.value, self.parse, services.limits), parse=UNSET)

    def answer(self, services: Services) -> Answer:
        validator = self._validator()
        errors = [
            {"path": format_path(one.path), "message": one.message}
            for one in validator.errors(self.value, MAX_ERRORS)
        ]
        answer: dict[str, Any] = {"passed": (not errors) != self.negate}
        return answer | {"errors": errors} if errors else answer

    def _validator(self) -> Validator:
        try:
            return validator_for(msgspec.json.encode(self.schema))
        except ValueError as wrong:
            raise ValueFault(f"schema: {wrong}") from None

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if "schema" in literals:
            try:
                validator_for(msgspec.json.encode(literals["schema"]))
            except ValueError as wrong:
                raise InvalidArgument("schema", str(wrong)) from None
