"""The identity of each report, by which a repeated report is recognized."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the change."""
    op.add_column("steps", sa.Column("identity", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_steps_identity"), "steps", ["identity"])
