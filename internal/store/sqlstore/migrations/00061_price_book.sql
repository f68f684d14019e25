-- +goose Up
-- Every entry of a price book that was ever in force here, by its version, so that a settlement can be explained at any time; and
-- what operators have imported, the later entry with precedence. Neither is ever deleted. The entries are JSON as people write it,
-- see package price. The counters have the last numbers.

CREATE TABLE price_versions (
	version TEXT NOT NULL PRIMARY KEY,
	number  BIGINT NOT NULL, -- rising
	origin  TEXT NOT NULL,   -- list, imported, models[].pricing or prices
	seen_at BIGINT NOT NULL, -- when a node first had it in its book
	entry   TEXT NOT NULL
);
CREATE INDEX price_versions_by_number ON price_versions (number);

CREATE TABLE price_imports (
	number BIGINT NOT NULL PRIMARY KEY,
	at     BIGINT NOT NULL,
	actor  TEXT NOT NULL,
	format TEXT NOT NULL, -- of the file: sluice, litellm or models.dev
	entry  TEXT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('price_versions', 0), ('price_imports', 0);
