-- +goose Up
-- The list of servers that was in force before base. Servers that count limits in Redis divide by both for a minute after
-- a change. Empty: there was none, or a server of an earlier version made the change.

ALTER TABLE cluster_lists ADD COLUMN former TEXT NOT NULL DEFAULT '';
