-- +goose Up
-- What customers want on their invoices, and where copies of them go.

CREATE TABLE billing_details (
	account_id TEXT PRIMARY KEY REFERENCES accounts (id),
	name       TEXT NOT NULL,
	address    TEXT NOT NULL, -- with line breaks
	tax_id     TEXT NOT NULL,
	email      TEXT NOT NULL -- empty: only the account's own address
);
