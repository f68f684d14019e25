package sharing_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/sharing"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// shelf is a Store that keeps what it got.
type shelf struct {
	kept []sharing.Record
	full bool
}

func (s *shelf) KeepShare(_ context.Context, r *sharing.Record, _ sharing.Bound, _ time.Time) (bool, error) {
	if !s.full {
		s.kept = append(s.kept, *r)
	}
	return !s.full, nil
}

func (s *shelf) FindShare(_ context.Context, id []byte, now time.Time) (*sharing.Record, error) {
	for _, r := range s.kept {
		if bytes.Equal(r.ID, id) && r.ExpiresAt.After(now) {
			r.Sealed = bytes.Clone(r.Sealed)
			return &r, nil
		}
	}
	return nil, nil
}

func (s *shelf) ShareOwner(ctx context.Context, id []byte, now time.Time) (string, error) {
	if r, _ := s.FindShare(ctx, id, now); r != nil {
		return r.AccountID, nil
	}
	return "", nil
}

func (s *shelf) ListShares(_ context.Context, accountID string, _ time.Time) (list []sharing.Record, err error) {
	for _, r := range s.kept {
		if r.AccountID == accountID {
			r.Sealed = nil
			list = append(list, r)
		}
	}
	return list, nil
}

func (s *shelf) DropShare(context.Context, string, []byte) (bool, error) { return false, nil }
func (s *shelf) ForgetShares(context.Context, string) error              { return nil }

const small = `{"title": "Locks", "lanes": [{"model": "m", "messages": [{"role": "user", "text": "Hi"}]}]}`

// What is stored tells nothing of a conversation, and its token alone finds it.
func TestCreate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	store, key := &shelf{}, seal.NewKey()
	s := sharing.New(store, key, &sharing.Options{Now: func() time.Time { return now }})
	made, err := s.Create(t.Context(), "acct_a", []byte(small), 7)
	if err != nil || made.Title != "Locks" || !made.ExpiresAt.Equal(now.AddDate(0, 0, 7)) || len(made.Token) < 26 {
		t.Fatalf("Create = %+v, %v", made, err)
	}
	stored := fmt.Sprintf("%s %s %s", store.kept[0].ID, store.kept[0].Head, store.kept[0].Sealed)
	for _, secret := range []string{made.Token, "Locks", "Hi"} {
		if strings.Contains(stored, secret) {
			t.Errorf("%q can be read in what is stored", secret)
		}
	}
	chat, r, err := s.Find(t.Context(), made.Token)
	if err != nil || chat == nil || chat.Lanes[0].Messages[0].Text != "Hi" || r.AccountID != "acct_a" {
		t.Errorf("Find = %+v, %+v, %v", chat, r, err)
	}
	if owner, err := s.Owner(t.Context(), made.Token); owner != "acct_a" || err != nil {
		t.Errorf("Owner = %q, %v", owner, err)
	}
	list, err := s.List(t.Context(), "acct_a")
	if err != nil || len(list) != 1 || list[0].Token != made.Token || list[0].Title != "Locks" {
		t.Errorf("List = %+v, %v", list, err)
	}
	for _, token := range []string{"", made.Token + "A", strings.Repeat("A", 10_000)} {
		if chat, _, err := s.Find(t.Context(), token); chat != nil || err != nil {
			t.Errorf("Find(%.30s) = %+v, %v, want nothing", token, chat, err)
		}
		if owner, err := s.Owner(t.Context(), token); owner != "" || err != nil {
			t.Errorf("Owner(%.30s) = %q, %v, want nobody", token, owner, err)
		}
	}
	if chat, _, _ := sharing.New(store, seal.NewKey(), nil).Find(t.Context(), made.Token); chat != nil {
		t.Error("a share can be read with another key of the service")
	}
	now = now.AddDate(0, 0, 7)
	if chat, _, err := s.Find(t.Context(), made.Token); chat != nil || err != nil {
		t.Errorf("Find of what has expired = %+v, %v", chat, err)
	}
	store.full = true
	if _, err := s.Create(t.Context(), "acct_a", []byte(small), 7); !fault.Is(err, fault.Conflict) {
		t.Errorf("Create beyond the bound = %v, want a conflict", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	messages := func(list string) string { return `{"lanes": [{"model": "m", "messages": [` + list + `]}]}` }
	hi := `{"role": "user", "text": "Hi"}`
	for name, tt := range map[string]struct {
		body string
		days int
		want fault.Kind
	}{
		"no JSON":              {`{"lanes": [`, 7, fault.Invalid},
		"a list":               {`[]`, 7, fault.Invalid},
		"two documents":        {small + small, 7, fault.Invalid},
		"an unknown field":     {`{"lanes": [{"model": "m", "messages": [{"role": "user", "html": "<b>"}]}]}`, 7, fault.Invalid},
		"no messages":          {messages(""), 7, fault.Invalid},
		"no models":            {`{"title": "x", "lanes": []}`, 7, fault.Invalid},
		"five models":          {`{"lanes": [` + strings.Repeat(`{"messages": [`+hi+`]},`, 4) + `{"messages": [` + hi + `]}]}`, 7, fault.Invalid},
		"another role":         {messages(`{"role": "system", "text": "x"}`), 7, fault.Invalid},
		"a script as picture":  {messages(`{"role": "user", "pictures": ["javascript:alert(1)"]}`), 7, fault.Invalid},
		"a picture elsewhere":  {messages(`{"role": "user", "pictures": ["https://example.com/x.png"]}`), 7, fault.Invalid},
		"SVG":                  {messages(`{"role": "user", "pictures": ["data:image/svg+xml;base64,PHN2Zz4="]}`), 7, fault.Invalid},
		"no base64":            {messages(`{"role": "user", "pictures": ["data:image/png;base64,\"><script>"]}`), 7, fault.Invalid},
		"a kind in the middle": {messages(`{"role": "user", "pictures": ["x data:image/png;base64,AAAA"]}`), 7, fault.Invalid},
		"too many messages":    {messages(strings.Repeat(hi+",", 500) + hi), 7, fault.TooLarge},
		"many small things":    {messages(strings.Repeat(`{},`, 300_000) + `{}`), 7, fault.TooLarge},
		"too large":            {messages(`{"role": "user", "text": "` + strings.Repeat("x", sharing.MaxBody) + `"}`), 7, fault.TooLarge},
		"for two days":         {small, 2, fault.Invalid},
		"for ever":             {small, 0, fault.Invalid},
		"for a year":           {small, 365, fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &shelf{}
			_, err := sharing.New(store, seal.NewKey(), nil).Create(t.Context(), "acct_a", []byte(tt.body), tt.days)
			if !fault.Is(err, tt.want) || len(store.kept) > 0 {
				t.Errorf("Create = %v with %d stored, want %v", err, len(store.kept), tt.want)
			}
		})
	}
}

// What fits is shared as it is; a title is cut where a letter ends.
func TestCreateKeeps(t *testing.T) {
	t.Parallel()
	store := &shelf{}
	s := sharing.New(store, seal.NewKey(), nil)
	body := `{"title": "` + strings.Repeat("é", 150) + `", "system": "Be terse.", "lanes": [{"model": "a", "messages": [
		{"role": "user", "text": "<script>", "pictures": ["data:image/png;base64,iVBORw0="], "files": ["a.pdf"]},
		{"role": "assistant", "text": "x", "model": "b", "thinking": "y", "calls": [{"name": "f", "arguments": "{}", "result": "1"}]}]},
		{"model": "c", "messages": null}]}`
	made, err := s.Create(t.Context(), "acct_a", []byte(body), 30)
	if err != nil {
		t.Fatal(err)
	}
	if made.Title != strings.Repeat("é", 100) {
		t.Errorf("the title is %q", made.Title)
	}
	chat, _, err := s.Find(t.Context(), made.Token)
	if err != nil || chat.System != "Be terse." || len(chat.Lanes) != 2 || chat.Lanes[0].Messages[0].Pictures[0] != "data:image/png;base64,iVBORw0=" || chat.Lanes[0].Messages[1].Calls[0].Result != "1" {
		t.Errorf("Find = %+v, %v", chat, err)
	}
}
