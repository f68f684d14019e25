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
	if n, err := s.Notice(ctx, a.ID, "note_1"); err != nil || n == nil || cmp.Diff(warning, *n) != "" {
		t.Errorf("Notice = %+v, %v, want %+v", n, err, warning)
	}
	if n, err := s.Notice(ctx, other.ID, "note_1"); err != nil || n != nil {
		t.Errorf("Notice of another account = %+v, %v, want none", n, err)
	}
	// One is read when it is opened, the others at once by a button.
	for _, tt := range []struct {
		account, id string
		want        int
	}{{other.ID, "note_1", 2}, {other.ID, "", 2}, {a.ID, "note_1", 1}, {a.ID, "", 0}} {
		must(t, s.ReadNotices(ctx, tt.account, tt.id, base.Add(time.Hour)))
		if n, err := s.UnreadNotices(ctx, a.ID); err != nil || n != tt.want {
			t.Errorf("UnreadNotices after %s has read %q = %d, %v, want %d", tt.account, tt.id, n, err, tt.want)
		}
	}
}
