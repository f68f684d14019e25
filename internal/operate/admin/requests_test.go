package admin_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"sluice/internal/ledger/refusal"
	"sluice/internal/operate/admin"
)

// The newest refused calls are read page by page, each once, also with a filter.
func TestNewestRefusals(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	b.Refusals = refusal.NewView(nil, store)
	var calls []refusal.Call
	for i := range 60 {
		calls = append(calls, refusal.Call{ID: fmt.Sprintf("%02d", i), At: started.Add(time.Duration(i) * time.Second), AccountID: "acct_1", KeyID: "key_1", Status: 400 + i%2*29, Kind: []string{"invalid_request_error", "rate_limit_error"}[i%2], Path: "/v1"})
	}
	if err := store.RecordRefusals(t.Context(), calls, nil); err != nil {
		t.Fatal(err)
	}
	service := admin.NewService(b, nil, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		in          admin.NewestQuery
		calls, last int
	}{
		{admin.NewestQuery{}, 60, 0}, {admin.NewestQuery{Status: 429}, 30, 1}, {admin.NewestQuery{Kind: "invalid_request_error"}, 30, 0}, {admin.NewestQuery{Model: "m"}, 0, -1},
	} {
		found, last := 0, -1
		for in := tt.in; ; {
			page, err := admin.Ops().RequestNewest.Run(t.Context(), service, admin.Caller{}, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page.Data {
				found++
				last, _ = strconv.Atoi(c.ID)
			}
			if in.After = page.Next; in.After == "" {
				break
			}
		}
		if found != tt.calls || last != tt.last {
			t.Errorf("%+v finds %d calls, the last of them %d, want %d and %d", tt.in, found, last, tt.calls, tt.last)
		}
	}
}
