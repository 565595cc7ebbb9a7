"""Rows and statements that need no SQLAlchemy."""
