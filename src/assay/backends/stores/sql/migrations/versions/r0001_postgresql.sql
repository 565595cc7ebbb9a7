-- The schema of assay 0.1.0. It is not edited.
CREATE TABLE runs (id TEXT COLLATE "C" NOT NULL, tenant TEXT COLLATE "C" NOT NULL, kind TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, head BYTEA NOT NULL, created BIGINT NOT NULL,
    started BIGINT, ended BIGINT, events BIGINT NOT NULL, holder TEXT COLLATE "C", leased BIGINT, granted BIGINT,
    takeovers INTEGER DEFAULT '0' NOT NULL, score DOUBLE PRECISION, cost DOUBLE PRECISION, passed INTEGER, PRIMARY
    KEY (id) );
CREATE INDEX runs_by_age ON runs (created, id);
CREATE INDEX runs_by_cost ON runs (tenant, kind, status, cost, created, id, passed);
CREATE INDEX runs_by_duration ON runs (tenant, kind, status, (ended - started), created, id, passed);
CREATE INDEX runs_by_group ON runs (tenant, kind, name, created, id);
CREATE INDEX runs_by_name ON runs (tenant, name, created, id);
CREATE INDEX runs_by_score ON runs (tenant, kind, status, score, created, id, passed);
CREATE INDEX runs_by_status ON runs (tenant, kind, status, created, id, passed);
CREATE INDEX runs_by_tenant ON runs (tenant, created, id);
CREATE INDEX runs_open ON runs (created, id) WHERE status IN ('pending', 'running', 'cancelling', 'paused',
    'waiting-approval', 'waiting-input', 'waiting-external');
CREATE TABLE documents (tenant TEXT COLLATE "C" NOT NULL, kind TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT
    NULL, version BIGINT NOT NULL, updated BIGINT NOT NULL, coding INTEGER NOT NULL, key_id TEXT COLLATE "C" NOT
    NULL, data BYTEA NOT NULL, PRIMARY KEY (tenant, kind, key) );
CREATE INDEX documents_by_age ON documents (kind, updated);
CREATE TABLE tenant_keys (id TEXT COLLATE "C" NOT NULL, tenant TEXT COLLATE "C" NOT NULL, created BIGINT NOT NULL,
    retired BIGINT, destroyed BIGINT, key_id TEXT COLLATE "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (id) );
CREATE UNIQUE INDEX tenant_keys_current ON tenant_keys (tenant) WHERE retired IS NULL;
CREATE TABLE audit (tenant TEXT COLLATE "C" NOT NULL, at BIGINT NOT NULL, lane BIGINT NOT NULL, number BIGINT NOT
    NULL, data BYTEA NOT NULL, digest BYTEA NOT NULL, PRIMARY KEY (tenant, at, lane, number) );
CREATE TABLE audit_heads (tenant TEXT COLLATE "C" NOT NULL, lane BIGINT NOT NULL, lines BIGINT NOT NULL, digest
    BYTEA NOT NULL, root BYTEA NOT NULL, PRIMARY KEY (tenant, lane) );
CREATE TABLE events (run TEXT COLLATE "C" NOT NULL, sequence BIGINT NOT NULL, type TEXT COLLATE "C" NOT NULL, at
    BIGINT NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (run, sequence), FOREIGN KEY(run) REFERENCES runs (id) );
CREATE TABLE evidence (run TEXT COLLATE "C" NOT NULL, kind TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL,
    first BIGINT NOT NULL, last BIGINT NOT NULL, size BIGINT NOT NULL, coding INTEGER NOT NULL, key_id TEXT COLLATE
    "C" NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (run, kind, key, first), FOREIGN KEY(run) REFERENCES runs (id) );
CREATE TABLE case_blocks (run TEXT COLLATE "C" NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, passed BIGINT
    NOT NULL, failed BIGINT NOT NULL, ungraded BIGINT NOT NULL, error BIGINT NOT NULL, skipped BIGINT NOT NULL,
    spent DOUBLE PRECISION NOT NULL, unknown BIGINT NOT NULL, sequence BIGINT NOT NULL, data BYTEA NOT NULL, PRIMARY
    KEY (run, first), FOREIGN KEY(run) REFERENCES runs (id) );
