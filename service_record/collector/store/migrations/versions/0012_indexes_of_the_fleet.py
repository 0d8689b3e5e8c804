"""Indexes that answer the fleet's pages without reading the long rows of hosts."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the change."""
    op.drop_index("ix_hosts_verdict_name", table_name="hosts")
    op.drop_index("ix_hosts_cause", table_name="hosts")
    op.create_index("ix_hosts_fleet", "hosts", ["verdict", "name", "cause", "group", "ended_at"])
    op.create_index(
        "ix_hosts_causes", "hosts", ["cause", "group", "verdict", "verdict_since", "ended_at", "name", "id"]
    )
