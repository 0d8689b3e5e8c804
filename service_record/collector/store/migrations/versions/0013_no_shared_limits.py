"""Each process limits its clients by itself, so the counts that processes shared are gone."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the change."""
    op.drop_table("allowances")
