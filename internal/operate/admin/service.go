package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"sluice/internal/account"
	"sluice/internal/account/staff"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/turnstile"
)

// maxBody limits the body of a request to the admin API, in bytes.
const maxBody = 64 << 10

// Service runs operations for members of staff: Op.Run for the console, Handler for the admin API.
type Service struct {
	backend *Backend
	reads   *turnstile.Gate
	log     *slog.Logger
}

// NewService returns a service of the operations. reads bounds how many requests of one member to the admin API run at
// once; it may be nil. log gets the causes of failures that callers are not told.
func NewService(b *Backend, reads *turnstile.Gate, log *slog.Logger) *Service {
	return &Service{backend: b, reads: reads, log: log}
}

// Handler serves the admin API below Base. Every request needs a staff token, whatever its path, so that strangers
// learn nothing.
func (s *Service) Handler(roster *staff.Roster) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(c *Caller, w http.ResponseWriter, r *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c, err := authenticate(r, roster)
			if err == nil {
				err = s.inTurn(c, w, r, serve)
			}
			if err != nil {
				s.refuse(w, r, err)
			}
		})
	}
	for _, route := range Ops().routes {
		if route.Path != "" {
			handle(route.Method+" "+Base+route.Path, func(c *Caller, w http.ResponseWriter, r *http.Request) error {
				return s.serve(route, c, w, r)
			})
		}
	}
	description := sync.OnceValue(describe)
	handle("GET "+Base+"/openapi.json", func(_ *Caller, w http.ResponseWriter, r *http.Request) error {
		return reply(w, r, description())
	})
	handle("/", func(_ *Caller, _ http.ResponseWriter, r *http.Request) error {
		return fault.New(fault.NotFound, "There is no operation %s %s. They are described at %s/openapi.json.", excerpt.Of(r.Method, 20), excerpt.Of(r.URL.Path, 100), Base)
	})
	return mux
}

// inTurn serves a request of a member when its turn has come.
func (s *Service) inTurn(c *Caller, w http.ResponseWriter, r *http.Request, serve func(c *Caller, w http.ResponseWriter, r *http.Request) error) error {
	leave, err := s.reads.Enter(r.Context(), c.AccountID)
	if err != nil {
		return err
	}
	defer leave()
	return serve(c, w, r)
}

// authenticate returns the member whose token a request has.
func authenticate(r *http.Request, roster *staff.Roster) (*Caller, error) {
	raw, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t, a, err := roster.Authenticate(r.Context(), raw)
	if err != nil {
		return nil, err
	}
	return &Caller{Actor: Actor(a) + " token " + t.ID, AccountID: a.ID, Token: t}, nil
}

// Actor names a member of staff in the audit log.
func Actor(a *account.Account) string { return "staff:" + a.Email }

// serve runs an operation for a request to the admin API.
func (s *Service) serve(route *Route, c *Caller, w http.ResponseWriter, r *http.Request) error {
	// Before the body is read: who may not call it learns nothing about its argument.
	if err := c.mayCall(route); err != nil {
		return err
	}
	raw, err := route.argument(r)
	if err != nil {
		return err
	}
	result, err := route.handle(r.Context(), s.backend, c, raw)
	if err != nil {
		return err
	}
	body, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return reply(w, r, append(body, '\n'))
}

// argument returns the argument of a request as JSON, with fields from the path, and from the query of a GET or the body
// of another method. Who acts is known by the token.
func (r *Route) argument(req *http.Request) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if r.Method == http.MethodGet {
		if len(req.URL.RawQuery) > maxBody {
			return nil, fault.New(fault.TooLarge, "The query is longer than %d KiB.", maxBody>>10)
		}
		for name, values := range req.URL.Query() {
			f, ok := r.field(name)
			if !ok {
				return nil, fault.New(fault.Invalid, "there is no parameter %q", excerpt.Of(name, 60)).At(excerpt.Of(name, 60))
			}
			value, err := queryValue(f, values[0])
			if err != nil {
				return nil, fault.New(fault.Invalid, "%v", err).At(name)
			}
			fields[name] = value
		}
	} else {
		body, err := io.ReadAll(http.MaxBytesReader(nil, req.Body, maxBody))
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, fault.New(fault.TooLarge, "The body is larger than %d KiB, the maximum size.", maxBody>>10)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "The body was cut off before its end.").Because(err)
		}
		if len(bytes.TrimSpace(body)) > 0 {
			if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
				return nil, fault.New(fault.Invalid, "The body must be a JSON object.")
			}
		}
		// Exact names only: the decoder would take other spellings of a field, also of one that is in the path.
		for name := range fields {
			if _, ok := r.field(name); !ok && name != "actor" {
				return nil, fault.New(fault.Invalid, "there is no field %q", excerpt.Of(name, 60)).At(excerpt.Of(name, 60))
			}
		}
	}
	for _, name := range r.pathFields() {
		fields[name] = quoted(req.PathValue(name))
	}
	delete(fields, "actor")
	return json.Marshal(fields)
}

// pathFields returns the names of the fields that are in the path.
func (r *Route) pathFields() (names []string) {
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// fields returns the fields of a struct that JSON has, with those of embedded structs, by name and in order.
func fieldsOf(t reflect.Type) (names []string, fields map[string]reflect.StructField) {
	fields = map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		if _, twice := fields[name]; !twice {
			names = append(names, name)
		}
		fields[name] = f
	}
	return names, fields
}

// field returns a field of the argument by its name in JSON.
func (r *Route) field(name string) (reflect.StructField, bool) {
	_, fields := fieldsOf(r.in)
	f, ok := fields[name]
	return f, ok && name != "actor"
}

// queryValue turns a text of the query into JSON of the field's type.
func queryValue(f reflect.StructField, text string) (json.RawMessage, error) {
	switch f.Type.Kind() {
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return nil, errors.New("a whole number is expected")
		}
		return json.RawMessage(text), nil
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("true or false is expected")
		}
		return json.RawMessage(text), nil
	}
	return quoted(text), nil
}

// quoted returns a text as JSON.
func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a text always encodes
	return raw
}

// reply writes a result.
func reply(w http.ResponseWriter, r *http.Request, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store") // keys and personal data
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client disconnected
	}
	return nil
}

// refuse replies with the error object of the API. The cause of our own failures is logged.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	if f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		s.log.Error("an admin operation failed", "path", r.URL.Path, "request_id", w.Header().Get("X-Request-Id"), "error", err.Error())
	}
	h := w.Header()
	if f.Kind == fault.Unauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	fault.SetRetryAfter(h, f.RetryAfter)
	h.Set("X-Should-Retry", strconv.FormatBool(f.Retryable()))
	h.Set("Cache-Control", "no-store")
	f.Reply(w, r, f.Object().Body())
}
