-- +goose Up
-- What calls consumed. Token figures of rows are disjoint; the sums hold the wire's totals.

CREATE TABLE settlements (
	id             TEXT NOT NULL,
	at             BIGINT NOT NULL,
	account_id     TEXT NOT NULL,
	key_id         TEXT NOT NULL,
	plan           TEXT NOT NULL,
	tier           TEXT NOT NULL,
	model_asked    TEXT NOT NULL,
	model          TEXT NOT NULL,
	provider       TEXT NOT NULL,
	prompt         BIGINT NOT NULL,
	cached         BIGINT NOT NULL,
	completion     BIGINT NOT NULL,
	reasoning      BIGINT NOT NULL,
	counted        INTEGER NOT NULL,
	request_milli  BIGINT NOT NULL,
	unit_milli     BIGINT NOT NULL,
	cost_micro     BIGINT, -- NULL: the model has no price
	status         INTEGER NOT NULL,
	ending         TEXT NOT NULL,
	latency_ms     BIGINT NOT NULL,
	first_token_ms BIGINT NOT NULL,
	PRIMARY KEY (at, id) -- a settlement's time never changes; in its order rows are added at the end
);

CREATE INDEX settlements_by_account ON settlements (account_id, at);

-- Sums by hour and by day, added up in the transaction that stores their rows.
CREATE TABLE usage_hours (
	account_id     TEXT NOT NULL,
	start          BIGINT NOT NULL,
	key_id         TEXT NOT NULL,
	model          TEXT NOT NULL,
	requests       BIGINT NOT NULL,
	failed         BIGINT NOT NULL,
	prompt         BIGINT NOT NULL,
	cached         BIGINT NOT NULL,
	completion     BIGINT NOT NULL,
	reasoning      BIGINT NOT NULL,
	request_milli  BIGINT NOT NULL,
	unit_milli     BIGINT NOT NULL,
	cost_micro     BIGINT NOT NULL,
	unpriced       BIGINT NOT NULL,
	latency_ms     BIGINT NOT NULL,
	first_token_ms BIGINT NOT NULL,
	first_tokens   BIGINT NOT NULL,
	PRIMARY KEY (account_id, start, key_id, model)
);

CREATE TABLE usage_days (
	account_id     TEXT NOT NULL,
	start          BIGINT NOT NULL,
	key_id         TEXT NOT NULL,
	model          TEXT NOT NULL,
	requests       BIGINT NOT NULL,
	failed         BIGINT NOT NULL,
	prompt         BIGINT NOT NULL,
	cached         BIGINT NOT NULL,
	completion     BIGINT NOT NULL,
	reasoning      BIGINT NOT NULL,
	request_milli  BIGINT NOT NULL,
	unit_milli     BIGINT NOT NULL,
	cost_micro     BIGINT NOT NULL,
	unpriced       BIGINT NOT NULL,
	latency_ms     BIGINT NOT NULL,
	first_token_ms BIGINT NOT NULL,
	first_tokens   BIGINT NOT NULL,
	PRIMARY KEY (account_id, start, key_id, model)
);
