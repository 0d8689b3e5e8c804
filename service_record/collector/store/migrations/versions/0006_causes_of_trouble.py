"""The mark of what a host's trouble comes from, by which the fleet is grouped."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the change. Hosts in trouble are judged again: that gives them their marks."""
    op.add_column("hosts", sa.Column("cause", sa.String(length=16), server_default="", nullable=False))
    op.create_index(op.f("ix_hosts_cause"), "hosts", ["cause"])
    op.execute("UPDATE hosts SET due_at = 0 WHERE verdict IN ('failed', 'looping', 'stuck', 'silent')")


def downgrade() -> None:
    """Undo it."""
    op.drop_index(op.f("ix_hosts_cause"), "hosts")
    with op.batch_alter_table("hosts") as table:
        table.drop_column("cause")
