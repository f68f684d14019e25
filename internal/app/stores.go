package app

import (
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/logins"
)

// stores are the parts of a database. Each implements what the packages that it is for need.
type stores struct {
	logins *logins.Store
}

// storesOf returns the parts of a database.
func storesOf(db *sqlstore.Store) stores {
	return stores{logins: logins.New(db)}
}
