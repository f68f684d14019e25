package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/health"
)

// Results are used for a second, so that questions do not cost a look each.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		var broken atomic.Bool
		var log bytes.Buffer
		b := health.New(slog.New(slog.NewTextHandler(&log, nil)),
			health.Check{Name: "database", Look: func(ctx context.Context) health.Finding {
				looks.Add(1)
				if _, ok := ctx.Deadline(); !ok {
					t.Error("a look without a deadline")
				}
				if broken.Load() {
					return health.Failure(errors.New("dial 10.0.0.1: canary"))
				}
				return health.Finding{}
			}},
			health.Check{Name: "accounts", Look: func(context.Context) health.Finding {
				return health.Finding{Message: "a remark", Age: 7 * time.Second}
			}})
		for range 10 {
			got, ready := b.Report(t.Context())
			want := []health.Result{{Name: "database", OK: true}, {Name: "accounts", OK: true, Message: "a remark", Age: 7}}
			if !ready || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
				t.Fatalf("Report = %+v %v, want %+v", got, ready, want)
			}
		}
		if looks.Load() != 1 {
			t.Errorf("%d looks for ten questions at once, want 1", looks.Load())
		}
		broken.Store(true)
		time.Sleep(time.Second)
		got, ready := b.Report(t.Context())
		if ready || got[0].OK || strings.Contains(got[0].Message, "canary") || !strings.Contains(log.String(), "canary") {
			t.Errorf("Report = %+v %v of a check that fails; its reason belongs into the log: %s", got, ready, log.String())
		}
		broken.Store(false)
		time.Sleep(time.Second)
		if got, ready := b.Report(t.Context()); !ready || strings.Count(log.String(), "ready again") != 1 {
			t.Errorf("Report = %+v %v of a check that passes again, log %s", got, ready, log.String())
		}
	})
}

// A look that hangs holds up nobody. What was known before holds for a while, and then it counts as failed.
func TestHanging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		release := make(chan struct{})
		b := health.New(slog.New(slog.DiscardHandler), health.Check{Name: "disk", Look: func(context.Context) health.Finding {
			if hang.Load() {
				<-release // as a system call does: whatever the context says
			}
			return health.Finding{}
		}})
		ask := func(ok bool, age float64, message string) {
			t.Helper()
			began := time.Now()
			got, ready := b.Report(t.Context())
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("Report took %s", took)
			}
			if ready != ok || got[0].OK != ok || got[0].Age != age || !strings.Contains(got[0].Message, message) {
				t.Errorf("Report = %+v %v, want ok %v, age %v and a message with %q", got, ready, ok, age, message)
			}
		}
		ask(true, 0, "")
		hang.Store(true)
		time.Sleep(time.Second)
		ask(true, 3, "")
		time.Sleep(time.Second)
		ask(true, 6, "") // still the same look
		time.Sleep(6 * time.Second)
		ask(false, 14, "no answer for 13s")
		if got, ready := b.Results(); ready || got[0].OK {
			t.Errorf("Results = %+v %v, want the same", got, ready)
		}
		hang.Store(false)
		close(release)
		synctest.Wait()
		ask(true, 0, "")
	})
}

// A check that has never ended is not one that has passed.
func TestFirstLookHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := health.New(slog.New(slog.DiscardHandler), health.Check{Name: "disk", Look: func(context.Context) health.Finding { <-release; return health.Finding{} }})
		if got, ready := b.Report(t.Context()); ready || got[0].Message != "no answer for 2s" {
			t.Errorf("Report = %+v %v, want that there is no answer yet", got, ready)
		}
		close(release)
	})
}

// Run looks without being asked, and its end does not wait for what hangs.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		release := make(chan struct{})
		b := health.New(slog.New(slog.DiscardHandler),
			health.Check{Name: "a", Look: func(context.Context) health.Finding { looks.Add(1); return health.Finding{} }},
			health.Check{Name: "b", Look: func(context.Context) health.Finding { <-release; return health.Finding{} }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		b.Run(ctx)
		if n := looks.Load(); n < 10 || n > 14 {
			t.Errorf("%d looks in a minute, want one every five seconds", n)
		}
		if took := time.Since(began); took > time.Minute+5*time.Second {
			t.Errorf("Run ended %s after its context", took-time.Minute)
		}
		close(release)
	})
}

// What keeps no call from being answered is told, and the server stays ready; but a look that never ends says that calls
// do not end either, where that is so.
func TestAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var broken, journal atomic.Bool
		release := make(chan struct{})
		broken.Store(true)
		hang := func(context.Context) health.Finding { <-release; return health.Finding{} }
		b := health.New(slog.New(slog.NewTextHandler(&log, nil)),
			health.Check{Name: "database", Aside: true, Look: func(context.Context) health.Finding {
				return health.Finding{Failed: broken.Load(), Message: "read-only"}
			}},
			health.Check{Name: "storage", Aside: true, Look: hang},
			health.Check{Name: "journal", Cheap: true, Look: func(context.Context) health.Finding {
				return health.Finding{Failed: journal.Load(), Message: "full"}
			}})
		if got, ready := b.Report(t.Context()); !ready || !got[0].OK || got[0].Message != "read-only" || !got[1].OK || !got[2].OK {
			t.Errorf("Report = %+v %v, want ready, with what is wrong", got, ready)
		}
		if !strings.Contains(log.String(), "calls are answered") || strings.Contains(log.String(), "not ready") {
			t.Errorf("the log says %s, want what is wrong and not that it is not ready", log.String())
		}
		if r, unable := b.Unable(); unable {
			t.Errorf("Unable = %+v, want that calls are answered", r)
		}
		journal.Store(true) // known at once, without a report
		if r, unable := b.Unable(); !unable || r.Name != "journal" || r.Message != "full" {
			t.Errorf("Unable = %+v %v, want the journal", r, unable)
		}
		disk := health.New(slog.New(slog.DiscardHandler), health.Check{Name: "disk", Aside: true, Holds: true, Look: hang})
		if got, ready := disk.Report(t.Context()); ready || got[0].OK {
			t.Errorf("Report = %+v %v of a disk that hangs, want not ready", got, ready)
		}
		close(release)
	})
}
