-- +goose Up
-- What staff has decided about the running service: drained targets, moved models, maintenance and
-- announcements. The counter rises with each change; nodes compare it to know whether to read.

CREATE TABLE steering_orders (
	id      TEXT PRIMARY KEY,
	kind    TEXT NOT NULL,
	at      BIGINT NOT NULL,
	content TEXT NOT NULL -- the order as JSON; see steering.Order
);

INSERT INTO counters (name, value) VALUES ('steering', 0);
