-- +goose Up
-- The tags that every call with a key has: name=value, separated by spaces.
ALTER TABLE api_keys ADD COLUMN tags TEXT NOT NULL DEFAULT '';

-- The session and the tags of a video, for its settlement.
ALTER TABLE video_jobs ADD COLUMN session TEXT NOT NULL DEFAULT '';
ALTER TABLE video_jobs ADD COLUMN tags TEXT NOT NULL DEFAULT '';

-- What the calls of a session add up to, while it is kept. Times are milliseconds since 1970, last_at is when the last call ended,
-- key_id is the key of that call, and models has the ids of the models that answered, separated by commas.
CREATE TABLE session_sums (
    account_id  TEXT NOT NULL,
    session     TEXT NOT NULL,
    key_id      TEXT NOT NULL,
    first_at    BIGINT NOT NULL,
    last_at     BIGINT NOT NULL,
    models      TEXT NOT NULL,
    calls       BIGINT NOT NULL,
    failed      BIGINT NOT NULL,
    prompt      BIGINT NOT NULL,
    cached      BIGINT NOT NULL,
    completion  BIGINT NOT NULL,
    cost_nano   BIGINT NOT NULL,
    margin_nano BIGINT NOT NULL,
    unpriced    BIGINT NOT NULL,
    PRIMARY KEY (account_id, session)
);
CREATE INDEX session_sums_newest ON session_sums (account_id, last_at);
CREATE INDEX session_sums_key ON session_sums (account_id, key_id, last_at);
CREATE INDEX session_sums_old ON session_sums (last_at);

-- What the calls with a tag add up to by day, for ever. A call counts for each of its tags.
CREATE TABLE tag_days (
    account_id  TEXT NOT NULL,
    day         BIGINT NOT NULL,
    tag         TEXT NOT NULL,
    calls       BIGINT NOT NULL,
    prompt      BIGINT NOT NULL,
    completion  BIGINT NOT NULL,
    cost_nano   BIGINT NOT NULL,
    margin_nano BIGINT NOT NULL,
    unpriced    BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, tag)
);
