-- +goose Up
-- What staff tells people about outages and planned work. The counter rises with each change; nodes compare it to know
-- whether to read.

CREATE TABLE incidents (
	id       TEXT PRIMARY KEY,
	from_at  BIGINT NOT NULL,
	until_at BIGINT NOT NULL, -- when it ended or is to end; 0: that is not known
	content  TEXT NOT NULL    -- the incident as JSON; see incident.Incident
);

CREATE INDEX incidents_by_time ON incidents (from_at, id);
CREATE INDEX incidents_by_end ON incidents (until_at);

INSERT INTO counters (name, value) VALUES ('incidents', 0);

-- How far the deliveries of an event for everybody have come: the id of the last endpoint that has one.
ALTER TABLE alert_events ADD COLUMN place TEXT NOT NULL DEFAULT '';
