// Package vendortest is the conformance suite for video vendors. It runs each of them against a
// fake server that behaves as the vendor's documentation says.
package vendortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/video"
)

// Key is the key that vendors are called with. It must never appear anywhere else, such as in an
// error.
const Key = "key-canary-0123456789"

// Wire describes the API of one vendor.
type Wire struct {
	New func(baseURL, key string) (video.Vendor, error)
	// Prefix is what all paths begin with. Begin, Look, File and Drop are the method and path of
	// each operation. Drop is empty for a vendor that cannot drop a job.
	Prefix, Begin, Look, File, Drop string
	// Others are further operations, with their replies. May be nil.
	Others map[string]string
	// Check returns what is wrong with a request that submits Task. Credential does so for the
	// credentials of any request.
	Check      func(r *http.Request, body []byte) error
	Credential func(r *http.Request) error
	// Begun, Running and Done are replies for a job in that state. Filtered and Broken are replies
	// for jobs that failed.
	Begun, Running, Done, Filtered, Broken string
	// Refused is the reply, with status 400, to a prompt that is refused by moderation at once.
	// Unfit is the reply to a request that the vendor cannot fulfill.
	Refused, Unfit string
}

// Task returns the task that the suite submits.
func Task() *video.Task {
	return &video.Task{Prompt: "a lighthouse at dusk, \"quoted\" · 灯台", Width: 720, Height: 1280, Seconds: 4}
}

// film is the file that the fake sends.
var film = bytes.Repeat([]byte("film "), 50_000)

// fake is a vendor's server.
type fake struct {
	t      *testing.T
	wire   *Wire
	server *httptest.Server

	// The numbers of requests of each kind.
	begun, looks, drops atomic.Int32
	// These hooks run first. If a hook reports true, it has written the reply.
	onBegin, onLook, onFile atomic.Pointer[hook]
}

// hook writes a reply, or reports false to leave that to the fake.
type hook func(w http.ResponseWriter, r *http.Request) bool

// runs reports whether the hook wrote the reply. The hook may be nil.
func runs(at *atomic.Pointer[hook], w http.ResponseWriter, r *http.Request) bool {
	h := at.Load()
	return h != nil && (*h)(w, r)
}

// start starts a fake. It checks the credentials of every request.
func start(t *testing.T, w *Wire) *fake {
	t.Helper()
	f := &fake{t: t, wire: w}
	mux := http.NewServeMux()
	mux.HandleFunc(at(w.Begin, w.Prefix), f.begin)
	mux.HandleFunc(at(w.Look, w.Prefix), f.look)
	mux.HandleFunc(at(w.File, w.Prefix), f.file)
	for operation, reply := range w.Others {
		mux.HandleFunc(at(operation, w.Prefix), func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, reply) })
	}
	if w.Drop != "" {
		mux.HandleFunc(at(w.Drop, w.Prefix), func(http.ResponseWriter, *http.Request) { f.drops.Add(1) })
	}
	f.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := w.Credential(r); err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		rw.Header().Set("Content-Type", "application/json")
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// at inserts the prefix between the method and the path of an operation.
func at(operation, prefix string) string { return strings.Replace(operation, " ", " "+prefix, 1) }

// begin checks the request and replies with Begun.
func (f *fake) begin(w http.ResponseWriter, r *http.Request) {
	f.begun.Add(1)
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = f.wire.Check(r, body)
	}
	if err != nil {
		f.t.Errorf("the request that begins: %v", err)
	}
	if !runs(&f.onBegin, w, r) {
		io.WriteString(w, f.wire.Begun)
	}
}

// look replies with Running to the first two polls and then with Done.
func (f *fake) look(w http.ResponseWriter, r *http.Request) {
	n := f.looks.Add(1)
	switch {
	case runs(&f.onLook, w, r):
	case n < 3:
		io.WriteString(w, f.wire.Running)
	default:
		io.WriteString(w, f.done())
	}
}

// done returns the reply for a finished job. BASE in it stands for the fake's own URL.
func (f *fake) done() string {
	return strings.ReplaceAll(f.wire.Done, "BASE", f.server.URL+f.wire.Prefix)
}

// file sends the film.
func (f *fake) file(w http.ResponseWriter, r *http.Request) {
	if !runs(&f.onFile, w, r) {
		w.Header().Set("Content-Type", "video/mp4")
		w.Write(film)
	}
}

// outcome is the result of one Render.
type outcome struct {
	film     bytes.Buffer
	err      error
	upstream []string // ids passed to Task.Begun
	progress []int
}

// render runs the task through video.Remote. An upstream id continues an earlier attempt.
func (f *fake) render(ctx context.Context, upstream string) *outcome {
	f.t.Helper()
	v, err := f.wire.New(f.server.URL+f.wire.Prefix, Key)
	if err != nil {
		f.t.Fatalf("New = %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var o outcome
	task := Task()
	task.Upstream = upstream
	task.Begun = func(_ context.Context, id string) error {
		o.upstream = append(o.upstream, id)
		return nil
	}
	task.Progress = func(percent int) { o.progress = append(o.progress, percent) }
	o.err = video.Remote(v, 5*time.Millisecond).Render(ctx, &o.film, task)
	if o.err != nil && strings.Contains(o.err.Error(), Key) {
		f.t.Errorf("an error tells the key: %v", o.err)
	}
	return &o
}

// reply returns a hook that sends a status and a body.
func reply(status int, body string) *hook {
	return does(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	})
}

// does returns a pointer to a hook.
func does(h hook) *hook { return &h }

// Run runs the suite.
func Run(t *testing.T, w *Wire) {
	for name, test := range map[string]func(*testing.T, *fake){
		"Succeeds":         succeeds,
		"GoesOn":           goesOn,
		"RefusedAtOnce":    refusedAtOnce,
		"UnfitAtOnce":      unfitAtOnce,
		"Filtered":         filtered,
		"Broken":           broken,
		"Vanished":         vanished,
		"FileGone":         fileGone,
		"BusyAtFirst":      busyAtFirst,
		"TroubleOnTheWay":  troubleOnTheWay,
		"UnclearBeginning": unclearBeginning,
		"WrongKey":         wrongKey,
		"NoVideo":          noVideo,
		"SentElsewhere":    sentElsewhere,
		"TooLong":          tooLong,
		"Cancelled":        cancelled,
		"Unreachable":      unreachable,
		"OddID":            oddID,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, w))
		})
	}
}

// reason returns the reason of a refusal, or an empty string for any other error.
func reason(err error) video.Reason {
	if r, ok := errors.AsType[*video.Refusal](err); ok {
		return r.Reason
	}
	return ""
}

// succeeds checks the usual course: begin once, poll three times, store the id, fetch.
func succeeds(t *testing.T, f *fake) {
	o := f.render(t.Context(), "")
	if o.err != nil || !bytes.Equal(o.film.Bytes(), film) || f.begun.Load() != 1 || f.looks.Load() != 3 || len(o.upstream) != 1 || len(o.progress) != 2 {
		t.Errorf("Render = %v with %d bytes, begun %d times, looked %d, kept %q, progress %v; want the film", o.err, o.film.Len(), f.begun.Load(), f.looks.Load(), o.upstream, o.progress)
	}
}

// goesOn checks that an attempt continues the job of an earlier one that died, and does not pay for
// another.
func goesOn(t *testing.T, f *fake) {
	ctx, stop := context.WithCancel(t.Context())
	f.onLook.Store(does(func(http.ResponseWriter, *http.Request) bool { stop(); return false }))
	first := f.render(ctx, "")
	if first.err == nil || len(first.upstream) != 1 || f.drops.Load() != 0 {
		t.Fatalf("an attempt that is stopped = %v, kept %q, dropped %d; want its id kept and the job left alone", first.err, first.upstream, f.drops.Load())
	}
	f.onLook.Store(nil)
	f.looks.Store(2)
	o := f.render(t.Context(), first.upstream[0])
	if o.err != nil || !bytes.Equal(o.film.Bytes(), film) || f.begun.Load() != 1 || len(o.upstream) != 0 {
		t.Errorf("the next attempt = %v with %d bytes, begun %d times in all; want the film, and nothing begun anew", o.err, o.film.Len(), f.begun.Load())
	}
}

// refusedAtOnce checks that a prompt refused by moderation is not retried.
func refusedAtOnce(t *testing.T, f *fake) {
	f.onBegin.Store(reply(400, f.wire.Refused))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Moderated || f.begun.Load() != 1 {
		t.Errorf("Render = %v after %d beginnings, want moderation at once", o.err, f.begun.Load())
	}
}

// unfitAtOnce checks that a request that the vendor cannot fulfill is rejected.
func unfitAtOnce(t *testing.T, f *fake) {
	f.onBegin.Store(reply(400, f.wire.Unfit))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Rejected {
		t.Errorf("Render = %v, want it rejected", o.err)
	}
}

// filtered checks that a job whose video was filtered is reported as moderation.
func filtered(t *testing.T, f *fake) {
	f.onLook.Store(reply(200, f.wire.Filtered))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Moderated || len(o.upstream) != 1 {
		t.Errorf("Render = %v, want moderation", o.err)
	}
}

// broken checks that a job that failed at the vendor is reported as the vendor's error.
func broken(t *testing.T, f *fake) {
	f.onLook.Store(reply(200, f.wire.Broken))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Provider {
		t.Errorf("Render = %v, want the provider's error", o.err)
	}
}

// vanished checks that a job that the vendor no longer has is reported as expired.
func vanished(t *testing.T, f *fake) {
	f.onLook.Store(reply(404, `{"error":{"message":"not found"}}`))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Expired {
		t.Errorf("Render = %v, want it expired", o.err)
	}
}

// fileGone checks the same for its file.
func fileGone(t *testing.T, f *fake) {
	f.looks.Store(2)
	f.onFile.Store(reply(410, `{"error":{"message":"gone"}}`))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Expired {
		t.Errorf("Render = %v, want it expired", o.err)
	}
}

// busyAtFirst checks that a 429 is retried after the time in Retry-After.
func busyAtFirst(t *testing.T, f *fake) {
	f.looks.Store(2)
	f.onBegin.Store(does(func(w http.ResponseWriter, r *http.Request) bool {
		if f.begun.Load() > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		return (*reply(429, `{"error":{"message":"slow down"}}`))(w, r)
	}))
	if o := f.render(t.Context(), ""); o.err != nil || f.begun.Load() != 2 {
		t.Errorf("Render = %v after %d beginnings, want the film after 2", o.err, f.begun.Load())
	}
}

// troubleOnTheWay checks that an error while polling does not end the job.
func troubleOnTheWay(t *testing.T, f *fake) {
	f.onLook.Store(does(func(w http.ResponseWriter, r *http.Request) bool {
		return f.looks.Load() == 1 && (*reply(502, `bad gateway `+Key))(w, r)
	}))
	if o := f.render(t.Context(), ""); o.err != nil || f.begun.Load() != 1 {
		t.Errorf("Render = %v after %d beginnings, want the film after one", o.err, f.begun.Load())
	}
}

// unclearBeginning checks that a task is not submitted again if the vendor may have accepted it: it
// must not be paid for twice.
func unclearBeginning(t *testing.T, f *fake) {
	f.onBegin.Store(reply(500, `{"error":{"message":"broken `+Key+`"}}`))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Provider || f.begun.Load() != 1 {
		t.Errorf("Render = %v after %d beginnings, want it given up after one", o.err, f.begun.Load())
	}
	f.onBegin.Store(does(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }))
	if o := f.render(t.Context(), ""); reason(o.err) != video.Provider || f.begun.Load() != 2 {
		t.Errorf("Render after a cut connection = %v after %d beginnings, want it given up after one more", o.err, f.begun.Load())
	}
}

// wrongKey checks that an error of our own configuration is temporary: the operator can fix it.
func wrongKey(t *testing.T, f *fake) {
	f.onBegin.Store(reply(401, `{"error":{"message":"wrong key `+Key+`","code":"invalid_api_key"}}`))
	if o := f.render(t.Context(), ""); o.err == nil || reason(o.err) != "" {
		t.Errorf("Render = %v, want an error that may pass", o.err)
	}
}

// noVideo checks that a reply of another type is not taken for a video.
func noVideo(t *testing.T, f *fake) {
	for _, kind := range []string{"text/html", ""} {
		f.looks.Store(2)
		f.onFile.Store(does(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", kind)
			w.Write([]byte("<html>"))
			return true
		}))
		if o := f.render(t.Context(), ""); o.err == nil || reason(o.err) != "" || o.film.Len() != 0 {
			t.Errorf("Render of %q = %v with %d bytes, want an error", kind, o.err, o.film.Len())
		}
	}
}

// sentElsewhere checks that a redirect to an address that is not public is not followed.
func sentElsewhere(t *testing.T, f *fake) {
	var hits atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inside.Close()
	f.looks.Store(2)
	f.onFile.Store(does(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, inside.URL+"/secret", http.StatusFound)
		return true
	}))
	if o := f.render(t.Context(), ""); o.err == nil || hits.Load() != 0 {
		t.Errorf("Render = %v with %d requests to an inner address, want an error and none", o.err, hits.Load())
	}
}

// tooLong checks that an overlong reply is an error.
func tooLong(t *testing.T, f *fake) {
	f.onLook.Store(reply(200, `{"x":"`+strings.Repeat("x", 2<<20)+`"}`))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if o := f.render(ctx, ""); o.err == nil {
		t.Error("Render of an endless answer = nil, want an error")
	}
}

// cancelled checks that a canceled job is dropped at the vendor.
func cancelled(t *testing.T, f *fake) {
	ctx, stop := context.WithCancelCause(t.Context())
	f.onLook.Store(does(func(http.ResponseWriter, *http.Request) bool { stop(video.ErrCancelled); return false }))
	o := f.render(ctx, "")
	want := int32(1)
	if f.wire.Drop == "" {
		want = 0
	}
	if o.err == nil || f.drops.Load() != want {
		t.Errorf("Render = %v with %d drops, want an error and %d", o.err, f.drops.Load(), want)
	}
}

// unreachable checks that a vendor that does not answer is a temporary error.
func unreachable(t *testing.T, f *fake) {
	f.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if o := f.render(ctx, ""); o.err == nil || reason(o.err) != "" || strings.Contains(fmt.Sprint(o.err), Key) {
		t.Errorf("Render = %v, want an error that may pass", o.err)
	}
}

// oddID checks that an id that would change the path of a request is refused.
func oddID(t *testing.T, f *fake) {
	f.onBegin.Store(reply(200, `{"id":"../../admin?x=","name":"../../admin?x="}`))
	if o := f.render(t.Context(), ""); o.err == nil || len(o.upstream) != 0 || f.looks.Load() != 0 {
		t.Errorf("Render = %v, kept %q, want an error and nothing kept", o.err, o.upstream)
	}
}
