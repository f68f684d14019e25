-- +goose Up
-- How many payments of an account in a row were charged and refunded, and since when and why its billing is
-- stopped because of that; 0 and empty: it is not.

ALTER TABLE billing_accounts ADD COLUMN undelivered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE billing_accounts ADD COLUMN stopped_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_accounts ADD COLUMN stopped_why TEXT NOT NULL DEFAULT '';
