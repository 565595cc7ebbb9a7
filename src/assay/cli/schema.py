"""`assay schema`: the JSON Schemas of the protocol's types."""

from assay.cli.console import echo, echo_json
from assay.errors import UsageError
from assay.protocol.schemas import NOUNS, schema_of


def main(*, name: str) -> None:
    """Print the schema of a type, or the names of all types."""
    if not name:
        for noun in NOUNS:
            echo(noun)
    elif name not in NOUNS:
        raise UsageError(f"there is no type {name!r}; expected one of {', '.join(NOUNS)}")
    else:
        echo_json(schema_of(name))
