-- +goose Up
-- What later turns need of earlier ones. It is sealed under the id of a tool call, which is not here.

CREATE TABLE continuations (
	id         BYTEA PRIMARY KEY, -- a hash of account and tool-call id
	expires_at BIGINT NOT NULL,
	sealed     BYTEA NOT NULL
);

CREATE INDEX continuations_by_expiry ON continuations (expires_at);
