"""Vendor and model of each host, by which hosts are summed up."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the change."""
    op.add_column("hosts", sa.Column("hardware", sa.String(255), nullable=False, server_default=""))
