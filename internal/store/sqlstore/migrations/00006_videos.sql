-- +goose Up
-- Video jobs. A row is forgotten when it has expired, after its files.

CREATE TABLE video_jobs (
	id          TEXT PRIMARY KEY,
	account_id  TEXT NOT NULL,
	key_id      TEXT NOT NULL,
	plan        TEXT NOT NULL, -- held at creation
	tier        TEXT NOT NULL,
	prompt      TEXT NOT NULL,
	model       TEXT NOT NULL,
	width       INTEGER NOT NULL,
	height      INTEGER NOT NULL,
	seconds     INTEGER NOT NULL,
	cost_milli  BIGINT NOT NULL,
	repeat_hash BYTEA, -- of the caller's Idempotency-Key; NULL: there was none
	body_hash   BYTEA,
	status      TEXT NOT NULL,
	progress    INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	created_at  BIGINT NOT NULL,
	started_at  BIGINT NOT NULL,
	finished_at BIGINT NOT NULL,
	expires_at  BIGINT NOT NULL,
	attempts    INTEGER NOT NULL,
	node        TEXT NOT NULL,   -- that has claimed it
	until_at    BIGINT NOT NULL, -- the claim's end, or when a queued job may be claimed
	renderer    TEXT NOT NULL,
	credential  TEXT NOT NULL,
	upstream    TEXT NOT NULL,
	generation  TEXT, -- NULL: there is no video
	size        BIGINT NOT NULL,
	sha256      TEXT NOT NULL,
	version     BIGINT NOT NULL -- rises with every change, which takes the row's lock
);

CREATE UNIQUE INDEX video_jobs_once ON video_jobs (account_id, repeat_hash);
CREATE UNIQUE INDEX video_jobs_by_generation ON video_jobs (generation);
CREATE INDEX video_jobs_by_account ON video_jobs (account_id, created_at, id);
CREATE INDEX video_jobs_by_creation ON video_jobs (created_at);
CREATE INDEX video_jobs_by_expiry ON video_jobs (expires_at);
CREATE INDEX video_jobs_unfinished ON video_jobs (until_at) WHERE status IN ('queued', 'running');

-- Whose turn it is: the account that had its last one longest ago. Whoever adds a job locks its account's row.
CREATE TABLE video_turns (
	account_id TEXT PRIMARY KEY,
	turn       BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('video_turns', 0);

-- What all nodes must know and nobody else, such as the key that links are signed with.
CREATE TABLE secrets (
	name  TEXT PRIMARY KEY,
	value BYTEA NOT NULL
);
