package notice_test

import (
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/notice"
	"sluice/internal/store/sqlstore/alltest"
)

type box []mail.Message

func (b *box) Post(m mail.Message) { *b = append(*b, m) }

func TestBoard(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := alltest.Open(ctx, "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, _, err := account.New(s, nil).Create(ctx, "t", "ana@example.com", account.None, false)
	if err != nil {
		t.Fatal(err)
	}
	var posted box
	b := notice.New(s, &posted, func() string { return "https://x.example" }, nil)
	if err := b.Tell(ctx, a.ID, a.Email, notice.Inquiry, "A question", "What is it for?"); err != nil {
		t.Fatal(err)
	}
	if len(posted) != 1 || posted[0].To != a.Email || !strings.Contains(posted[0].Text, "What is it for?") || !strings.Contains(posted[0].Text, "https://x.example/dashboard/messages") {
		t.Errorf("mailed %+v, want the text and the way to the page", posted)
	}
	list, err := b.List(ctx, a.ID, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %+v, %v; want the notice", list, err)
	}
	if n, err := b.Notice(ctx, a.ID, list[0].ID); err != nil || n.Title != "A question" {
		t.Errorf("Notice = %+v, %v; want the notice", n, err)
	}
	if _, err := b.Notice(ctx, "acct_other", list[0].ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Notice of another account = %v, want not found", err)
	}
	if err := b.Read(ctx, a.ID, list[0].ID); err != nil {
		t.Fatal(err)
	}
	list, err = b.List(ctx, a.ID, 10)
	if n, unread := b.Unread(ctx, a.ID); err != nil || unread != nil || n != 0 || len(list) != 1 || list[0].Joined {
		t.Errorf("after reading: %d unread, %v, %+v, %v", n, unread, list, err)
	}
	if err := b.Tell(ctx, "acct_none", "x", notice.Warning, "t", "b"); err == nil || len(posted) != 1 {
		t.Errorf("Tell to nobody = %v, %d mails; want an error and no mail", err, len(posted))
	}
}
