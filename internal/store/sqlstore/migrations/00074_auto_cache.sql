-- +goose Up
-- Whether marks are set for the vendors' caches: 0 as each model is configured, 1 never, 2 always.

ALTER TABLE accounts ADD COLUMN auto_cache INTEGER NOT NULL DEFAULT 0;
