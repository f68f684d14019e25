-- +goose Up
-- What an account wants done about programs that run away, and which of its keys are paused: a JSON object, since it changes and is
-- read as a whole with the account. Empty: the usual.
ALTER TABLE accounts ADD COLUMN runaway TEXT NOT NULL DEFAULT '';

-- When the owner of an account was last told of a signal of a key, in milliseconds since 1970, and whether that was of its pause.
CREATE TABLE runaway_alarms (
    account_id TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    signal     TEXT NOT NULL,
    at         BIGINT NOT NULL,
    paused     BIGINT NOT NULL, -- 0 or 1
    PRIMARY KEY (account_id, key_id, signal)
);
CREATE INDEX runaway_alarms_old ON runaway_alarms (at);
