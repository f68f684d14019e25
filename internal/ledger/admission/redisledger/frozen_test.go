package redisledger

import (
	"context"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/redistest"
	"sluice/internal/testkit/wiretest"
)

// A Redis that has frozen, with its connections open, holds nobody: neither a server nor a command, whose context
// has no end.
func TestFrozenRedis(t *testing.T) {
	t.Parallel()
	const enough = time.Minute // the machine may be busy; each gives up after a few seconds
	for name, start := range map[string]func(t *testing.T) (url string, freeze func() (mend func())){
		"the server is stopped by SIGSTOP": func(t *testing.T) (string, func() func()) {
			s := redistest.Own(t)
			must := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			return s.URL(), func() func() {
				must(s.Signal(syscall.SIGSTOP))
				return func() { must(s.Signal(syscall.SIGCONT)) }
			}
		},
		"open connections are silent": func(t *testing.T) (string, func() func()) {
			w, url := wiretest.To(t, redistest.Own(t).URL())
			return url, func() func() { w.Swallow(); return w.Freeze() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, freeze := start(t)
			l := open(t, url, Options{Deadline: 200 * time.Millisecond})
			mend := freeze()
			defer mend()
			all := limits(10, unlimited, unlimited)
			for what, ask := range map[string]func() bool{
				"Take": func() bool { _, _, o := l.Take("a", all, one); return o == nil },
				"Peek": func() bool { l.Peek("a", all); return true },
				"Revoke": func() bool {
					_, err := l.Revoke(context.Background(), "a")
					return err != nil
				},
				"Revoke of a command": func() bool { return Revoke(context.Background(), url, "a") != nil },
				"Inspect":             func() bool { _, err := Inspect(context.Background(), url); return err != nil },
				"Read of a visitor": func() bool {
					_, _, err := Visit(url).Read(context.Background(), "a", time.Now())
					return err != nil
				},
			} {
				began, done := time.Now(), make(chan bool, 1)
				go func() { done <- ask() }()
				select {
				case ok := <-done:
					if !ok {
						t.Errorf("%s on a frozen Redis did not give what it should", what)
					}
					t.Logf("%s took %s", what, time.Since(began).Round(time.Millisecond))
				case <-time.After(enough):
					t.Errorf("%s on a frozen Redis has not returned after %s", what, enough)
				}
			}
		})
	}
}
