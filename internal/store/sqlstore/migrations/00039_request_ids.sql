-- +goose Up
-- The id of a call begins with the second of its start, so the primary key, (at, id), finds it, and an index on id
-- alone would cost each settlement a third of its time. Ids that do not begin so, of videos and of calls of earlier
-- versions, which have no way, are stored in request_id as well, whose index has only the rows that need it.

UPDATE settlements SET request_id = id WHERE request_id = '' AND way IS NULL;

DROP INDEX settlements_by_id;
