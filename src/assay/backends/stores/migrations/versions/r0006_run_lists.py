"""
Indexes for lists of runs: each filter and each order has one, so that a page does not depend on the number of runs.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

PLACE = ["tenant", "kind", "status"]
AGE = ["created", "id"]
NUMBERS = {"score": "score", "cost": "cost", "duration": sa.text("(ended - started)")}
OPEN = sa.text(
    "status IN ('pending', 'running', 'cancelling', 'paused', 'waiting-approval', 'waiting-input', 'waiting-external')"
)


def upgrade() -> None:
    op.drop_index("runs_by_facts", "runs")
    op.drop_index("runs_at_work", "runs")
    op.create_index("runs_by_group", "runs", ["tenant", "kind", "name", *AGE])
    op.create_index("runs_by_status", "runs", [*PLACE, *AGE, "passed"])
    for name, number in NUMBERS.items():
        op.create_index(f"runs_by_{name}", "runs", [*PLACE, number, *AGE, "passed"])
    op.create_index("runs_open", "runs", AGE, sqlite_where=OPEN, postgresql_where=OPEN)
