"""What is wrong with a `--json` document: its schema, the order of its members, members without a schema, colours."""

import functools
import json

import jsonschema_rs

from assay.cli.admin.document_schemas import DOCUMENTS, document_types
from assay.protocol.schemas import schema_of_types

LINES = ("admin audit show",)  # a document a line
VARIANTS = {
    name: name.split(" --") for name in DOCUMENTS
}  # its verb, and the options that change its document


_parts = {}  # by its id each part of a schema that was asked for, with its validator


def name_of(arguments):
    """The name of the document that a command with these arguments prints, as in `assay schema`. None: of no verb."""
    words = [str(one) for one in arguments]
    found = None
    for name, (verb, *options) in VARIANTS.items():
        length = len(verb.split())
        if " ".join(words[:length]) != verb:
            continue
        wanted = [f"--{option.split()[0]}" for option in options]
        if all(words.count(one) >= wanted.count(one) for one in wanted) and (
            found is None or len(name) > len(found)
        ):
            found = name
    return found


def problems_of(name, text):
    """Every problem of the document that a verb printed."""
    if "\x1b" in text:
        yield "a colour"
    schemas, validators, union = _validators_of(name)
    for line in text.splitlines() if name in LINES else [text]:
        document = json.loads(line)
        fitting = [at for at, one in enumerate(validators) if one.is_valid(document)]
        if not fitting:
            yield from (str(one)[:300] for one in list(union.iter_errors(document))[:2])
            continue
        yield from min(
            (list(_differences(document, schemas[at], schemas[at])) for at in fitting),
            key=len,
        )


@functools.cache
def _validators_of(name):
    """The schemas of the types that the document may have, their validators, and that of all of them."""
    types = document_types(name)
    schemas = [json.loads(schema_of_types([one])) for one in types]
    whole = json.loads(schema_of_types(types))
    return schemas, [jsonschema_rs.validator_for(one) for one in schemas], jsonschema_rs.validator_for(whole)


def _differences(document, schema, root, place="$"):
    """Members that stand in another order than in the schema, or that it does not have."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        fitting = [one for one in schema["anyOf"] if _is_valid(document, one, root)]
        found = [list(_differences(document, one, root, place)) for one in fitting]
        yield from min(found, key=len, default=())
    elif isinstance(document, list) and isinstance(schema.get("items"), dict):
        for at, one in enumerate(document[:3]):
            yield from _differences(one, schema["items"], root, f"{place}[{at}]")
    elif isinstance(document, dict) and "properties" in schema:
        yield from _member_differences(document, schema["properties"], root, place)
    elif isinstance(document, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, one in list(document.items())[:3]:
            yield from _differences(one, schema["additionalProperties"], root, f"{place}.{name}")


def _member_differences(document, members, root, place):
    known = list(members)
    order = [known.index(name) for name in document if name in members]
    if order != sorted(order):
        yield f"{place}: {list(document)} in place of {known}"
    if left := [name for name in document if name not in members]:
        yield f"{place}: {left} are not in the schema"
    for name in document.keys() & members.keys():
        yield from _differences(document[name], members[name], root, f"{place}.{name}")


def _is_valid(document, schema, root):
    if id(schema) not in _parts:
        whole = {**schema, "$defs": root.get("$defs", {})}
        _parts[id(schema)] = schema, jsonschema_rs.validator_for(whole)
    return _parts[id(schema)][1].is_valid(document)
