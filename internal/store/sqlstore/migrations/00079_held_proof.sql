-- +goose Up
-- When the owner of an account last proved in a session that it is theirs, in milliseconds since 1970; 0: never.

ALTER TABLE sessions ADD COLUMN owner_at BIGINT NOT NULL DEFAULT 0;
