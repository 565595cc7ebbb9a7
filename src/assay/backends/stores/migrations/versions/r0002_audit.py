"""The audit log, and how far its lanes go."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("tenant", Name, primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("lane", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit_heads",
        sa.Column("tenant", Name, primary_key=True),
        sa.Column("lane", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
