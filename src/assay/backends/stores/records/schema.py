"""Constants of the database, for both forms of the SQLite store. It needs no SQLAlchemy."""

HEAD = "0001"  # the newest of the migrations; known here so that a database in shape opens without loading Alembic

# of one attempt: the last one may begin when a request has waited 2.6 s, and the request has its answer within 3 s
BUSY_SECONDS = 0.3

DATA_KEY = "@"  # begins the id of a data key of a tenant; no key of a host has it
UNIT_SCHEMA = "assay_units"  # of the tables of DBOS, in the database of the store
MARKER_TENANT, MARKER_KIND = "", "seal"  # of the documents that name the keys of an encrypted store

# the condition of the index `runs_open`, as a text without parameters: a partial index serves only queries that contain
# it
OPEN_RUNS = "status IN ('pending', 'running', 'cancelling', 'paused', 'waiting-approval', 'waiting-input', 'waiting-external')"
