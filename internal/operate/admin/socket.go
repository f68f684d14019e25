// Package admin is the operators' API: JSON over HTTP on a unix socket in the data folder, and
// its client.
//
// An operation is an Op: a named function of one argument; routes.go lists all of them. The socket
// belongs to the owner of the data folder, and that is the only authentication. If no server is
// running, the same client calls the same operations inside its own process. Staff call them through
// a Service: over HTTP with a token, or in the console.
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
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
)

// Socket is the name of the socket in the data folder.
const Socket = "admin.sock"

// maxMessage limits an argument or a result, in bytes.
const maxMessage = 16 << 20

// problem is a fault as it is sent over the socket. The kind is sent by name, because the
// other program may be another version with other numbers.
type problem struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
}

// Handler serves the operations at POST /{name}, and profiles below /debug/.
func Handler(b *Backend) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.serveDebug(w, r) {
			return
		}
		out, err := serve(b, r)
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			f := openly(err).(*fault.Fault)
			out = problem{Type: f.Kind.String(), Message: f.Message, Param: f.Param}
			w.WriteHeader(f.Kind.Status())
		}
		_ = json.NewEncoder(w).Encode(out) // an error means that the client disconnected
	})
}

// serve runs the operation that the request names.
func serve(b *Backend, r *http.Request) (any, error) {
	op := named(strings.TrimPrefix(r.URL.Path, "/"))
	if op == nil || r.Method != http.MethodPost {
		return nil, fault.New(fault.NotFound, "there is no operation %s %s", r.Method, r.URL.Path)
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	if err != nil {
		return nil, err
	}
	return op.handle(r.Context(), b, nil, raw)
}

// openly returns an error as operators see it, a *fault.Fault or nil. Unlike the API it reveals the cause of our own
// failures: operators may read it, and can do something about it.
func openly(err error) error {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	message := f.Message
	if cause := f.Unwrap(); cause != nil && (f.Kind == fault.Internal || f.Kind == fault.Unavailable) {
		message = cause.Error()
		if f.Kind == fault.Unavailable {
			message = f.Message + " (" + message + ")" // the message names what is away, which the cause may not
		}
	}
	return fault.New(f.Kind, "%s", message).At(f.Param)
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

// Client calls the operations of a server or of its own process. One of the fields below Actor is not nil.
type Client struct {
	// Actor is who calls, for the audit log. If it is empty, arguments are sent as they are.
	Actor string

	socket  *http.Transport
	remote  *remote  // the admin API of a server somewhere else
	backend *Backend // operations run in this process
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
	return &Client{socket: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, nil
}

// InProcess returns a client of operations that run in this process.
func InProcess(b *Backend) *Client { return &Client{backend: b} }

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
	case Ops().StatusShow.Name:
		patience = StatusPatience
	case Ops().AuditRun.Name, Ops().JournalParts.Name, Ops().WhatIfRun.Name, Ops().ReconcileRun.Name:
		patience = longPatience
		if _, err := Ops().StatusShow.Call(ctx, c, Empty{}); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	return ctx, cancel, nil
}

// Call runs an operation by its name and decodes its result into out, as every program can that writes JSON. Programs of
// this repository call an Op, which knows the types.
func (c *Client) Call(ctx context.Context, name string, in, out any) error {
	if c.remote != nil {
		return c.remote.call(ctx, name, in, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if c.backend != nil {
		return c.here(ctx, name, body, out)
	}
	ctx, cancel, err := c.within(ctx, name)
	if err != nil {
		return err
	}
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sluice/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return exchange(c.socket.RoundTrip, req, out, func(status int, raw []byte) error {
		var p problem
		if err := json.Unmarshal(raw, &p); err != nil || p.Message == "" {
			return fmt.Errorf("the server answered with status %d", status)
		}
		return fault.New(fault.Named(p.Type, status), "%s", p.Message).At(p.Param)
	})
}

// exchange sends a request and decodes the result of the operation. refused returns the error in a reply with another
// status than 200.
func exchange(send func(*http.Request) (*http.Response, error), req *http.Request, out any, refused func(status int, raw []byte) error) error {
	resp, err := send(req)
	if err != nil {
		return fmt.Errorf("the server did not answer: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return fmt.Errorf("the server's answer broke off: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(resp.StatusCode, raw)
	}
	return json.Unmarshal(raw, out)
}

// here runs an operation in this process.
func (c *Client) here(ctx context.Context, name string, body []byte, out any) error {
	op := named(name)
	if op == nil {
		return fault.New(fault.NotFound, "there is no operation POST /%s", name)
	}
	result, err := op.handle(ctx, c.backend, nil, body)
	if err != nil {
		return openly(err)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

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
