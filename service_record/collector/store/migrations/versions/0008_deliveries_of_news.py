"""Deliveries of news: one row for each destination, where there was the webhook alone."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

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
