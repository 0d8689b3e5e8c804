"""Builds that another build overtook before this version said how they ended: failed or abandoned."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_OVERTAKEN = """verdict = 'progressing' AND number <
    (SELECT hosts.build FROM hosts WHERE hosts.id = builds.host_id)"""
_LATEST_STEP = """SELECT max(steps.id) FROM steps
    WHERE steps.host_id = builds.host_id AND steps.build = builds.number"""


def upgrade() -> None:
    """Make the change."""
    op.execute(f"""UPDATE builds SET verdict = 'failed', reason =
        (SELECT steps.name FROM steps WHERE steps.id = ({_LATEST_STEP})) || ' failed.'
        WHERE {_OVERTAKEN} AND ended_at IS NULL AND EXISTS
        (SELECT 1 FROM steps WHERE steps.id = ({_LATEST_STEP}) AND steps.status = 'failed')""")  # noqa: S608
    op.execute(f"""UPDATE builds SET verdict = 'done', reason = 'It was complete.'
        WHERE {_OVERTAKEN} AND ended_at IS NOT NULL""")  # noqa: S608
    op.execute(f"""UPDATE builds SET verdict = 'abandoned', reason = 'Another build began.'
        WHERE {_OVERTAKEN}""")  # noqa: S608


def downgrade() -> None:
    """Undo it, as far as an earlier version knows the word."""
    op.execute("UPDATE builds SET verdict = 'progressing', reason = '' WHERE verdict = 'abandoned'")
