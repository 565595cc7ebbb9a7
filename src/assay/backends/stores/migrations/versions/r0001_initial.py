"""Runs, events, evidence, documents."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
AT_WORK = "status IN ('pending', 'running', 'cancelling')"


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", Name, primary_key=True),
        sa.Column("tenant", Name, nullable=False),
        sa.Column("kind", Name, nullable=False),
        sa.Column("status", Name, nullable=False),
        sa.Column("name", Name, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("started", sa.BigInteger),
        sa.Column("ended", sa.BigInteger),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("holder", Name),
        sa.Column("leased", sa.BigInteger),
    )
    op.create_index("runs_by_age", "runs", ["created", "id"])
    op.create_index("runs_by_tenant", "runs", ["tenant", "created", "id"])
    op.create_index("runs_by_name", "runs", ["tenant", "name", "created", "id"])
    op.create_index(
        "runs_at_work", "runs", ["created"], sqlite_where=sa.text(AT_WORK), postgresql_where=sa.text(AT_WORK)
    )
    op.create_table(
        "events",
        sa.Column("run", Name, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("type", Name, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "evidence",
        sa.Column("run", Name, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("kind", Name, primary_key=True),
        sa.Column("key", Name, primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("coding", sa.Integer, nullable=False),
        sa.Column("key_id", Name, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("tenant", Name, primary_key=True),
        sa.Column("kind", Name, primary_key=True),
        sa.Column("key", Name, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.Column("coding", sa.Integer, nullable=False),
        sa.Column("key_id", Name, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("documents_by_age", "documents", ["kind", "updated"])
