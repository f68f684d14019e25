// Package admin is the operators' API: JSON over HTTP on a unix socket in the data folder, and
// its client.
//
// An operation is a named function from one JSON value to another; routes.go lists all of
// them. The socket belongs to the owner of the data folder, and that is the only
// authentication. If no server is running, the same client calls the same operations inside
// its own process. Staff call them through a Service: over HTTP with a token, or in the console.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
)

// Socket is the name of the socket in the data folder.
const Socket = "admin.sock"

// maxMessage limits an argument or a result, in bytes.
const maxMessage = 16 << 20

// rawJSON is a result that is JSON already.
type rawJSON []byte

func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// operation takes one JSON value and returns the value to encode.
type operation func(ctx context.Context, in []byte) (any, error)

// op turns a function of a context and an argument, which returns a result and an error, into an operation. Unknown
// fields in the argument are errors: they come from a client of another version, and ignoring them would do something
// else than the operator asked.
//
// It is not generic: the compiled copies of such a function for each operation took a hundred kilobytes of the program.
func op(run reflect.Value) operation {
	return func(ctx context.Context, raw []byte) (any, error) {
		in := reflect.New(run.Type().In(1))
		if err := decode(raw, in.Interface()); err != nil {
			return nil, err
		}
		out := run.Call([]reflect.Value{reflect.ValueOf(ctx), in.Elem()})
		err, _ := out[1].Interface().(error)
		return out[0].Interface(), err
	}
}

// decode reads the argument of an operation.
func decode(raw []byte, in any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(in); err != nil {
		return fault.New(fault.Invalid, "the argument cannot be read: %v", err)
	}
	return nil
}

// problem is a fault as it is sent over the socket. The kind is sent by name, because the
// other program may be another version with other numbers.
type problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
}

// Handler serves the operations at POST /{name}, and profiles below /debug/. Unlike the API it reveals the cause of
// internal errors.
func Handler(b *Backend) http.Handler {
	ops := map[string]operation{}
	for _, r := range b.routes() {
		ops[r.Name] = r.run
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.serveDebug(w, r) {
			return
		}
		out, err := serve(ops, r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			f := fault.From(err)
			msg := f.Message
			// The API hides the cause of its own failures.
			if cause := f.Unwrap(); cause != nil && (f.Kind == fault.Internal || f.Kind == fault.Unavailable) {
				msg = cause.Error() // operators may read it, and can do something about it
				if f.Kind == fault.Unavailable {
					msg = f.Message + " (" + msg + ")" // the message names what is away, which the cause may not
				}
			}
			out = problem{Type: f.Kind.String(), Message: msg, Param: f.Param}
			w.WriteHeader(f.Kind.Status())
		}
		_ = json.NewEncoder(w).Encode(out) // an error means that the client disconnected
	})
}

// serve runs the operation that the request names.
func serve(ops map[string]operation, r *http.Request) (any, error) {
	run := ops[strings.TrimPrefix(r.URL.Path, "/")]
	if run == nil || r.Method != http.MethodPost {
		return nil, fault.New(fault.NotFound, "there is no operation %s %s", r.Method, r.URL.Path)
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	if err != nil {
		return nil, err
	}
	return run(r.Context(), raw)
}

// Listen opens the socket in a folder that this process has locked. It may therefore remove a
// socket that a crashed server left behind.
func Listen(dir string) (net.Listener, error) {
	addr, done, err := socketAddr(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	path := filepath.Join(dir, Socket)
	// A crashed server leaves its socket behind, and Listen would fail on it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old admin socket: %w", err)
	}
	l, err := net.Listen("unix", addr)
	if err != nil {
		return nil, fmt.Errorf("open the admin socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the address may be an alias that is no longer valid then
	// Only the owner may connect, also if the umask was wider.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("protect the admin socket: %w", err)
	}
	return l, nil
}

// Client calls the operations of a server or of its own process.
type Client struct {
	transport http.RoundTripper
	remote    *remote // not nil: the admin API of a server somewhere else, and transport is nil
}

// Dial returns a client of the server that uses the folder. It returns an error if none is
// running.
func Dial(ctx context.Context, dir string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		addr, done, err := socketAddr(dir)
		if err != nil {
			return nil, err
		}
		defer done()
		d := net.Dialer{Timeout: StatusPatience} // a full queue of connections would wait
		return d.DialContext(ctx, "unix", addr)
	}
	// Connect once now, so that the caller learns whether a server is running. A socket file
	// alone proves nothing: a crashed server leaves it behind.
	probe, err := dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	probe.Close()
	// A client makes one or two calls and is dropped. Kept-alive connections would never be
	// closed.
	return &Client{transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, nil
}

// InProcess returns a client of operations that run in this process. They pass through the
// same JSON, so that both ways behave alike.
func InProcess(b *Backend) *Client { return &Client{transport: direct{Handler(b)}} }

const (
	// StatusPatience is how long a server may take to say how it is, which it does without waiting for anything.
	StatusPatience = 10 * time.Second
	// callPatience is how long other operations may take. A database that does not answer ends them earlier.
	callPatience = 2 * time.Minute
	// longPatience is for those that read everything.
	longPatience = 24 * time.Hour
)

// within returns a context for an operation. A process that was stopped accepts connections and never answers, so one
// that may take long is begun only if the server answers at all.
func (c *Client) within(ctx context.Context, name string) (context.Context, context.CancelFunc, error) {
	patience := callPatience
	switch name {
	case "status":
		patience = StatusPatience
	case "audit", "journal.parts":
		patience = longPatience
		var st Status
		if err := c.Call(ctx, "status", Empty{}, &st); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	return ctx, cancel, nil
}

// Call runs an operation and decodes its result into out. An error of the operation is
// returned as a *fault.Fault.
func (c *Client) Call(ctx context.Context, name string, in, out any) error {
	if c.remote != nil {
		return c.remote.call(ctx, name, in, out)
	}
	if _, running := c.transport.(*http.Transport); running {
		bounded, cancel, err := c.within(ctx, name)
		if err != nil {
			return err
		}
		defer cancel()
		ctx = bounded
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sluice/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("the server did not answer: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return fmt.Errorf("the server's answer broke off: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var p problem
		if err := json.Unmarshal(raw, &p); err != nil || p.Message == "" {
			return fmt.Errorf("the server answered with status %d", resp.StatusCode)
		}
		return fault.New(fault.Named(p.Type, resp.StatusCode), "%s", p.Message).At(p.Param)
	}
	return json.Unmarshal(raw, out)
}

// direct is an http.RoundTripper that calls a handler instead of the network.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	d.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}, nil
}

// recorder is the ResponseWriter of direct. It keeps the reply in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

// socketAddr returns the address of the socket. The kernel allows only about 100 bytes, so for
// a longer path it returns one through a descriptor of the open folder. The caller calls done
// when it has used the address.
func socketAddr(dir string) (addr string, done func(), err error) {
	const most = 100
	if addr = filepath.Join(dir, Socket); len(addr) <= most {
		return addr, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) + "/" + Socket, func() { f.Close() }, nil
}
