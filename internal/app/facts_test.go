package app

import (
	"testing"

	"sluice/internal/account"
	"sluice/internal/app/config"
	"sluice/internal/store/sqlstore"
)

// Two nodes may start on one empty database at the same time: the one that comes second finds the
// owner created behind its back.
func TestOwnerOfAnotherNode(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Data: t.TempDir(), Database: "sqlite", Brand: "service"}
	f, err := openFacts(t.Context(), cfg, sqlstore.Open)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	owner, _, err := account.New(f.stores.accounts, nil).Create(t.Context(), "another node", account.OwnerEmail, account.Scale, true)
	if err != nil {
		t.Fatal(err)
	}
	key, err := f.createOwner(t.Context())
	if err != nil || key != "" {
		t.Errorf("createOwner() = %q, %v, want no key and no error: the owner exists", key, err)
	}
	if f.index.Account(owner.ID) == nil {
		t.Error("the other node's owner is not known afterwards")
	}
}
