-- +goose Up
-- What customers and support have to settle: a thread per matter, and the queue of support.

CREATE TABLE matters (
	id            TEXT PRIMARY KEY,
	account_id    TEXT NOT NULL REFERENCES accounts (id),
	kind          TEXT NOT NULL,
	cause         TEXT NOT NULL, -- what made the service open it; empty: a person did
	subject       TEXT NOT NULL,
	state         TEXT NOT NULL, -- open, snoozed, closed
	waits         TEXT NOT NULL, -- for whom: support, customer
	assignee      TEXT NOT NULL, -- empty: nobody
	opened_at     BIGINT NOT NULL,
	since         BIGINT NOT NULL, -- when it began to wait, or was closed
	changed_at    BIGINT NOT NULL,
	snoozed_until BIGINT NOT NULL, -- 0: it is not
	messages      INTEGER NOT NULL, -- 0: only support sees it
	unread        INTEGER NOT NULL, -- the customer has not seen the last message of support
	mailed_at     BIGINT NOT NULL, -- when staff was last mailed; 0: never
	version       BIGINT NOT NULL
);

CREATE INDEX matters_by_account ON matters (account_id, opened_at, id);
-- Each cause opens one matter, however many nodes see it.
CREATE UNIQUE INDEX matters_by_cause ON matters (account_id, kind, cause) WHERE cause <> '';
CREATE INDEX matters_open ON matters (waits, since, id) WHERE state = 'open';
CREATE INDEX matters_by_state ON matters (state, since, id);
CREATE INDEX matters_snoozed ON matters (snoozed_until) WHERE state = 'snoozed';
CREATE INDEX matters_raised ON matters (kind, account_id) WHERE messages = 0 AND state <> 'closed';
CREATE INDEX matters_unread ON matters (account_id) WHERE unread = 1;

CREATE TABLE matter_messages (
	matter_id  TEXT NOT NULL,
	number     INTEGER NOT NULL, -- from 1
	account_id TEXT NOT NULL,
	at         BIGINT NOT NULL,
	side       TEXT NOT NULL, -- customer, support
	author     TEXT NOT NULL,
	text       TEXT NOT NULL,
	PRIMARY KEY (matter_id, number)
);

CREATE INDEX matter_messages_written ON matter_messages (account_id, at) WHERE side = 'customer';

-- How much of an inquiry is in its thread: nothing, the question, the question and the answer.
ALTER TABLE notices ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
CREATE INDEX notices_not_joined ON notices (at) WHERE kind = 'inquiry' AND (joined = 0 OR (joined = 1 AND answered_at > 0));

-- What opens matters: the few accounts whose keys are off or whose payment fails, and events of abuse control after
-- the last one that was looked at.
CREATE INDEX accounts_deactivated ON accounts (deactivated_at) WHERE deactivated_at IS NOT NULL;
CREATE INDEX billing_accounts_failing ON billing_accounts (account_id) WHERE failed > 0;

INSERT INTO counters (name, value) VALUES ('matter_events', 0);
