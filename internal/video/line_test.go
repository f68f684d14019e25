package video_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/video"
	"sluice/internal/video/blob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// renderer runs the function that the test sets.
type renderer func(ctx context.Context, w io.Writer, t *video.Task) error

func (r renderer) Render(ctx context.Context, w io.Writer, t *video.Task) error { return r(ctx, w, t) }

// film writes a small file at once.
func film(_ context.Context, w io.Writer, t *video.Task) error {
	t.Progress(50)
	_, err := fmt.Fprintf(w, "film of %s, %dx%d, %d s", t.Prompt, t.Width, t.Height, t.Seconds)
	return err
}

// endless renders until its context ends.
func endless(ctx context.Context, w io.Writer, t *video.Task) error {
	t.Progress(42)
	if _, err := io.WriteString(w, "half"); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// keep is how long jobs may take, and are kept.
const keep = 5 * time.Minute

// world is a line on a database and a folder of its own.
type world struct {
	t        *testing.T
	dir      string
	store    *alltest.Store
	ledger   *admission.Memory
	settings video.Settings
	line     *video.Line
	caller   auth.Caller
	budgets  *budget.Ledger // nil: there are none

	mu      sync.Mutex
	settled []usage.Settlement
}

// perSecond returns a price of 10 cents for each second of video.
func perSecond(t *testing.T) *price.Series {
	t.Helper()
	e, err := price.Sealed(price.Entry{Model: "video-default", Rates: price.Of(price.Unknown, price.Unknown), Fees: map[string]price.Nano{"video_480p": 100_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	return price.NewBook([]*price.Entry{e}).Find("video-default", "", "")
}

// half returns a markup of a half for the plan basic.
func half(t *testing.T) *price.Markup {
	t.Helper()
	m, err := price.NewMarkup(0, map[string]price.Factor{"basic": 1_500_000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// inWorld runs a test with a line that does not work yet, under a clock of its own.
func inWorld(t *testing.T, r renderer, test func(w *world)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir() // outside: it is removed when the bubble is gone
	synctest.Test(t, func(t *testing.T) {
		store, err := alltest.Open(t.Context(), "sqlite", dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		w := &world{t: t, dir: dir, store: store, ledger: admission.NewMemory(nil)}
		w.caller = auth.Caller{Account: &account.Account{ID: "acct_1", Plan: account.Basic}, KeyID: "key_1"}
		engine := video.Engine{Name: "test", Credential: "c1", Renderer: r, Price: perSecond(t)}
		w.settings = video.Settings{
			Model: "video-default", Tier: account.Free, Plans: account.BuiltinPlans(), Origin: "https://api.example.com", Workers: 2,
			Lease: 30 * time.Second, Keep: keep, FileBytes: 1000, AccountBytes: 10_000, Engine: engine, Engines: []video.Engine{engine}, Markup: half(t),
		}
		w.line = w.open("node1")
		test(w)
	})
}

// open returns a line for a node.
func (w *world) open(node string) *video.Line {
	w.t.Helper()
	files, err := blob.NewDisk(filepath.Join(w.dir, "files"))
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := video.New(w.t.Context(), admission.New(w.ledger, nil, nil), w.store, files, node, w.settings, &video.Options{
		Log: slog.New(slog.DiscardHandler), Budgets: w.budgets,
		Settled: func(s *usage.Settlement) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.settled = append(w.settled, *s)
		},
	})
	if err != nil {
		w.t.Fatalf("New = %v", err)
	}
	return l
}

// run runs a line until the returned function is called.
func (w *world) run(l *video.Line) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func (w *world) order(prompt string) video.Order {
	return video.Order{
		Caller: w.caller, Limits: w.settings.Plans[w.caller.Account.Plan].Limits,
		Request: video.Request{Prompt: prompt, Model: "video-default", Width: 1280, Height: 480, Seconds: 3},
	}
}

func (w *world) create(prompt string) *video.Job {
	w.t.Helper()
	j, _, repeated, err := w.line.Create(w.t.Context(), w.order(prompt))
	if err != nil || repeated || j.Status != video.Queued {
		w.t.Fatalf("Create(%s) = %+v, %t, %v, want a queued job", prompt, j, repeated, err)
	}
	return j
}

func (w *world) find(id string) *video.Job {
	w.t.Helper()
	j, err := w.line.Find(w.t.Context(), w.caller.Account.ID, id)
	if err != nil {
		w.t.Fatalf("Find(%s) = %v", id, err)
	}
	return j
}

// await waits, on the bubble's clock, until a job has a status.
func (w *world) await(id string, want video.Status) *video.Job {
	w.t.Helper()
	for range 3000 {
		synctest.Wait()
		j := w.find(id)
		if j.Status == want {
			return j
		}
		if j.Status.Final() {
			w.t.Fatalf("the job is %s (%s), want %s", j.Status, j.Reason, want)
		}
		time.Sleep(100 * time.Millisecond) // the bubble's clock
	}
	w.t.Fatalf("the job never was %s", want)
	return nil
}

// used returns how many thousandths of a request the account has used in this minute.
func (w *world) used() int64 {
	return w.ledger.Peek(w.caller.Account.ID, w.order("").Limits).Requests.Used
}

// kept returns the names of all files, including unfinished ones.
func (w *world) kept() (names []string) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, "files"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// settlements returns those passed to Settled, and checks that the database has the same ones, each
// once.
func (w *world) settlements() []usage.Settlement {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, err := w.store.UsageByDay(w.t.Context(), w.caller.Account.ID, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	var want, have usage.Sums
	for i := range w.settled {
		want.Add(&w.settled[i])
	}
	for _, r := range rows {
		have.Merge(r.Sums)
	}
	if want != have {
		w.t.Errorf("the database has settlements of %+v, and told were %+v", have, want)
	}
	return w.settled
}

func TestSucceed(t *testing.T) {
	inWorld(t, film, func(w *world) {
		defer w.run(w.line)()
		created := w.create("a lighthouse")
		if w.used() != 1500 {
			w.t.Errorf("%d thousandths are used, want the 1500 of 1280", w.used())
		}
		j := w.await(created.ID, video.Succeeded)
		if j.Progress != 100 || j.Generation == "" || j.FinishedAt.IsZero() || j.ExpiresAt.Sub(j.FinishedAt) != keep || j.Attempts != 1 || j.Reason != "" {
			w.t.Errorf("the job is %+v", j)
		}
		opened, f, err := w.line.Open(w.t.Context(), "acct_1", j.Generation)
		if err != nil {
			w.t.Fatalf("Open = %v", err)
		}
		defer f.Close()
		content, err := io.ReadAll(f)
		if string(content) != "film of a lighthouse, 1280x480, 3 s" || err != nil || opened.Size != int64(len(content)) {
			w.t.Errorf("the file is %q (%d), %v", content, opened.Size, err)
		}
		s := w.settlements()
		if len(s) != 1 || s[0].ID != j.ID || s[0].UnitMilli != 1500 || s[0].RequestMilli != 1500 || s[0].End != usage.EndComplete || s[0].Plan != "basic" || s[0].Tier != "free" {
			w.t.Errorf("settled with %+v, want one of 1.5", s)
		}
		if c := s[0].Cost; c == nil || *c != 3*100_000_000 || s[0].Details() != "markup=1500000 use:video_1280x480=3000" {
			w.t.Errorf("it costs %v for %q, want 3 seconds of 10 cents", c, s[0].Details())
		}
		if s[0].Margin != 150_000_000 {
			w.t.Errorf("the margin is %d, want half of the cost", s[0].Margin)
		}
		if len(w.kept()) != 1 || w.used() != 1500 {
			w.t.Errorf("%d files and %d used, want 1 and 1500", len(w.kept()), w.used())
		}
	})
}

func TestRefusedByRenderer(t *testing.T) {
	refuse := func(context.Context, io.Writer, *video.Task) error {
		return video.Refuse(video.Moderated, "the prompt is not allowed")
	}
	inWorld(t, refuse, func(w *world) {
		defer w.run(w.line)()
		j := w.await(w.create("something bad").ID, video.Failed)
		if j.Reason != video.Moderated || j.Generation != "" || j.Attempts != 1 {
			w.t.Errorf("the job is %+v, want moderation", j)
		}
		s := w.settlements()
		if len(s) != 1 || s[0].End != usage.EndFailed || s[0].UnitMilli != 0 || s[0].RequestMilli != 1500 || w.used() != 1500 || len(w.kept()) != 0 || s[0].Cost != nil || s[0].Unpriced() {
			w.t.Errorf("settled with %+v, %d used, files %q, want its requests and no units", s, w.used(), w.kept())
		}
	})
}

func TestTriedAgain(t *testing.T) {
	tries := 0
	flaky := func(ctx context.Context, w io.Writer, task *video.Task) error {
		if tries++; tries < 3 {
			_, _ = io.WriteString(w, "half a film")
			return errors.New("a bad day")
		}
		return film(ctx, w, task)
	}
	inWorld(t, flaky, func(w *world) {
		defer w.run(w.line)()
		j := w.await(w.create("a lighthouse").ID, video.Succeeded)
		if j.Attempts != 3 || len(w.kept()) != 1 || len(w.settlements()) != 1 {
			w.t.Errorf("after %d attempts there are files %q and %d settlements, want 3, one and one", j.Attempts, w.kept(), len(w.settlements()))
		}
	})
}

func TestGivenUp(t *testing.T) {
	broken := func(context.Context, io.Writer, *video.Task) error { return errors.New("a bad day") }
	inWorld(t, broken, func(w *world) {
		defer w.run(w.line)()
		j := w.await(w.create("a lighthouse").ID, video.Failed)
		if j.Reason != video.Internal || j.Attempts != 5 || w.used() != 1500 || len(w.kept()) != 0 {
			w.t.Errorf("the job is %+v, %d used, files %q, want internal_error after 5 attempts", j, w.used(), w.kept())
		}
	})
}

func TestTooLarge(t *testing.T) {
	large := func(_ context.Context, w io.Writer, _ *video.Task) error {
		for {
			if _, err := w.Write(make([]byte, 300)); err != nil {
				return fmt.Errorf("download: %w", err)
			}
		}
	}
	inWorld(t, large, func(w *world) {
		defer w.run(w.line)()
		j := w.await(w.create("a lighthouse").ID, video.Failed)
		if j.Reason != video.TooLarge || len(w.kept()) != 0 {
			w.t.Errorf("the job is %+v with files %q, want too_large and none", j, w.kept())
		}
	})
}

func TestCancel(t *testing.T) {
	var causes chan error
	inWorld(t, func(ctx context.Context, out io.Writer, task *video.Task) error {
		err := endless(ctx, out, task)
		causes <- err
		return err
	}, func(w *world) {
		causes = make(chan error, 1)
		waiting := w.create("never runs")
		j, err := w.line.Cancel(w.t.Context(), "acct_1", waiting.ID)
		s := w.settlements()
		if err != nil || j.Status != video.Cancelled || w.used() != 1500 || len(s) != 1 || s[0].RequestMilli != 1500 || s[0].UnitMilli != 0 || s[0].End != usage.EndHangUp {
			w.t.Errorf("Cancel before it ran = %+v, %v, %d used, settled with %+v, want its requests and no units", j, err, w.used(), s)
		}
		defer w.run(w.line)()
		running := w.create("runs")
		w.await(running.ID, video.Running)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p := w.find(running.ID).Progress; p != 42 {
			w.t.Errorf("the running job's progress is %d, want 42", p)
		}
		j, err = w.line.Cancel(w.t.Context(), "acct_1", running.ID)
		if err != nil || j.Status != video.Cancelled || !errors.Is(<-causes, video.ErrCancelled) {
			w.t.Errorf("Cancel = %+v, %v, want it cancelled and its renderer told", j, err)
		}
		synctest.Wait()
		s = w.settlements()
		if len(s) != 2 || s[1].End != usage.EndHangUp || s[1].UnitMilli != 1500 || s[1].RequestMilli != 1500 || w.used() != 3000 || len(w.kept()) != 0 {
			w.t.Errorf("settled with %+v, %d used, files %q, want it charged and no file", s, w.used(), w.kept())
		}
		again, err := w.line.Cancel(w.t.Context(), "acct_1", running.ID)
		if err != nil || again.Status != video.Cancelled || len(w.settlements()) != 2 {
			w.t.Errorf("Cancel again = %+v, %v, want the same", again, err)
		}
	})
}

func TestOwnersOnly(t *testing.T) {
	inWorld(t, film, func(w *world) {
		defer w.run(w.line)()
		j := w.await(w.create("a lighthouse").ID, video.Succeeded)
		ctx := w.t.Context()
		_, find := w.line.Find(ctx, "acct_2", j.ID)
		_, byGeneration := w.line.Find(ctx, "acct_1", j.Generation)
		_, cancel := w.line.Cancel(ctx, "acct_2", j.ID)
		_, _, open := w.line.Open(ctx, "acct_2", j.Generation)
		_, _, byJob := w.line.Open(ctx, "acct_1", j.ID)
		_, _, empty := w.line.Open(ctx, "acct_1", "")
		_, odd := w.line.Find(ctx, "acct_1", "job_\x00\xff")
		for name, err := range map[string]error{"Find": find, "Find by generation": byGeneration, "Cancel": cancel, "Open": open, "Open by job": byJob, "Open nothing": empty, "Find odd": odd} {
			if !fault.Is(err, fault.NotFound) {
				w.t.Errorf("%s = %v, want 404", name, err)
			}
		}
		if jobs, _, err := w.line.List(ctx, "acct_2", "", 10); err != nil || len(jobs) != 0 {
			w.t.Errorf("List of another account = %d, %v, want none", len(jobs), err)
		}
		if _, _, err := w.line.List(ctx, "acct_2", j.ID, 10); !fault.Is(err, fault.Invalid) {
			w.t.Errorf("List after another's job = %v, want 400", err)
		}
	})
}

func TestList(t *testing.T) {
	inWorld(t, film, func(w *world) {
		var want []string
		for i := range 5 {
			want = append([]string{w.create(fmt.Sprint(i)).ID}, want...)
			time.Sleep(time.Second)
		}
		var got []string
		for after, more := "", true; more; {
			jobs, next, err := w.line.List(w.t.Context(), "acct_1", after, 2)
			if err != nil {
				w.t.Fatalf("List = %v", err)
			}
			for i := range jobs {
				got = append(got, jobs[i].ID)
			}
			after, more = got[len(got)-1], next
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			w.t.Errorf("List in pages = %q, want %q", got, want)
		}
	})
}

func TestLimits(t *testing.T) {
	inWorld(t, film, func(w *world) {
		refused := func(o video.Order, says string, used int64, final bool) {
			w.t.Helper()
			_, headroom, _, err := w.line.Create(w.t.Context(), o)
			f := fault.From(err)
			if f.Kind != fault.RateLimited || !strings.Contains(f.Message, says) || f.Retryable() == final || w.used() != used || headroom.Requests.Used != used {
				w.t.Errorf("Create = %v (final %t) with %d used (standing %d), want a 429 that says %q, and %d", err, !f.Retryable(), w.used(), headroom.Requests.Used, says, used)
			}
		}
		// Basic has ten requests a minute, at 1.5 each.
		for i := range 6 {
			w.create(fmt.Sprint(i))
		}
		refused(w.order("x"), "The limit is 10 requests a minute; 9 are used and this call counts as 1.5", 9000, false)
		time.Sleep(61 * time.Second)
		for i := range 4 {
			w.create(fmt.Sprint(i))
		}
		refused(w.order("x"), "10 video jobs of this account are unfinished, and 10 is the most", 6000, false)
		w.caller.Account = &account.Account{ID: "acct_2", Plan: account.None}
		for range 2 {
			time.Sleep(61 * time.Second)
			w.create("x")
		}
		time.Sleep(61 * time.Second)
		refused(w.order("x"), "2 video jobs", 0, false)
		one := account.Limit(1)
		o := w.order("x")
		o.Limits = o.Limits.Over(account.Overrides{RequestsPerMinute: &one})
		refused(o, "counts as 1.5 requests and the whole allowance is 1 a minute, so it can never pass. Choose a smaller size, or a higher plan.", 0, true)
		w.caller.Account = &account.Account{ID: "acct_2", Plan: account.None, Overrides: account.Overrides{RequestsPerMinute: &one}}
		o.Caller = w.caller
		refused(o, "so it can never pass. Choose a smaller size.", 0, true)
		w.caller.Account = &account.Account{ID: "acct_2", Plan: account.None}

		w.settings.Tier = account.Premium
		w.line.Apply(w.settings)
		if _, _, _, err := w.line.Create(w.t.Context(), w.order("x")); !fault.Is(err, fault.PaymentRequired) {
			w.t.Errorf("Create without a plan = %v, want 402", err)
		}
		w.caller.Account = &account.Account{ID: "acct_3", Plan: account.Basic}
		if _, _, _, err := w.line.Create(w.t.Context(), w.order("x")); !fault.Is(err, fault.PlanTooLow) {
			w.t.Errorf("Create on a low plan = %v, want 403", err)
		}
	})
}

func TestRepeat(t *testing.T) {
	inWorld(t, film, func(w *world) {
		o := w.order("a lighthouse")
		o.Repeat, o.Body = []byte("key"), []byte("body")
		first, _, repeated, err := w.line.Create(w.t.Context(), o)
		if err != nil || repeated {
			w.t.Fatalf("Create = %t, %v", repeated, err)
		}
		stop := w.run(w.line)
		w.await(first.ID, video.Succeeded)
		stop()
		again, headroom, repeated, err := w.line.Create(w.t.Context(), o)
		if err != nil || !repeated || again.ID != first.ID || again.Status != video.Queued || !again.ExpiresAt.Equal(first.ExpiresAt) || again.Prompt != first.Prompt {
			w.t.Errorf("Create again = %+v, %t, %v, want what the first was told, %+v", again, repeated, err, first)
		}
		if w.used() != 2500 || headroom.Requests.Used != 2500 {
			w.t.Errorf("%d are used behind a repeat, want one request more", w.used())
		}
		o.Body = []byte("another")
		if _, _, _, err := w.line.Create(w.t.Context(), o); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "Idempotency-Key" {
			w.t.Errorf("Create with another body = %v, want a 400 at Idempotency-Key", err)
		}
		if w.used() != 2500 {
			w.t.Errorf("%d are used behind a refusal, want nothing more", w.used())
		}
		o.Body = []byte("body")
		for range 7 {
			if _, _, _, err := w.line.Create(w.t.Context(), o); err != nil {
				w.t.Errorf("Create again = %v", err)
			}
		}
		if _, _, _, err := w.line.Create(w.t.Context(), o); !fault.Is(err, fault.RateLimited) || w.used() != 9500 {
			w.t.Errorf("Create again beyond the allowance = %v with %d used, want 429", err, w.used())
		}
	})
}
