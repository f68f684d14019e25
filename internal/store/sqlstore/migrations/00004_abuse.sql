-- +goose Up
-- Units by account, month, plan held and model tier. What support has forgiven is kept beside them, so
-- that the count itself stays what was consumed.

CREATE TABLE abuse_counts (
	account_id     TEXT NOT NULL,
	month          BIGINT NOT NULL, -- its first millisecond, UTC
	plan           TEXT NOT NULL,
	tier           TEXT NOT NULL,
	unit_milli     BIGINT NOT NULL,
	forgiven_milli BIGINT NOT NULL,
	PRIMARY KEY (account_id, month, plan, tier)
);

CREATE INDEX abuse_counts_by_month ON abuse_counts (month);

CREATE TABLE abuse_events (
	seq        BIGINT PRIMARY KEY,
	at         BIGINT NOT NULL,
	account_id TEXT NOT NULL,
	kind       TEXT NOT NULL, -- warning, inquiry, review, deactivated, restored
	plan       TEXT NOT NULL,
	tier       TEXT NOT NULL,
	score      INTEGER NOT NULL,
	why        TEXT NOT NULL,
	actor      TEXT NOT NULL
);

CREATE INDEX abuse_events_by_account ON abuse_events (account_id, seq);

INSERT INTO counters (name, value) VALUES ('abuse_events', 0);
