"""
The table of cases, and the facts of runs. `unfilled` names the older runs: their rows are made from their results.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FACTS = ["tenant", "kind", "status", "created", "id", "score", "cost", "passed", "started", "ended"]
COUNTS = ("passed", "failed", "ungraded", "error", "skipped")


def upgrade() -> None:
    op.create_table(
        "case_blocks",
        sa.Column("run", Name, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTS),
        sa.Column("spent", sa.Double, nullable=False),
        sa.Column("unknown", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "unfilled",
        sa.Column("run", Name, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("next", sa.BigInteger, nullable=False),
    )
    op.add_column("runs", sa.Column("score", sa.Double))
    op.add_column("runs", sa.Column("cost", sa.Double))
    op.add_column("runs", sa.Column("passed", sa.Integer))
    op.create_index("runs_by_facts", "runs", FACTS)
    op.execute(
        "INSERT INTO unfilled (run, next) SELECT id, 0 FROM runs WHERE kind IN ('evaluation', 'agent-eval')"
    )
