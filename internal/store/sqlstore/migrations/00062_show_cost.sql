-- +goose Up
-- Whether every reply to the account says what it costs.

ALTER TABLE accounts ADD COLUMN show_cost INTEGER NOT NULL DEFAULT 0;
