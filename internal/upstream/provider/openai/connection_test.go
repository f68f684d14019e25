package openai_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// serve starts an upstream, and counts the connections that are made to it.
func serve(t *testing.T, h http.HandlerFunc) (a *openai.Adapter, connections *atomic.Int32) {
	t.Helper()
	connections = &atomic.Int32{}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	a, err := openai.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, connections
}

// readAll reads a stream to its end and closes it.
func readAll(t *testing.T, in provider.Stream) {
	t.Helper()
	for {
		if _, err := in.Next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("Next() = %v, want EOF", err)
			}
			break
		}
	}
	if err := in.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

const someChunks = "data: {\"choices\":[]}\n\ndata: {\"choices\":[]}\n\n"

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	for name, tt := range map[string]struct {
		ask     string
		handler http.HandlerFunc
		late    bool // the end comes only after the stream was closed
	}{
		"streams": {ask: streamed, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", eventStream)
			_, _ = io.WriteString(w, someChunks+"data: [DONE]\n\n")
		}},
		"streams whose end comes late": {ask: streamed, late: true, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", eventStream)
			_, _ = io.WriteString(w, someChunks+"data: [DONE]\n\n")
			_ = http.NewResponseController(w).Flush()
			<-closed
		}},
		"streams without a mark": {ask: streamed, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", eventStream)
			_, _ = io.WriteString(w, someChunks)
		}},
		"replies": {ask: plain, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", jsonBody)
			_, _ = io.WriteString(w, `{}`)
		}},
		"replies of unknown length": {ask: plain, handler: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, `{}`)
		}},
	} {
		a, connections := serve(t, tt.handler)
		for range 20 {
			in, err := a.Open(t.Context(), ask(t, tt.ask))
			if err != nil {
				t.Fatalf("%s: Open = %v", name, err)
			}
			readAll(t, in)
			if tt.late {
				closed <- struct{}{}
			}
			a.Wait()
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%s: 20 calls made %d connections, want one", name, n)
		}
	}
}

// An upstream that does not end its stream after the mark costs its connection, and the caller nothing.
func TestEndThatNeverComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var body silent
		a := adapter(t, openai.Options{}, func(r *http.Request) (*http.Response, error) {
			body = silent{r.Context(), strings.NewReader("data: [DONE]\n\n")}
			return providertest.Answer(eventStream, &body), nil
		})
		in, err := a.Open(t.Context(), ask(t, streamed))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		readAll(t, in)
		if took := time.Since(start); took > 0 {
			t.Errorf("the caller waited %v for an end that does not come", took)
		}
		a.Wait()
		if took := time.Since(start); took != time.Second || body.ctx.Err() == nil {
			t.Errorf("the end was awaited for %v and the call canceled: %v, want a second, and that it is", took, body.ctx.Err())
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var requests atomic.Int32
		a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			http.Redirect(w, r, "/elsewhere", status)
		})
		if in, err := a.Open(t.Context(), ask(t, plain)); err == nil {
			in.Close()
			t.Errorf("Open with status %d succeeds, want a fault", status)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("status %d: %d requests, want 1", status, n)
		}
	}
}

func TestStreamThatIsLeftIsCanceled(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", eventStream)
		control := http.NewResponseController(w)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, someChunks)
			_ = control.Flush()
		}
		close(gone)
	})
	in, err := a.Open(context.WithoutCancel(t.Context()), ask(t, streamed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Next(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the upstream still writes after Close")
	}
}
