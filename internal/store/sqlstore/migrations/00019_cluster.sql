-- +goose Up
-- The servers that share this database: who lives, by which list they divide limits, and which of them does
-- what only one should do. Times are those of the database's clock, so the clocks of servers do not matter.

CREATE TABLE cluster_nodes (
	id         TEXT PRIMARY KEY, -- of the data folder, so it stays the same when the server restarts
	life       TEXT NOT NULL,    -- of the process
	version    TEXT NOT NULL,    -- of the program
	mode       TEXT NOT NULL,    -- how it counts limits: alone, approximate or exact
	started_at BIGINT NOT NULL,
	seen_at    BIGINT NOT NULL,
	list       BIGINT NOT NULL   -- the number of the lists that it goes by; see cluster_lists
);

-- One row. Ids are separated by spaces.
CREATE TABLE cluster_lists (
	id       BIGINT PRIMARY KEY,
	list     BIGINT NOT NULL, -- a number that changes with the lists
	base     TEXT NOT NULL,   -- the nodes that divide limits among them
	proposed TEXT NOT NULL,   -- those that will when all go by it; empty if no change is under way
	since    BIGINT NOT NULL  -- when base came into force
);
INSERT INTO cluster_lists (id, list, base, proposed, since) VALUES (1, 0, '', '', 0);

CREATE TABLE cluster_jobs (
	name   TEXT PRIMARY KEY,
	holder TEXT NOT NULL,   -- the life of the node that does it; empty if nobody does
	began  BIGINT NOT NULL, -- when it was claimed last
	until  BIGINT NOT NULL, -- when the lease ends
	due    BIGINT NOT NULL  -- not to be claimed before
);
