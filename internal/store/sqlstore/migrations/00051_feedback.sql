-- +goose Up
-- What callers and the ends of calls say about models that the router chose, by account. Amounts are thousandths of a
-- vote or a call, and are halved for each week since the one in the row. The counter rises with each change.

CREATE TABLE router_feedback (
	account_id TEXT NOT NULL,
	model      TEXT NOT NULL,
	task       TEXT NOT NULL,
	week       BIGINT NOT NULL, -- the last one that something was added in
	good       BIGINT NOT NULL,
	bad        BIGINT NOT NULL,
	calls      BIGINT NOT NULL,
	troubled   BIGINT NOT NULL,
	PRIMARY KEY (account_id, model, task)
);

CREATE INDEX router_feedback_week ON router_feedback (week);

-- The votes of the last days, so that each counts once.
CREATE TABLE router_votes (
	account_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	at         BIGINT NOT NULL,
	model      TEXT NOT NULL,
	good       BIGINT NOT NULL,
	PRIMARY KEY (account_id, request_id)
);

CREATE INDEX router_votes_at ON router_votes (at);

INSERT INTO counters (name, value) VALUES ('feedback', 0);
