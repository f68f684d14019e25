-- +goose Up
-- Where other servers on this database reach a server: scheme://host:port. Empty: not known, as for a server of an earlier
-- version or one that is starting.

ALTER TABLE cluster_nodes ADD COLUMN address TEXT NOT NULL DEFAULT '';
