package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/operate/notice"
	"sluice/internal/store/sqlstore/alltest"
)

// notices checks that notices are listed and counted as unread.
func notices(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a, other := create(t, s, 1), create(t, s, 2)
	warning := notice.Notice{ID: "note_1", AccountID: a.ID, At: base, Kind: notice.Warning, Title: "t", Body: "b"}
	inquiry := notice.Notice{ID: "note_2", AccountID: a.ID, At: base.Add(time.Minute), Kind: notice.Inquiry, Title: "q", Body: "?"}
	for _, n := range []notice.Notice{warning, inquiry} {
		must(t, s.AddNotice(ctx, &n))
	}
	list, err := s.Notices(ctx, a.ID, 10)
	if diff := cmp.Diff([]notice.Notice{inquiry, warning}, list); err != nil || diff != "" {
		t.Errorf("Notices: %v, -want +got\n%s", err, diff)
	}
	for _, tt := range []struct {
		after notice.Notice
		want  []notice.Notice
	}{{notice.Notice{}, list}, {inquiry, list[1:]}, {warning, nil}} {
		older, err := s.OlderNotices(ctx, a.ID, tt.after.At, tt.after.ID, 10)
		if diff := cmp.Diff(tt.want, older); err != nil || diff != "" {
			t.Errorf("OlderNotices after %q: %v, -want +got\n%s", tt.after.ID, err, diff)
		}
	}
	if n, err := s.UnreadNotices(ctx, a.ID); err != nil || n != 2 {
		t.Errorf("UnreadNotices = %d, %v, want 2", n, err)
	}
	if n, err := s.UnreadNotices(ctx, other.ID); err != nil || n != 0 {
		t.Errorf("UnreadNotices of another account = %d, %v, want 0", n, err)
	}
	// Opening the page reads all of them.
	must(t, s.ReadNotices(ctx, a.ID, base.Add(time.Hour)))
	if n, err := s.UnreadNotices(ctx, a.ID); err != nil || n != 0 {
		t.Errorf("UnreadNotices after reading = %d, %v, want 0", n, err)
	}
}
