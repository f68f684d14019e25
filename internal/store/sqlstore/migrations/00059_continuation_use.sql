-- +goose Up
-- States that every later turn of a conversation needs live for weeks, others for an hour. So which are deleted first
-- where there are too many is decided by when they were used last. What was stored before goes first.

ALTER TABLE continuations ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX continuations_by_use ON continuations (account_id, used_at, expires_at);
CREATE INDEX continuations_by_use_of_all ON continuations (used_at, expires_at);
