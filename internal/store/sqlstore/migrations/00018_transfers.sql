-- +goose Up
-- A move of this installation to another database (sluice migrate). Both sides keep a row, so that neither
-- half a copy nor what was left behind is served by mistake.

CREATE TABLE transfers (
	installation TEXT PRIMARY KEY, -- derived from the data key, so it is the same on both sides
	state        TEXT NOT NULL,    -- copying: into this database; copied: all of it is here; moved: away from here
	at           BIGINT NOT NULL,
	restore      TEXT NOT NULL     -- statements that add the foreign keys again, which a copy does without
);
