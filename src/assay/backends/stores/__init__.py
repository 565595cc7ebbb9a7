"""Where runs are kept: `memory`, and `sql` for SQLite and PostgreSQL. `open.open_store` picks one from an address."""
