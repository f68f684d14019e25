package app_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/internal/account/mail"
	"sluice/internal/operate/admin"
)

// visitor is somebody with a browser at an address of their own.
func (s *stage) visitor(t *testing.T) *person {
	t.Helper()
	p := s.node(t).person()
	p.client.Transport = forwarded{p.client.Transport, fmt.Sprintf("203.0.113.%d", s.made.Add(1)%250)}
	return p
}

// link makes a link that signs the account's owner in.
func (s *stage) link(t *testing.T, email string) (path, token string) {
	t.Helper()
	made := must[admin.SignInLink](s.node(t), "signin-link", admin.Target{Actor: "t", Ref: email})
	u, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path, u.Query().Get("token")
}

// enter signs somebody in by such a link.
func (s *stage) enter(t *testing.T, email string) *person {
	t.Helper()
	p := s.visitor(t)
	path, token := s.link(t, email)
	p.wants(p.post(path, "token", token), "POST "+path, 303, "/dashboard")
	return p
}

// age makes something older in the database, where times are thousandths of seconds.
func (s *stage) age(t *testing.T, query, of string) {
	t.Helper()
	if _, err := openSQLite(t, s.running.site).Exec(query, of); err != nil {
		t.Fatal(err)
	}
}

// outbox is one that sends nothing, and what it logs.
func outbox() (*mail.Outbox, *bytes.Buffer) {
	var log bytes.Buffer
	return mail.NewOutbox(nil, slog.New(slog.NewTextHandler(&log, nil))), &log
}

// lost posts messages that may wait together, and then one more, which may not.
func (b bound) lost(t *testing.T, waiting []mail.Message, more mail.Message) {
	t.Helper()
	b.says(t, "dropped, logged")
	o, log := outbox()
	for _, m := range waiting {
		o.Post(m)
	}
	if log.Len() > 0 {
		t.Errorf("within %d: %s, want all to wait", b.n, log)
	}
	more.Subject = "too much"
	o.Post(more)
	if !strings.Contains(log.String(), more.Subject) {
		t.Errorf("beyond %d the log says %q, want the message dropped", b.n, log)
	}
}

// letters are n messages to different recipients, of so many bytes each.
func letters(n, size int64) (all []mail.Message) {
	for i := range n {
		to := fmt.Sprintf("a%04d@example.com", i)
		all = append(all, mail.Message{To: to, Text: strings.Repeat("x", int(size)-len(to))})
	}
	return all
}

// forms tries how often an account can send a form.
func forms(path string) try {
	return func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		var last reply
		for range b.n {
			last = p.post(path)
		}
		if last.status == 429 {
			t.Fatalf("%d forms: the last one is refused: %s", b.n, last.body)
		}
		b.check(t, last, last.status, p.post(path))
	}
}

var signinTries = map[string]try{
	"e-mail address": func(t *testing.T, s *stage, b bound) {
		p := s.visitor(t)
		ask := func(n int64) reply {
			const host = "@example.com"
			return p.post("/signup", "email", strings.Repeat("a", int(n)-len(host))+host)
		}
		b.check(t, ask(b.n), 303, ask(b.n+1))
	},
	"password": func(t *testing.T, s *stage, b bound) {
		p, email := s.visitor(t), s.email()
		p.leads(p.post("/signup", "email", email), "POST /signup", "Check your e-mail")
		path, token := p.n.linkTo(email)
		ask := func(n int64) reply {
			return p.post(path, "token", token, "password", "a"+strings.Repeat("b", int(n)-1))
		}
		beyond := ask(b.n + 1)
		b.check(t, ask(b.n), 303, beyond)
	},
	"passwords hashed at once": func(t *testing.T, s *stage, b bound) {
		b.checkAfter(t, "account/signin/limits.go", "hashPatience")
		triedBy("account/signin", "TestHashesAtOnce", "503 after 3 s")(t, s, b)
	},
	"forms of an account in ten minutes":                     forms("/dashboard/account/sessions/ses_x/close"),
	"forms of an account that lead to a payment, in an hour": forms("/dashboard/plan/cancel"),
	"counts of sign-in attempts":                             triedBy("account/signin", "TestLimitsAreBounded", "the least used go"),

	"links for one address and purpose": func(t *testing.T, s *stage, b bound) {
		b.says(t, "the oldest go")
		email := s.account(t).Email
		var path string
		var tokens []string
		for i := range b.n + 1 {
			var token string
			path, token = s.link(t, email)
			tokens = append(tokens, token)
			if i < 2 {
				s.age(t, `UPDATE one_time_links SET expires_at = expires_at - 1000 WHERE email = $1`, email)
			}
		}
		p := s.visitor(t)
		p.wants(p.post(path, "token", tokens[0]), "the oldest link", 404, "")
		p.wants(p.post(path, "token", tokens[1]), "the oldest that is left", 303, "/dashboard")
	},
	"sign-up links of all addresses": triedBy("store/sqlstore", "TestSQLite", "the oldest go"), // by its part about links

	"sessions of an account": func(t *testing.T, s *stage, b bound) {
		b.says(t, "the oldest go")
		one := s.account(t)
		var all []*person
		for i := range b.n {
			all = append(all, s.enter(t, one.Email))
			if i < 2 {
				s.age(t, `UPDATE sessions SET seen_at = seen_at - 1000 WHERE account_id = $1`, one.ID)
			}
		}
		if !all[0].isSignedIn() {
			t.Errorf("the first of %d sessions has ended", b.n)
		}
		s.enter(t, one.Email)
		if all[0].isSignedIn() || !all[1].isSignedIn() {
			t.Errorf("after session %d the first is signed in: %t, and the second: %t; want the second alone", b.n+1, all[0].isSignedIn(), all[1].isSignedIn())
		}
	},
	"sub-keys of an account": func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		var within reply
		for i := range b.n {
			within = p.post("/dashboard/keys", "name", fmt.Sprint("key ", i))
		}
		b.check(t, within, 303, p.post("/dashboard/keys", "name", "one more"))
	},
	"models, or addresses, of a key": func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		send := func(name string, n int64) reply {
			list := make([]string, n)
			for i := range list {
				list[i] = fmt.Sprintf("10.0.0.%d", i)
			}
			return p.post("/dashboard/keys", "name", name, "addresses", strings.Join(list, " "))
		}
		b.check(t, send("within", b.n), 303, send("beyond", b.n+1))
	},
	"mail waiting": func(t *testing.T, _ *stage, b bound) {
		all := letters(b.n+1, 100)
		b.lost(t, all[:b.n], all[b.n])
	},
	"mail waiting for one recipient": func(t *testing.T, _ *stage, b bound) {
		all := slices.Repeat(letters(1, 100), int(b.n)+1)
		b.lost(t, all[:b.n], all[b.n])
	},
	"mail waiting, bytes": func(t *testing.T, s *stage, b bound) {
		one := s.rows["one mail"].n
		all := letters(b.n/one+1, one)
		b.lost(t, all[:b.n/one], mail.Message{To: "b"})
	},
	"one mail": func(t *testing.T, _ *stage, b bound) {
		const subject = len("too much") // which the second has, too
		b.lost(t, letters(1, b.n), letters(1, b.n+1-int64(subject))[0])
	},
}
