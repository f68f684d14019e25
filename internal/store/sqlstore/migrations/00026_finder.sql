-- +goose Up
-- What support finds of a request: its way, and the calls that were refused.

-- The id that the caller was told, if a proxy gave it, and the way of the call in the form of usage.AppendWay.
ALTER TABLE settlements ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE settlements ADD COLUMN way BYTEA;

CREATE INDEX settlements_by_id ON settlements (id);
CREATE INDEX settlements_by_request_id ON settlements (request_id) WHERE request_id <> '';
CREATE INDEX api_keys_by_last_four ON api_keys (last_four, id);

-- The last calls of each account that were refused with 400, 402, 403 or 429.
CREATE TABLE refused_calls (
	account_id TEXT NOT NULL,
	at         BIGINT NOT NULL,
	id         TEXT NOT NULL,
	request_id TEXT NOT NULL, -- as in settlements
	key_id     TEXT NOT NULL,
	status     INTEGER NOT NULL,
	kind       TEXT NOT NULL, -- the type of the error
	param      TEXT NOT NULL, -- the field that it names
	path       TEXT NOT NULL,
	model      TEXT NOT NULL, -- empty: none, or none that exists
	address    TEXT NOT NULL,
	PRIMARY KEY (account_id, at, id)
);

CREATE INDEX refused_calls_by_id ON refused_calls (id);
CREATE INDEX refused_calls_by_request_id ON refused_calls (request_id) WHERE request_id <> '';
CREATE INDEX refused_calls_by_time ON refused_calls (at);

-- All of them, counted by minute.
CREATE TABLE refused_minutes (
	account_id TEXT NOT NULL,
	start      BIGINT NOT NULL,
	status     INTEGER NOT NULL,
	calls      BIGINT NOT NULL,
	PRIMARY KEY (account_id, start, status)
);

CREATE INDEX refused_minutes_by_time ON refused_minutes (start);
