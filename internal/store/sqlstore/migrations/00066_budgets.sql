-- +goose Up
-- Budgets in dollars. An account's budgets are a JSON array, since they change and are read as a whole with the account.
ALTER TABLE accounts ADD COLUMN budgets TEXT NOT NULL DEFAULT '';

-- What is counted for a budget: the id of the budget, and for a budget of each session a slash and the session. Raised is what
-- its owner has added to the amount of one session. The row is also the lock of the count.
CREATE TABLE budget_counts (
    count      TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    raised     BIGINT NOT NULL DEFAULT 0, -- nano-dollars
    touched_at BIGINT NOT NULL            -- milliseconds since 1970
);
CREATE INDEX budget_counts_touched ON budget_counts (touched_at);

-- What was spent of it, in nano-dollars, by the start of the period: of a day, a week or a month, of a part of a window that rolls, or 0.
CREATE TABLE budget_spent (
    count  TEXT NOT NULL,
    period BIGINT NOT NULL,
    spent  BIGINT NOT NULL,
    PRIMARY KEY (count, period)
);
CREATE INDEX budget_spent_period ON budget_spent (period);

-- What somebody may spend of a period: a server, or a video that is being made. Granted is all that it was ever given, spent what of
-- that is in budget_spent by now, and reserved what its calls held when it last said so.
CREATE TABLE budget_grants (
    count      TEXT NOT NULL,
    period     BIGINT NOT NULL, -- negative for a window that rolls
    holder     TEXT NOT NULL,
    granted    BIGINT NOT NULL,
    spent      BIGINT NOT NULL,
    reserved   BIGINT NOT NULL,
    touched_at BIGINT NOT NULL,
    PRIMARY KEY (count, period, holder)
);
CREATE INDEX budget_grants_holder ON budget_grants (holder);
CREATE INDEX budget_grants_touched ON budget_grants (touched_at);
