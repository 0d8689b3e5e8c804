"""Deliveries of news: one row for each destination, where there was the webhook alone."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MOVED = "delivered_at, digest, tries, next_at"


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "deliveries",
        sa.Column("notice_id", _ID, nullable=False),
        sa.Column("destination", sa.String(length=32), nullable=False),
        sa.Column("delivered_at", sa.Double(), nullable=True),
        sa.Column("digest", _ID, nullable=True),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["notice_id"], ["notices.id"], name=op.f("fk_deliveries_notice_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("notice_id", "destination", name=op.f("pk_deliveries")),
    )
    op.execute(
        f"INSERT INTO deliveries (notice_id, destination, {_MOVED}) "  # noqa: S608
        f"SELECT id, 'webhook', {_MOVED} FROM notices"
    )
    op.drop_index(op.f("ix_notices_next_at"), "notices")
    for name in _MOVED.split(", "):
        op.drop_column("notices", name)
    op.add_column("notices", sa.Column("reason_before", sa.Text(), server_default="", nullable=False))
    op.add_column("notices", sa.Column("is_addressed", sa.Boolean(), server_default="0", nullable=False))
    op.execute(sa.text("UPDATE notices SET is_addressed = :yes").bindparams(yes=True))
    op.create_index(op.f("ix_notices_is_addressed"), "notices", ["is_addressed"])
    op.create_index("ix_deliveries_destination_next_at", "deliveries", ["destination", "next_at"])


def downgrade() -> None:
    """Undo it: what waits for other destinations than the webhook is forgotten."""
    op.drop_index(op.f("ix_notices_is_addressed"), "notices")
    op.drop_column("notices", "is_addressed")
    op.drop_column("notices", "reason_before")
    op.add_column("notices", sa.Column("delivered_at", sa.Double(), nullable=True))
    op.add_column("notices", sa.Column("digest", _ID, nullable=True))
    op.add_column("notices", sa.Column("tries", sa.Integer(), server_default="0", nullable=False))
    op.add_column("notices", sa.Column("next_at", sa.Double(), nullable=True))
    op.create_index(op.f("ix_notices_next_at"), "notices", ["next_at"])
    op.execute(
        f"UPDATE notices SET ({_MOVED}) = (SELECT {_MOVED} FROM deliveries "  # noqa: S608
        "WHERE notice_id = notices.id AND destination = 'webhook') "
        "WHERE id IN (SELECT notice_id FROM deliveries WHERE destination = 'webhook')"
    )
    op.drop_table("deliveries")
