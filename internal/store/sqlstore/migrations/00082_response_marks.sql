-- +goose Up
-- Up to which number the responses of a journal are stored. A server on SQLite writes responses to a journal first; with
-- PostgreSQL there is none.

CREATE TABLE response_marks (
	journal TEXT PRIMARY KEY,
	number  BIGINT NOT NULL
);
