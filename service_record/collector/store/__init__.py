"""The collector's storage: tables in SQLite or PostgreSQL, and bundles in a folder or an object store."""
