-- +goose Up
-- What support has credited to an account and is not used yet, and how much of it a payment uses.

ALTER TABLE billing_accounts ADD COLUMN credit_cents BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_payments ADD COLUMN credit_cents BIGINT NOT NULL DEFAULT 0;
