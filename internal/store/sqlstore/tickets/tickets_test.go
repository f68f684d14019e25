package tickets_test

import (
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/sqlstore/alltest"
)

// During an upgrade, a server of the version before stores an answer in the notice of an inquiry whose thread exists.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := alltest.Open(ctx, "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, _, err := account.New(s, nil).Create(ctx, "t", "ana@example.com", account.Basic, false)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Truncate(time.Millisecond)
	if err := s.AddNotice(ctx, &notice.Notice{ID: "note_1", AccountID: a.ID, At: at, Kind: notice.Inquiry, Title: "q", Body: "What for?"}); err != nil {
		t.Fatal(err)
	}
	join := func() []ticket.Message {
		t.Helper()
		for range 2 {
			if _, err := s.JoinInquiries(ctx, "", 9); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.TicketsOf(ctx, a.ID, true, ticket.Place{}, 9)
		if err != nil || len(list) != 1 {
			t.Fatalf("TicketsOf = %+v, %v, want one thread", list, err)
		}
		messages, err := s.TicketMessages(ctx, list[0].ID, 9)
		if err != nil {
			t.Fatal(err)
		}
		return messages
	}
	if got := join(); len(got) != 1 || got[0].Text != "What for?" || got[0].From != ticket.Support {
		t.Errorf("the thread is %+v", got)
	}
	if err := s.Exec(t.Context(), `UPDATE notices SET answer = 'a bot', answered_at = 5 WHERE id = 'note_1'`); err != nil {
		t.Fatal(err)
	}
	if got := join(); len(got) != 2 || got[1].Text != "a bot" || got[1].From != ticket.Customer {
		t.Errorf("the thread is %+v, want the answer in it", got)
	}
}
