-- +goose Up
-- The name of the machine that a server runs on, for people: the id of its data folder says nothing to them. Empty: not
-- known, as for a server of an earlier version.

ALTER TABLE cluster_nodes ADD COLUMN host TEXT NOT NULL DEFAULT '';
