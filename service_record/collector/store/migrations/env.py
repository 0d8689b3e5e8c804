"""Entry point of Alembic for each migration, on the given connection and within its transaction."""

from alembic import context

from service_record.collector.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
context.run_migrations()
