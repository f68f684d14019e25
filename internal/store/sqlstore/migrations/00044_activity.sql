-- +goose Up
-- What the activity of an account is drawn from: its calls by hour and by day, by everything that a page filters by.

-- The columns took_ and first_ count the calls by how long they took, and how long their first token took: two counts in
-- each, one in either half; see usage.Spread.
CREATE TABLE activity (
	account_id TEXT NOT NULL,
	span       INTEGER NOT NULL, -- an hour or a day, in seconds
	start      BIGINT NOT NULL,
	key_id     TEXT NOT NULL,
	asked      TEXT NOT NULL, -- the model that was asked for
	model      TEXT NOT NULL, -- the model that answered
	status     INTEGER NOT NULL,
	ending     TEXT NOT NULL,
	calls      BIGINT NOT NULL,
	prompt     BIGINT NOT NULL,
	cached     BIGINT NOT NULL,
	completion BIGINT NOT NULL,
	reasoning  BIGINT NOT NULL,
	unit_milli BIGINT NOT NULL,
	cost_micro BIGINT NOT NULL,
	unpriced   BIGINT NOT NULL,
	took_0     BIGINT NOT NULL,
	took_1     BIGINT NOT NULL,
	took_2     BIGINT NOT NULL,
	took_3     BIGINT NOT NULL,
	took_4     BIGINT NOT NULL,
	took_5     BIGINT NOT NULL,
	first_0    BIGINT NOT NULL,
	first_1    BIGINT NOT NULL,
	first_2    BIGINT NOT NULL,
	first_3    BIGINT NOT NULL,
	first_4    BIGINT NOT NULL,
	first_5    BIGINT NOT NULL,
	PRIMARY KEY (account_id, span, start, key_id, asked, model, status, ending)
);

CREATE INDEX activity_by_time ON activity (span, start);

-- The last calls, so that the page is not empty after the upgrade.
INSERT INTO activity (account_id, span, start, key_id, asked, model, status, ending, calls, prompt, cached, completion, reasoning, unit_milli, cost_micro, unpriced,
	took_0, took_1, took_2, took_3, took_4, took_5, first_0, first_1, first_2, first_3, first_4, first_5)
SELECT account_id, 86400, at / 86400000 * 86400000, key_id, model_asked, model, status, ending, COUNT(*), SUM(prompt + cached), SUM(cached), SUM(completion + reasoning), SUM(reasoning),
	SUM(unit_milli), SUM(COALESCE(cost_micro, 0)), SUM(CASE WHEN cost_micro IS NULL THEN 1 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms <= 50 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 50 AND latency_ms <= 100 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 100 AND latency_ms <= 200 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 200 AND latency_ms <= 350 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 350 AND latency_ms <= 600 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 600 AND latency_ms <= 1000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 1000 AND latency_ms <= 1700 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 1700 AND latency_ms <= 3000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 3000 AND latency_ms <= 5000 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 5000 AND latency_ms <= 10000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 10000 AND latency_ms <= 30000 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 30000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms <= 50 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 50 AND first_token_ms <= 100 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 100 AND first_token_ms <= 200 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 200 AND first_token_ms <= 350 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 350 AND first_token_ms <= 600 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 600 AND first_token_ms <= 1000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 1000 AND first_token_ms <= 1700 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 1700 AND first_token_ms <= 3000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 3000 AND first_token_ms <= 5000 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 5000 AND first_token_ms <= 10000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 10000 AND first_token_ms <= 30000 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 30000 THEN 4294967296 ELSE 0 END)
FROM settlements WHERE at >= (SELECT COALESCE(MAX(at), 0) FROM settlements) - 2678400000 AND account_id <> ''
GROUP BY account_id, at / 86400000 * 86400000, key_id, model_asked, model, status, ending;

INSERT INTO activity (account_id, span, start, key_id, asked, model, status, ending, calls, prompt, cached, completion, reasoning, unit_milli, cost_micro, unpriced,
	took_0, took_1, took_2, took_3, took_4, took_5, first_0, first_1, first_2, first_3, first_4, first_5)
SELECT account_id, 3600, at / 3600000 * 3600000, key_id, model_asked, model, status, ending, COUNT(*), SUM(prompt + cached), SUM(cached), SUM(completion + reasoning), SUM(reasoning),
	SUM(unit_milli), SUM(COALESCE(cost_micro, 0)), SUM(CASE WHEN cost_micro IS NULL THEN 1 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms <= 50 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 50 AND latency_ms <= 100 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 100 AND latency_ms <= 200 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 200 AND latency_ms <= 350 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 350 AND latency_ms <= 600 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 600 AND latency_ms <= 1000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 1000 AND latency_ms <= 1700 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 1700 AND latency_ms <= 3000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 3000 AND latency_ms <= 5000 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 5000 AND latency_ms <= 10000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN ending IN ('complete', 'cut') AND latency_ms > 10000 AND latency_ms <= 30000 THEN 1 WHEN ending IN ('complete', 'cut') AND latency_ms > 30000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms <= 50 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 50 AND first_token_ms <= 100 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 100 AND first_token_ms <= 200 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 200 AND first_token_ms <= 350 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 350 AND first_token_ms <= 600 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 600 AND first_token_ms <= 1000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 1000 AND first_token_ms <= 1700 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 1700 AND first_token_ms <= 3000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 3000 AND first_token_ms <= 5000 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 5000 AND first_token_ms <= 10000 THEN 4294967296 ELSE 0 END),
	SUM(CASE WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 10000 AND first_token_ms <= 30000 THEN 1 WHEN (first_token_ms > 0 OR ending = 'complete' AND completion + reasoning > 0) AND first_token_ms > 30000 THEN 4294967296 ELSE 0 END)
FROM settlements WHERE at >= (SELECT COALESCE(MAX(at), 0) FROM settlements) - 691200000 AND account_id <> ''
GROUP BY account_id, at / 3600000 * 3600000, key_id, model_asked, model, status, ending;

-- What a caller was told, where it is not about the caller's own words.
ALTER TABLE refused_calls ADD COLUMN message TEXT NOT NULL DEFAULT '';
