-- +goose Up
-- Which model the router chose for a conversation, so that every node continues with it. Times are those of
-- the database's clock. With SQLite there is one process, which keeps them in memory.

CREATE TABLE conversation_models (
	id       BYTEA PRIMARY KEY, -- a hash of the account and the beginning of the conversation, under the data key
	model    TEXT NOT NULL,
	until_at BIGINT NOT NULL,
	moved_at BIGINT NOT NULL    -- when it last changed to another model; 0: never
);

CREATE INDEX conversation_models_by_end ON conversation_models (until_at);
-- Few conversations change their model. Nodes ask for these every second.
CREATE INDEX conversation_models_moved ON conversation_models (moved_at) WHERE moved_at > 0;
