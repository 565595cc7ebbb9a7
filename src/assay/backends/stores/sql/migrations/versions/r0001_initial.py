"""The baseline: the tables of this version. Until a release it is edited, and no other follows it (ADR-0130)."""

from alembic import op

from assay.backends.stores.sql.tables import create_all

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_all(op.get_bind())
