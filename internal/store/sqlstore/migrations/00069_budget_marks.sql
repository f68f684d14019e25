-- +goose Up
-- The marks of budgets of which people were told, by count and period as in budget_grants. Times are milliseconds since 1970.
CREATE TABLE budget_marks (
    count   TEXT NOT NULL,
    period  BIGINT NOT NULL,
    percent BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (count, period, percent)
);
CREATE INDEX budget_marks_old ON budget_marks (at);

-- When somebody last looked at what was spent.
INSERT INTO counters (name, value) VALUES ('budget_marks', 0);
