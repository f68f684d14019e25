package storetest

import (
	"bytes"
	"testing"
	"time"

	"sluice/internal/sqlstore"
)

// states are kept under ids until they expire; the last one of an id stays.
func states(t *testing.T, open func() *sqlstore.Store) {
	s := open()
	id, other := []byte("id \x00\xff"), []byte("other")
	expires := base.Add(time.Hour)
	find := func(s *sqlstore.Store, id []byte, now time.Time, want []byte) {
		t.Helper()
		got, err := s.FindState(t.Context(), id, now)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("FindState(%q) = %x, %v, want %x", id, got, err, want)
		}
	}
	find(s, id, base, nil)
	for _, sealed := range [][]byte{{1}, {0, 2, 0xff}} {
		if err := s.KeepState(t.Context(), id, sealed, expires); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepState(t.Context(), other, []byte{3}, expires.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	find(open(), id, base, []byte{0, 2, 0xff})
	find(s, id, expires.Add(-time.Millisecond), []byte{0, 2, 0xff})
	find(s, id, expires, nil)
	for _, tt := range []struct {
		now  time.Time
		want int
	}{{base, 0}, {expires, 1}, {expires, 0}, {expires.Add(time.Hour), 1}} {
		if n, err := s.DropStates(t.Context(), tt.now, 10); n != tt.want || err != nil {
			t.Errorf("DropStates(%v) = %d, %v, want %d", tt.now, n, err, tt.want)
		}
	}
	find(s, other, base, nil)
}
