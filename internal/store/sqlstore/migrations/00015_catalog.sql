-- +goose Up
-- What is remembered of the catalog between starts and among processes, and the log of its changes.

CREATE TABLE catalog_models (
	id         TEXT PRIMARY KEY,
	joined_at  BIGINT NOT NULL,
	listing    BYTEA, -- as the log last told it; null: not listed
	fixed      INTEGER NOT NULL,
	seen_at    BIGINT NOT NULL,
	changed_at BIGINT NOT NULL
);

CREATE TABLE catalog_revisions (
	hash    TEXT PRIMARY KEY, -- of the part of a catalog that is configured
	since   BIGINT NOT NULL,
	seen_at BIGINT NOT NULL
);

CREATE TABLE catalog_changes (
	number    BIGINT PRIMARY KEY, -- in the order of commit
	at        BIGINT NOT NULL,
	type      TEXT NOT NULL,
	model     TEXT NOT NULL,
	was       BYTEA,
	is_now    BYTEA
);

CREATE INDEX catalog_changes_by_time ON catalog_changes (at);

INSERT INTO counters (name, value) VALUES ('catalog_changes', 0);
