"""`assay admin migrate`: create or migrate the tables of the database before servers and workers start."""

import asyncio

import msgspec

from assay import settings
from assay.cli.admin.admin_documents import MigrationDocument
from assay.cli.console.console import echo, echo_json
from assay.errors import UsageError
from assay.host import parts


def main(*, json: bool) -> None:
    """Migrate, and print the version of the schema."""
    chosen = settings.load()
    if chosen.database_url == "memory:":
        raise UsageError("database_url: expected a store that lasts, got memory:, which has no tables")
    document = MigrationDocument(schema=asyncio.run(_migrate(chosen)))
    if json:
        echo_json(msgspec.json.encode(document))
    else:
        echo(f"the database has the schema {document.schema}")


async def _migrate(config: settings.Settings) -> str:
    async with parts.store(config):
        from assay.backends.stores.records.sqlite_schema import HEAD  # deferred import: the store has it

        return HEAD
