"""Numbers of steps that are given once: the highest of those that are left would be given again."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.execute("INSERT INTO counters (name, latest) SELECT 'steps', coalesce(max(id), 0) FROM steps")


def downgrade() -> None:
    """Undo it."""
    op.drop_table("counters")
