"""xml (an extension to FEP): passes if a text is XML, or contains some, that has all required elements."""

from typing import Annotated

from msgspec import Meta, field

from assay.checks.checker import Answer, Checker, Text, closed_object
from assay.checks.markup.documents import NotXML, read_document
from assay.checks.markup.elements import read_elements
from assay.checks.markup.tree import Element, has_path
from assay.checks.standard.measure import INLINE_CHARACTERS
from assay.checks.worker_tasks import WorkerTask, offload
from assay.ports import Services


class Xml(Checker):
    type = "xml"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "missing": {"type": "array", "description": "required paths that are not there"},
            "problem": {"type": "string", "description": "why the text is no XML, or has none"},
        },
        optional=("missing", "problem"),
    )

    text: Text
    required: Annotated[list[str], Meta(max_length=1_000)] = field(default_factory=list[str])
    contained: bool = False
    negate: bool = False

    def run(self, services: Services) -> Answer | WorkerTask:
        return offload(self) if len(self.text) > INLINE_CHARACTERS else self.answer(services)

    def answer(self, services: Services) -> Answer:
        try:
            documents = read_elements(self.text) if self.contained else [read_document(self.text)]
        except NotXML as why:
            return {"passed": self.negate, "problem": str(why)}
        if not documents:
            return {"passed": self.negate, "problem": "there is no element in the text"}
        missing = min((self._missing_in(one) for one in documents), key=len)
        answer: Answer = {"passed": bool(missing) == self.negate}
        return {**answer, "missing": missing} if missing else answer

    def _missing_in(self, document: Element) -> list[str]:
        return [path for path in self.required if not has_path(document, path)]
