package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/fault"
	"sluice/internal/notice"
	"sluice/internal/sqlstore"
)

// notices checks that notices are listed, counted as unread, and answered once, by their own
// account only. The dashboard passes ids that a browser sent, so the store must compare the account.
func notices(t *testing.T, open func() *sqlstore.Store) {
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
	// Only an inquiry can be answered, by the account that got it.
	for _, tt := range []struct{ what, account, id string }{
		{"a warning", a.ID, warning.ID}, {"another's inquiry", other.ID, inquiry.ID}, {"an unknown one", a.ID, "note_9"},
	} {
		if err := s.AnswerNotice(ctx, tt.account, tt.id, "x", base); !fault.Is(err, fault.NotFound) {
			t.Errorf("AnswerNotice of %s = %v, want not found", tt.what, err)
		}
	}
	must(t, s.AnswerNotice(ctx, a.ID, inquiry.ID, "a bot", base.Add(2*time.Hour)))
	if err := s.AnswerNotice(ctx, a.ID, inquiry.ID, "again", base); !fault.Is(err, fault.NotFound) {
		t.Errorf("AnswerNotice twice = %v, want not found", err)
	}
	list, err = s.Notices(ctx, a.ID, 1)
	if err != nil || len(list) != 1 || list[0].Answer != "a bot" || list[0].AnsweredAt != base.Add(2*time.Hour) {
		t.Errorf("Notices after the answer = %+v, %v", list, err)
	}
}
