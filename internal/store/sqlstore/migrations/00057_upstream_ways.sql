-- +goose Up
-- By which API of its provider a model must be asked, as the provider has said: tools, responses or chat. The name is the
-- host of the provider, a slash, and the provider's name of the model.

CREATE TABLE upstream_ways (
	name TEXT NOT NULL PRIMARY KEY,
	way  TEXT NOT NULL,
	at   BIGINT NOT NULL
);
