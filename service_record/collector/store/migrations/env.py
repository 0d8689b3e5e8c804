"""What Alembic runs for each migration: on the connection that it is given, within its transaction."""

from alembic import context

from service_record.collector.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
context.run_migrations()
