"""The store on SQLAlchemy."""
