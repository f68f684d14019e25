-- +goose Up
-- Receipts of calls, as they are signed, and the ends of their chains, which stay when receipts are deleted. The private halves
-- of keys are sealed; empty: the key signs no more.

CREATE TABLE receipts (
	id         TEXT   NOT NULL PRIMARY KEY,
	account_id TEXT   NOT NULL,
	at         BIGINT NOT NULL,
	month      TEXT   NOT NULL,
	chain      TEXT   NOT NULL,
	n          BIGINT NOT NULL,
	signed     TEXT   NOT NULL
);
CREATE INDEX receipts_by_account ON receipts (account_id, at, n, id);
CREATE INDEX receipts_by_time ON receipts (at, id);

CREATE TABLE receipt_chains (
	account_id TEXT   NOT NULL,
	month      TEXT   NOT NULL,
	chain      TEXT   NOT NULL,
	n          BIGINT NOT NULL,
	head       TEXT   NOT NULL,
	PRIMARY KEY (account_id, month, chain)
);

CREATE TABLE receipt_keys (
	id         TEXT   NOT NULL PRIMARY KEY,
	public     BYTEA  NOT NULL,
	private    TEXT   NOT NULL,
	created_at BIGINT NOT NULL,
	signs_at   BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('receipt_keys', 0);

ALTER TABLE accounts ADD COLUMN receipts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE video_jobs ADD COLUMN request_sha256 TEXT NOT NULL DEFAULT '';
