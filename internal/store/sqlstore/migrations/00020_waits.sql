-- +goose Up
-- What several nodes must know of each other for a short time: calls that run under an Idempotency-Key, and
-- attempts to sign in. Times in both tables are those of the database's clock, so that nodes whose clocks
-- differ agree. With SQLite there is one process, which keeps both in memory, and the tables stay empty.

-- A call that runs under an Idempotency-Key. Its node renews the row; a row whose time is over is free.
CREATE TABLE idempotent_claims (
	id       BYTEA PRIMARY KEY, -- a hash of account, path and key, as in idempotent_replies
	body     BYTEA NOT NULL,    -- a hash of key and body, so that a request with another body is refused
	holder   TEXT NOT NULL,     -- one life of a node
	serial   BIGINT NOT NULL,   -- the number of the claim in that life
	until_at BIGINT NOT NULL
);

-- How many attempts a key has used in the span that ends at ends_at. The key is a hash under the data key:
-- neither an address nor a place can be read from it or guessed.
CREATE TABLE signin_tries (
	id      TEXT PRIMARY KEY,
	used    BIGINT NOT NULL,
	most    BIGINT NOT NULL,
	ends_at BIGINT NOT NULL
);

CREATE INDEX signin_tries_by_end ON signin_tries (ends_at);
