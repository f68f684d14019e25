-- +goose Up
-- Corrections of what settled calls cost. A settlement never changes: a correction is a row of its own, with the difference, and
-- the sums have it on the day of the call. at and id are those of the settlement; number counts its corrections from 1. priced is
-- 1 if the call had no cost before.

CREATE TABLE price_corrections (
	at          BIGINT NOT NULL,
	id          TEXT   NOT NULL,
	number      BIGINT NOT NULL,
	account_id  TEXT   NOT NULL,
	key_id      TEXT   NOT NULL,
	model       TEXT   NOT NULL,
	cost_nano   BIGINT NOT NULL,
	margin_nano BIGINT NOT NULL,
	priced      BIGINT NOT NULL,
	old_version TEXT   NOT NULL,
	new_version TEXT   NOT NULL,
	reason      TEXT   NOT NULL,
	actor       TEXT   NOT NULL,
	made_at     BIGINT NOT NULL,
	PRIMARY KEY (at, id, number)
);

CREATE INDEX price_corrections_account ON price_corrections (account_id, at);
