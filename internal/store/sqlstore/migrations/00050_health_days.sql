-- +goose Up
-- How healthy models and upstreams were, by day, for the pages. One node adds up the minutes of all nodes; the counter
-- is the beginning of the first minute that is not added yet, in Unix seconds. Old days are deleted with each addition.

CREATE TABLE health_days (
	day     BIGINT NOT NULL, -- since 1970
	kind    TEXT NOT NULL,   -- model or upstream
	name    TEXT NOT NULL,
	content TEXT NOT NULL,   -- as JSON; see overview.Span
	PRIMARY KEY (day, kind, name)
);

INSERT INTO counters (name, value) VALUES ('health_days', 0);
