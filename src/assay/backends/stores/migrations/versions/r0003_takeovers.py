"""When a lease was granted, and how often a run was taken over from a holder that was lost."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("runs", sa.Column("granted", sa.BigInteger))
    op.add_column("runs", sa.Column("takeovers", sa.Integer, nullable=False, server_default="0"))
    op.execute(
        "UPDATE runs SET granted = leased - 30000000 WHERE leased IS NOT NULL"
    )  # 30 s, the longest there was
