"""Clusters with what their controllers report, and when the agent of a host called last."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _text(name: str, length: int | None = None) -> sa.Column[str]:
    kind = sa.Text() if length is None else sa.String(length=length)
    return sa.Column(name, kind, nullable=False, server_default="")


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="0")


def _cluster_id() -> sa.Column[str]:
    return sa.Column("cluster_id", sa.String(length=36), nullable=False)


def _of_cluster(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_cluster_id")
    return sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=name, ondelete="CASCADE")


def upgrade() -> None:
    """Make the change."""
    with op.batch_alter_table("installations") as table:
        table.add_column(_text("status_info"))
        table.add_column(sa.Column("checked_in_at", sa.Double(), nullable=True))
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=36), nullable=False),
        _text("name", 255),
        sa.Column("control_planes", sa.Integer(), nullable=True),
        sa.Column("workers", sa.Integer(), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False, server_default="pending-for-input"),
        _text("reason"),
        sa.Column("since", sa.Double(), nullable=True),
        sa.Column("is_told", sa.Boolean(), nullable=False, server_default="0"),
        sa.Column("updated_at", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False, server_default="0"),
        _count("hosts"),
        _count("needed_control_planes"),
        _count("installed_control_planes"),
        _count("defined_workers"),
        _count("installed_workers"),
        _count("joined"),
        sa.Column("csrs_approved", sa.Integer(), nullable=True),
        _text("finalizing_stage", 64),
        _text("completion", 16),
        _text("completion_info"),
        _text("logs_state", 16),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
    )
    op.create_table(
        "cluster_operators",
        _cluster_id(),
        sa.Column("name", sa.String(length=255), nullable=False),
        _text("status", 16),
        _text("version", 255),
        _text("info"),
        sa.Column("updated_at", sa.Double(), nullable=False),
        _of_cluster("cluster_operators"),
        sa.PrimaryKeyConstraint("cluster_id", "name", name=op.f("pk_cluster_operators")),
    )
    op.create_table(
        "cluster_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        _cluster_id(),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        _text("name", 255),
        sa.Column("message", sa.Text(), nullable=False),
        _of_cluster("cluster_events"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_events")),
    )
    op.create_index("ix_cluster_events_cluster_id", "cluster_events", ["cluster_id"])
    op.create_table(
        "cluster_logs",
        _cluster_id(),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        _of_cluster("cluster_logs"),
        sa.PrimaryKeyConstraint("cluster_id", "kind", name=op.f("pk_cluster_logs")),
        sa.UniqueConstraint("key", name=op.f("uq_cluster_logs_key")),
    )
    op.execute("INSERT INTO clusters (id) SELECT DISTINCT cluster_id FROM installations")


def downgrade() -> None:
    """Undo it."""
    for name in ("cluster_logs", "cluster_events", "cluster_operators", "clusters"):
        op.drop_table(name)
    with op.batch_alter_table("installations") as table:
        table.drop_column("checked_in_at")
        table.drop_column("status_info")
