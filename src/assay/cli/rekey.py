"""`assay rekey`: everything sealed with the newest key, so that the older ones can go."""

from typing import Annotated

import typer

HELP = """Seal all that is kept with the newest key of ASSAY_EVIDENCE_KEY, which is the first; then the others can go.

    ASSAY_EVIDENCE_KEY="new:$NEW,old:$OLD" assay rekey

A server may run meanwhile, if it has the same keys. Cut off, it goes on where it was when it is called again.
"""


def rekey(
    clear: Annotated[
        bool, typer.Option("--clear", help="Unseal everything instead; then no key is needed any more.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    from assay.cli.rekeying import run  # a lazy door: the help needs none of it

    run(clear=clear, json=json)
