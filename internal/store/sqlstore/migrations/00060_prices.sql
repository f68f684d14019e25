-- +goose Up
-- Costs to the nano-dollar: cost_nano is what a cost, or a sum of costs, has beyond the micro-dollars in cost_micro, which nodes
-- of the version before write and read. margin_nano is what customers are told beyond the cost. price_version and details are
-- what the cost follows from, see usage.Terms; details also has the tokens that few calls have.

ALTER TABLE settlements ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN margin_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN cache_write BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlements ADD COLUMN price_version TEXT NOT NULL DEFAULT '';
ALTER TABLE settlements ADD COLUMN details TEXT NOT NULL DEFAULT '';

ALTER TABLE usage_hours ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hours ADD COLUMN margin_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_hours ADD COLUMN written BIGINT NOT NULL DEFAULT 0;

ALTER TABLE usage_days ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_days ADD COLUMN margin_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_days ADD COLUMN written BIGINT NOT NULL DEFAULT 0;

ALTER TABLE activity ADD COLUMN cost_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activity ADD COLUMN margin_nano BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activity ADD COLUMN written BIGINT NOT NULL DEFAULT 0;
