"""The baseline: the tables of assay 0.1.0 (ADR-0130). It is not edited: a change is a migration after it."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    connection = op.get_bind()
    text = Path(__file__).with_name(f"r0001_{connection.dialect.name}.sql").read_text("utf-8")
    for statement in text.partition("\n")[2].split(";\n"):
        if statement:
            connection.exec_driver_sql(" ".join(statement.split()))  # on one line, as the tables of the code
