-- +goose Up
-- What the router chose for an account. A call that names its model is answered by it, except where a fallback stood in.

CREATE INDEX settlements_routed ON settlements (account_id, at) WHERE model_asked <> model;
