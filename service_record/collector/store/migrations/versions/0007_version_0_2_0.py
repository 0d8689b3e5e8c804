"""The tables of version 0.2.0, the first that was released: no database is older."""

revision = "0007"
down_revision = None
