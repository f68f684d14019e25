package sqlstore

// SetVersion makes the database claim a version of its tables.
func SetVersion(s *Store, v int64) error {
	_, err := s.write.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, v, true)
	return err
}

// Execute changes the database behind the Store's back.
func Execute(s *Store, statement string) error {
	_, err := s.write.Exec(statement)
	return err
}
