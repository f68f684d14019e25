-- +goose Up
-- What a video takes from budgets, as its settlement writes it. What it has reserved is in budget_grants, under "job/" and its id.
ALTER TABLE video_jobs ADD COLUMN budgets TEXT NOT NULL DEFAULT '';
-- The most that it may cost, in nano-dollars; NULL: nothing bounds it.
ALTER TABLE video_jobs ADD COLUMN most BIGINT;
