-- +goose Up
-- What each node did in the last three hours, by minute, so that every node can show all of them. With SQLite there is
-- one process, which keeps it in memory.

CREATE TABLE overview_minutes (
	at      BIGINT NOT NULL,
	node    TEXT NOT NULL,
	content TEXT NOT NULL, -- as JSON; see overview.Minute
	PRIMARY KEY (at, node)
);

CREATE INDEX billing_payments_by_day ON billing_payments (paid_at) WHERE paid_at > 0;
