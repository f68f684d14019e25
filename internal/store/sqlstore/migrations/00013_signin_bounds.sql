-- +goose Up
-- A password is chosen behind the link that opens an account, so a link holds none. Links are counted by
-- purpose and address. A session knows which step opened it.

ALTER TABLE one_time_links DROP COLUMN password;
CREATE INDEX one_time_links_by_address ON one_time_links (purpose, email, expires_at);
CREATE INDEX one_time_links_by_purpose ON one_time_links (purpose, expires_at);

ALTER TABLE sessions ADD COLUMN via TEXT NOT NULL DEFAULT '';
