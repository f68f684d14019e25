-- +goose Up
-- The country of a customer as two letters, and what an invoice says, as JSON: written when the payment is made, because it
-- must not change when the customer moves. Empty: it was paid before this was written down.

ALTER TABLE billing_details ADD COLUMN country TEXT NOT NULL DEFAULT '';
ALTER TABLE billing_payments ADD COLUMN issued TEXT NOT NULL DEFAULT '';
