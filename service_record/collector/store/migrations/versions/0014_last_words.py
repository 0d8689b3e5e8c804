"""The lines that a host's services printed last, which remain when the host dies."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the change."""
    op.create_table(
        "last_words",
        sa.Column("host_id", _ID, nullable=False),
        sa.Column("service", sa.String(255), nullable=False),
        sa.Column("stage", sa.String(255), nullable=False, server_default=""),
        sa.Column("build", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(
            ["host_id"], ["hosts.id"], name="fk_last_words_host_id_hosts", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("host_id", "service", name="pk_last_words"),
    )
