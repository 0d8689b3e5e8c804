"""A table of mutes, each until a time."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "mutes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("note", sa.String(length=255), server_default="", nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mutes")),
    )


def downgrade() -> None:
    """Undo it."""
    op.drop_table("mutes")
