"""Work that processes claim, and numbers of steps without a row that all of them wait for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LATEST = """
UPDATE bundles SET is_indexed = {false} WHERE id IN (SELECT max(bundle_id) FROM bundle_services JOIN bundles
ON bundles.id = bundle_id GROUP BY host_id)
"""


def upgrade() -> None:
    """Make the change. The latest bundle of each host is read again: its page is kept from now on."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    with op.batch_alter_table("bundles") as table:
        table.add_column(sa.Column("claimed_until", sa.Double(), nullable=True))
    op.drop_index(op.f("ix_hosts_verdict"), "hosts")
    op.create_index("ix_hosts_verdict_name", "hosts", ["verdict", "name"])
    with op.batch_alter_table("notices") as table:
        table.add_column(
            sa.Column("digest", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True)
        )
    op.create_table(
        "allowances",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_allowances")),
    )
    op.execute("INSERT INTO counters (name, latest) VALUES ('housekeeping', 0)")
    op.create_table(
        "analyses",
        sa.Column("host_id", _ID, nullable=False),
        sa.Column("bundle_id", _ID, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["host_id"], ["hosts.id"], name=op.f("fk_analyses_host_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("host_id", name=op.f("pk_analyses")),
    )
    op.create_index(op.f("ix_analyses_bundle_id"), "analyses", ["bundle_id"])
    op.execute(_LATEST.format(false="0" if is_sqlite else "false"))
    if not is_sqlite:
        latest = (
            op.get_bind().execute(sa.text("SELECT latest FROM counters WHERE name = 'steps'")).scalar_one()
        )
        op.execute(f"CREATE SEQUENCE step_numbers START WITH {int(latest) + 1}")


def downgrade() -> None:
    """Undo it."""
    if op.get_context().dialect.name != "sqlite":
        op.execute("UPDATE counters SET latest = (SELECT max(id) FROM steps) WHERE name = 'steps'")
        op.execute("DROP SEQUENCE step_numbers")
    op.drop_table("analyses")
    op.drop_table("allowances")
    op.drop_index("ix_hosts_verdict_name", "hosts")
    op.create_index(op.f("ix_hosts_verdict"), "hosts", ["verdict"])
    op.execute("DELETE FROM counters WHERE name = 'housekeeping'")
    with op.batch_alter_table("notices") as table:
        table.drop_column("digest")
    with op.batch_alter_table("bundles") as table:
        table.drop_column("claimed_until")
