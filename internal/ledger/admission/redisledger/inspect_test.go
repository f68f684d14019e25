package redisledger_test

import (
	"strings"
	"testing"

	"sluice/internal/ledger/admission/redisledger"
	"sluice/internal/testkit/redistest"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	keeps, evicts := redistest.Own(t), redistest.Own(t, "maxmemory-policy allkeys-lru")
	in, err := redisledger.Inspect(t.Context(), keeps.URL())
	if err != nil || in.Name == "" || in.Version == "" || in.Evicts {
		t.Errorf("Inspect = %+v, %v, want a name and a version", in, err)
	}
	if in, err := redisledger.Inspect(t.Context(), evicts.URL()); err != nil || !in.Evicts {
		t.Errorf("Inspect of a server that evicts keys = %+v, %v", in, err)
	}
	if err := keeps.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := redisledger.Inspect(t.Context(), "redis://:canary7@"+keeps.Addr()); err == nil || strings.Contains(err.Error(), "canary7") {
		t.Errorf("Inspect of a server that is not there = %v, want an error without the password", err)
	}
}
