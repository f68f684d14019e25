-- +goose Up
-- The last comparisons with vendors' exports. summary is the report without its findings and proposals.

CREATE TABLE reconciliations (
	id      TEXT NOT NULL PRIMARY KEY,
	at      BIGINT NOT NULL,
	summary TEXT NOT NULL,
	report  TEXT NOT NULL
);
