"""Alembic's entry: runs on the connection that plume_memory.store.schema hands over, inside its transaction.

No logging is set up here: a library must not touch its application's loggers.
"""

from alembic import context

from plume_memory.errors import SchemaError
from plume_memory.store.tables import Base

connection = context.config.attributes.get("connection")
if connection is None:
    raise SchemaError("Migrations run through `plume db upgrade --db …`, not through the alembic command.")

context.configure(connection=connection, target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
