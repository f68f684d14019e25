-- +goose Up
-- What prompt caches gave. cacheable are the tokens of prompts that a cache could have held: all of them where the model has a
-- cache, else none. saved_nano is what the same calls would have cost the operator without caches, beyond what they did cost, and
-- saved_margin_nano what customers are told beyond that. In settlements cacheable is NULL for calls of servers that do not know of
-- it, and in price_corrections saved_nano is.

ALTER TABLE settlements ADD COLUMN cacheable BIGINT;
ALTER TABLE settlements ADD COLUMN saved_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

ALTER TABLE price_corrections ADD COLUMN saved_nano BIGINT;
ALTER TABLE price_corrections ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

ALTER TABLE usage_hours ADD COLUMN cacheable BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hours ADD COLUMN saved_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hours ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

ALTER TABLE usage_days ADD COLUMN cacheable BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_days ADD COLUMN saved_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_days ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

ALTER TABLE activity ADD COLUMN cacheable BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activity ADD COLUMN saved_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activity ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

ALTER TABLE session_sums ADD COLUMN written BIGINT NOT NULL DEFAULT 0;
ALTER TABLE session_sums ADD COLUMN cacheable BIGINT NOT NULL DEFAULT 0;
ALTER TABLE session_sums ADD COLUMN saved_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE session_sums ADD COLUMN saved_margin_nano BIGINT NOT NULL DEFAULT 0;

-- Of earlier calls it is known which models had a cache: those that have read something from one.
UPDATE usage_hours SET cacheable = prompt WHERE cached > 0;
UPDATE usage_days SET cacheable = prompt WHERE cached > 0;
UPDATE activity SET cacheable = prompt WHERE cached > 0;
UPDATE session_sums SET cacheable = prompt WHERE cached > 0;

-- What the calls of all accounts add up to by day, provider and the model that answered, for ever. It has the calls whose cacheable
-- is not NULL. The columns are those of usage_days.
CREATE TABLE provider_days (
	provider          TEXT NOT NULL,
	start             BIGINT NOT NULL,
	model             TEXT NOT NULL,
	requests          BIGINT NOT NULL,
	failed            BIGINT NOT NULL,
	prompt            BIGINT NOT NULL,
	cached            BIGINT NOT NULL,
	completion        BIGINT NOT NULL,
	reasoning         BIGINT NOT NULL,
	request_milli     BIGINT NOT NULL,
	unit_milli        BIGINT NOT NULL,
	cost_micro        BIGINT NOT NULL,
	cost_nano         BIGINT NOT NULL,
	margin_nano       BIGINT NOT NULL,
	written           BIGINT NOT NULL,
	unpriced          BIGINT NOT NULL,
	latency_ms        BIGINT NOT NULL,
	first_token_ms    BIGINT NOT NULL,
	first_tokens      BIGINT NOT NULL,
	cacheable         BIGINT NOT NULL,
	saved_nano        BIGINT NOT NULL,
	saved_margin_nano BIGINT NOT NULL,
	PRIMARY KEY (start, provider, model)
);
