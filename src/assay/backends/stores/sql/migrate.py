"""Migrates a database to the schema of this version."""

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from assay.backends.stores.records.failpoints import Reach
from assay.backends.stores.records.sqlite_schema import HEAD
from assay.backends.stores.sql.connect import UNHURRIED
from assay.backends.stores.sql.tables import create_all
from assay.errors import UsageError

SCRIPTS = Path(__file__).parent / "migrations"

VERSION_TABLE = """
    CREATE TABLE alembic_version (
        version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
    )
"""  # as Alembic creates it

_LOCK = 0x6173736179  # "assay"


def bring_up(engine: Engine, reach: Reach, *, scripts: Path = SCRIPTS, head: str = HEAD) -> None:
    """Migrate under a lock. Of two processes that start at once, the second finds nothing to do."""
    with engine.connect() as connection, connection.begin():
        if _in_shape(connection, head):
            return
    reach("migrate.before")
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if connection.dialect.name == "postgresql":
            # a large table takes its time, and so does another process at it
            connection.execute(text(UNHURRIED))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if not _in_shape(connection, head):
            if head == HEAD and scripts == SCRIPTS and not _has_version(connection):
                _create(connection)
            else:
                _upgrade(connection, scripts, head)
        reach("migrate.written")
    reach("migrate.after")


def _in_shape(connection: Connection, head: str) -> bool:
    if not _has_version(connection):
        return False
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found is not None and found != head and not inspect(connection).has_table("evidence"):
        raise UsageError(
            f"this database belongs to another program: its schema version is {str(found)[:40]!r}, and it has no tables"
            " of assay. Use a separate database for assay"
        )
    if found is not None and found > head:
        raise UsageError(
            f"the database: expected a schema version up to {head}, got {found}, which a newer assay wrote; run the "
            "newer assay, or use another database"
        )
    return found == head


def _has_version(connection: Connection) -> bool:
    return inspect(connection).has_table("alembic_version")


def _create(connection: Connection) -> None:
    """Create the newest schema in an empty database, without Alembic and its steps."""
    create_all(connection)
    connection.execute(text(VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: Connection, scripts: Path, head: str) -> None:
    from alembic import command  # a new database, and one in shape, do not pay for it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, head)
