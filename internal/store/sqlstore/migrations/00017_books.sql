-- +goose Up
-- What a customer's bank has taken back of a payment, and how far its disputes have come.

ALTER TABLE billing_payments ADD COLUMN disputed_cents BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_payments ADD COLUMN dispute_steps INTEGER NOT NULL DEFAULT 0;

-- A terminated or closed account is suspended for good. Those of earlier days are known by the audit log,
-- unless they were reopened afterwards.
ALTER TABLE accounts ADD COLUMN terminated INTEGER NOT NULL DEFAULT 0;

UPDATE accounts SET terminated = 1
WHERE suspended_at IS NOT NULL
	AND COALESCE((SELECT MAX(seq) FROM audit_log WHERE account_id = accounts.id AND action IN ('account.terminate', 'account.close')), 0)
		> COALESCE((SELECT MAX(seq) FROM audit_log WHERE account_id = accounts.id AND action = 'account.unsuspend'), 0);
