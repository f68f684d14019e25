-- +goose Up
-- Of prompt, the tokens that the upstream wrote to its cache, by how long it keeps them: five minutes (and OpenAI's half hour),
-- or an hour.

ALTER TABLE settlements ADD COLUMN cache_write_5m BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN cache_write_1h BIGINT NOT NULL DEFAULT 0;
