-- +goose Up
-- Subscriptions, payments and the ledger. Money is whole cents; times are those of the account's clock,
-- except visit_at, which is the real one.

CREATE TABLE billing_accounts (
	account_id    TEXT PRIMARY KEY REFERENCES accounts (id), -- so that nobody has two subscriptions
	plan          TEXT NOT NULL, -- none: there is no subscription
	price_cents   BIGINT NOT NULL,
	next_plan     TEXT NOT NULL,
	began         BIGINT NOT NULL,
	period_start  BIGINT NOT NULL,
	period_end    BIGINT NOT NULL,
	cancel_at_end INTEGER NOT NULL,
	failed        INTEGER NOT NULL,
	failing_since BIGINT NOT NULL,
	due           BIGINT NOT NULL,
	processor     TEXT NOT NULL,
	customer      TEXT NOT NULL,
	method_brand  TEXT NOT NULL,
	method_last_four TEXT NOT NULL,
	method_expires TEXT NOT NULL,
	ahead_ms      BIGINT NOT NULL,
	visit_at      BIGINT NOT NULL -- 0: never
);

CREATE INDEX billing_accounts_by_visit ON billing_accounts (visit_at) WHERE visit_at > 0;

CREATE TABLE billing_payments (
	id             TEXT PRIMARY KEY,
	account_id     TEXT NOT NULL REFERENCES accounts (id),
	kind           TEXT NOT NULL,
	status         TEXT NOT NULL,
	processor      TEXT NOT NULL,
	present        INTEGER NOT NULL,
	plan           TEXT NOT NULL,
	price_cents    BIGINT NOT NULL,
	amount_cents   BIGINT NOT NULL,
	period_start   BIGINT NOT NULL,
	period_end     BIGINT NOT NULL,
	ref            TEXT NOT NULL,
	url            TEXT NOT NULL,
	reason         TEXT NOT NULL,
	confirm        INTEGER NOT NULL,
	created_at     BIGINT NOT NULL,
	paid_at        BIGINT NOT NULL,
	invoice        BIGINT NOT NULL, -- 0: not paid
	refunded_cents BIGINT NOT NULL,
	refund_to_cents BIGINT NOT NULL,
	visit_at       BIGINT NOT NULL -- 0: never
);

-- A customer never has two payments under way.
CREATE UNIQUE INDEX billing_payments_one_open ON billing_payments (account_id) WHERE status = 'pending';
CREATE INDEX billing_payments_by_account ON billing_payments (account_id, invoice);
CREATE INDEX billing_payments_by_visit ON billing_payments (visit_at) WHERE visit_at > 0;

CREATE TABLE billing_ledger (
	seq          BIGINT PRIMARY KEY,
	at           BIGINT NOT NULL,
	account_id   TEXT NOT NULL REFERENCES accounts (id),
	actor        TEXT NOT NULL,
	what         TEXT NOT NULL,
	plan         TEXT NOT NULL,
	amount_cents BIGINT NOT NULL,
	payment_id   TEXT NOT NULL,
	detail       TEXT NOT NULL
);

CREATE INDEX billing_ledger_by_account ON billing_ledger (account_id, seq);

-- Events of the processor that have been dealt with.
CREATE TABLE billing_events (
	id   TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	at   BIGINT NOT NULL
);

-- What the test processor keeps, as a real one would keep it elsewhere.
CREATE TABLE testpay_objects (
	id   TEXT PRIMARY KEY,
	body BYTEA NOT NULL
);

INSERT INTO counters (name, value) VALUES ('billing_ledger', 0), ('billing_invoices', 0);
