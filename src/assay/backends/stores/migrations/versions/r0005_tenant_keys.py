"""The data keys of tenants. Each is encrypted with a key of the host; one of a tenant is not retired."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
CURRENT = sa.text("retired IS NULL")


def upgrade() -> None:
    op.create_table(
        "tenant_keys",
        sa.Column("id", Name, primary_key=True),
        sa.Column("tenant", Name, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("retired", sa.BigInteger),
        sa.Column("destroyed", sa.BigInteger),
        sa.Column("key_id", Name, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index(
        "tenant_keys_current",
        "tenant_keys",
        ["tenant"],
        unique=True,
        sqlite_where=CURRENT,
        postgresql_where=CURRENT,
    )
