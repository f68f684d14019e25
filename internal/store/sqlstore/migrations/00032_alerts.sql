-- +goose Up
-- Alerts: what operators and customers are told by webhook and mail.

-- Where a customer gets alerts. The operator's endpoints are in the configuration.
CREATE TABLE alert_endpoints (
	id          TEXT PRIMARY KEY,
	account_id  TEXT NOT NULL,
	kind        TEXT NOT NULL,   -- webhook or mail
	address     TEXT NOT NULL,   -- the URL of a webhook
	types       TEXT NOT NULL,   -- separated by commas; empty: all
	secret      BYTEA NOT NULL,  -- sealed
	created_at  BIGINT NOT NULL,
	stopped_at  BIGINT NOT NULL, -- 0: it is not
	stopped_why TEXT NOT NULL
);

CREATE INDEX alert_endpoints_by_account ON alert_endpoints (account_id, created_at);

-- What happened. Events of customers are deleted when their deliveries are made; those of the operator are kept.
CREATE TABLE alert_events (
	id         TEXT PRIMARY KEY,
	at         BIGINT NOT NULL,
	account_id TEXT NOT NULL, -- empty: for the operator
	type       TEXT NOT NULL,
	title      TEXT NOT NULL,
	body       TEXT NOT NULL,
	made       INTEGER NOT NULL -- 1: its deliveries are made
);

CREATE INDEX alert_events_new ON alert_events (at, id) WHERE made = 0;
CREATE INDEX alert_events_by_time ON alert_events (at, id) WHERE made = 1;

-- An event on its way to one endpoint. The id is the webhook-id.
CREATE TABLE alert_deliveries (
	id          TEXT PRIMARY KEY,
	event_id    TEXT NOT NULL,
	endpoint_id TEXT NOT NULL,
	account_id  TEXT NOT NULL, -- empty: for the operator
	type        TEXT NOT NULL,
	title       TEXT NOT NULL,
	body        TEXT NOT NULL,
	created_at  BIGINT NOT NULL,
	state       TEXT NOT NULL, -- waiting, delivered or dead
	attempts    INTEGER NOT NULL,
	due_at      BIGINT NOT NULL,
	finished_at BIGINT NOT NULL, -- 0: it waits
	status      INTEGER NOT NULL,
	problem     TEXT NOT NULL,
	replayed_at BIGINT NOT NULL
);

CREATE INDEX alert_deliveries_due ON alert_deliveries (due_at, id) WHERE state = 'waiting' AND account_id <> '';
CREATE INDEX alert_deliveries_due_operator ON alert_deliveries (due_at, id) WHERE state = 'waiting' AND account_id = '';
CREATE INDEX alert_deliveries_by_account ON alert_deliveries (account_id, created_at, id);
CREATE INDEX alert_deliveries_by_end ON alert_deliveries (finished_at) WHERE state <> 'waiting';

-- What holds on a node, such as an upstream that is down.
CREATE TABLE alert_conditions (
	name       TEXT NOT NULL,
	node       TEXT NOT NULL,
	since_at   BIGINT NOT NULL,
	seen_at    BIGINT NOT NULL,
	began      TEXT NOT NULL, -- the types of its two events
	ended      TEXT NOT NULL,
	title      TEXT NOT NULL,
	end_title  TEXT NOT NULL,
	data       TEXT NOT NULL,
	PRIMARY KEY (name, node)
);

INSERT INTO counters (name, value) VALUES ('alert_conditions', 0);
