"""Times of events by the assisted-service's clock, which order them and recognize repeated ones."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the change."""
    for table in ("installations", "clusters", "cluster_operators"):
        op.add_column(table, sa.Column("event_at", sa.Double(), nullable=True))
    for table in ("events", "cluster_events"):
        op.add_column(table, sa.Column("event_time", sa.Double(), nullable=True))
