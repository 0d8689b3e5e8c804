"""Times in which the collector was away."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "absences",
        sa.Column("id", _ID, nullable=False),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_absences")),
    )
    op.create_index(op.f("ix_absences_ended_at"), "absences", ["ended_at"])
