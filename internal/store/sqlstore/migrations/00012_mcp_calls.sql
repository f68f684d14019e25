-- +goose Up
-- How many remote tools a call used, and how many of them gave no result.

ALTER TABLE settlements ADD COLUMN mcp_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN mcp_failed INTEGER NOT NULL DEFAULT 0;
