package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/api/httpserver"
	"sluice/internal/api/messages"
	"sluice/internal/api/responses"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/refusal"
	"sluice/internal/line/relay"
	"sluice/internal/upstream/provider"
)

// answerErrors turns the error of the next handler into the error object. No other place does.
func (a *API) answerErrors(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if err := a.catch(next, x, r); err != nil {
			a.answerError(x, r, err)
		}
		return nil
	}
}

// answerError replies to a request that has failed.
func (a *API) answerError(x *exchange, r *http.Request, err error) {
	a.showStanding(x, r, err)
	begun, told := x.begun(), keptMessage(err)
	x.nameSupport(err)
	x.nameBudget(err)
	x.answer(err, r)
	if a.opts.Refusals != nil && !begun && x.caller.Account != nil && refusal.Counts(x.event.Status) {
		a.opts.Refusals.Note(x.refused(err, r, told))
	}
	x.body.Finish(r)
}

// catch turns a panic into an error and logs its stack. http.ErrAbortHandler passes: it is
// net/http's way to close a connection.
func (a *API) catch(next handler, x *exchange, r *http.Request) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			panic(p)
		}
		err = fmt.Errorf("panic: %v", p)
		a.opts.Log.Error("panic", "request_id", x.event.RequestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}()
	return next(x, r)
}

// showStanding sets the rate-limit headers of an error to their current values. A call that
// failed was admitted and has been settled since, so the values of its admission are out of
// date (docs/api.md#limits).
func (a *API) showStanding(x *exchange, r *http.Request, err error) {
	if a.opts.Ledger == nil || x.caller.Account == nil || x.begun() || r.Method != http.MethodPost || !metered[x.event.Route] {
		return
	}
	switch h := x.Header(); fault.From(err).Kind {
	case fault.PaymentRequired, fault.BudgetExceeded, fault.PlanTooLow, fault.Forbidden, fault.RateLimited, fault.Unavailable, fault.Internal:
	default:
		// Other errors have these headers only if they came after admission.
		if h["X-Ratelimit-Limit-Requests"] == nil && h["X-Ratelimit-Limit-Tokens"] == nil {
			return
		}
	}
	a.opts.Ledger.Peek(x.caller.Account.ID, x.limits()).SetHeader(x.Header())
}

// metered lists the routes whose calls count against the rate limits.
var metered = map[string]bool{chatPath: true, responsesPath: true, inputTokensPath: true, messagesPath: true, countTokensPath: true, embedPath: true, videoJobsPath: true, videosPath: true}

// nameSupport adds to an error that tells the caller to contact support how that is done.
func (x *exchange) nameSupport(err error) {
	if f := fault.From(err); x.settings != nil && x.settings.Support != "" && (f.Kind == fault.KeyDeactivated || f.Kind == fault.Suspended) {
		f.Message += " Support: " + x.settings.Support
	}
}

// nameBudget adds to an error about a budget of the account where its owner can raise it.
func (x *exchange) nameBudget(err error) {
	f := fault.From(err)
	if f.Kind != fault.BudgetExceeded || x.settings == nil || x.settings.Origin == "" {
		return
	}
	var of struct {
		ID     string
		Scope  account.BudgetScope
		Needed *string
		// PausedAt is there if the runaway watch has paused the key.
		PausedAt string `json:"paused_at"`
	}
	if json.Unmarshal(f.Budget, &of) != nil {
		return
	}
	page := x.settings.Origin + "/dashboard/budgets"
	if of.PausedAt != "" {
		f.Message += " The page is " + page
		return
	}
	// max_cost is the caller's own, and where nobody knows what a call may cost, no amount helps.
	if of.ID == "" || of.Needed == nil {
		return
	}
	if s := of.Scope.Session; s != "" && s != account.EachSession {
		page += "/raise?count=" + of.ID + "/" + url.QueryEscape(s)
	}
	f.Message += " Its owner can raise it at " + page
}

// errGone means that the caller disconnected while we were writing, so that no reply is
// possible.
var errGone = errors.New("the caller went away")

// clientGone marks an error of writing to the caller as errGone. It returns nil for nil.
func clientGone(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// answer sends the error object. If the reply has started already, it closes the connection
// instead, so that the caller does not take it for a complete one.
func (x *exchange) answer(err error, r *http.Request) {
	if errors.Is(err, relay.ErrGone) {
		err = clientGone(err)
	}
	if errors.Is(err, errGone) {
		x.event.Err, x.event.Final = err, statusNone
		return
	}
	f := fault.From(err)
	x.event.Fault, x.event.Err = f.Kind.String(), f.Unwrap()
	// The error was already sent as an event of the stream, after status 200.
	if x.begun() {
		x.event.Final = f.Kind.Status()
	}
	if errors.Is(err, relay.ErrTold) {
		return
	}
	if x.begun() {
		panic(http.ErrAbortHandler)
	}
	f.SetRetry(x.Header())
	if httpserver.HasBody(r) {
		// Reply now: net/http would otherwise wait for the body of a request that is refused anyway.
		_ = http.NewResponseController(x.ResponseWriter).EnableFullDuplex()
	}
	var body []byte
	switch {
	case isMessages(r):
		body = messages.ErrorBody(f, x.event.RequestID)
	case r.URL.Path == responsesPath:
		body = responses.ErrorBody(f)
	default:
		body = f.Object().Body()
	}
	f.Reply(x, r, body)
}

// maxParam is how much of the name of a field is kept with a refused call, in bytes.
const maxParam = 100

// maxTold is how much is kept of what the caller of a refused call was told, in bytes.
const maxTold = 300

// refused returns what is kept of a call that was refused. Nothing in it is the caller's own text: of the name of a
// field only the plain beginning is kept, because names inside a schema are the caller's, and of the message nothing if
// it is about the request, because it may quote it; see keptMessage.
func (x *exchange) refused(err error, r *http.Request, message string) refusal.Call {
	e := &x.event
	f := fault.From(err)
	param := excerpt.Head(f.Param, maxParam)
	for i := range len(param) {
		if c := param[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '[' || c == ']') {
			param = param[:i]
			break
		}
	}
	path := e.Route
	if path == "" {
		path = "(no such path)"
	}
	return refusal.Call{
		ID: e.CallID, RequestID: e.Given(), At: e.Start.UTC().Truncate(time.Millisecond), AccountID: x.caller.Account.ID, KeyID: x.caller.KeyID,
		Status: e.Status, Kind: f.Kind.String(), Param: param, Path: r.Method + " " + path, Model: e.Model, Address: e.Remote, Message: message,
	}
}

// keptMessage returns what is kept of what the caller is told about an error, without the links that are added for the caller: one to
// a session has the caller's name of it.
func keptMessage(err error) string {
	f := fault.From(err)
	_, passed := errors.AsType[*provider.Refusal](err)
	if f.Kind == fault.Unavailable || f.Kind != fault.Invalid && !passed {
		return excerpt.Head(f.Message, maxTold)
	}
	return ""
}

// Refuse returns the complete reply to a request that net/http rejected, and records it in the
// log and the metrics like any other request.
func (a *API) Refuse(m httpserver.Malformed) []byte {
	now := time.Now()
	e := telemetry.Event{RequestID: newRequestID(now), Start: now, Remote: m.Remote, Status: m.Status, Fault: fault.Invalid.String()}
	// The log has addresses without ports.
	if host, _, err := net.SplitHostPort(m.Remote); err == nil {
		e.Remote = host
	}
	f := fault.Fault{Kind: fault.Invalid, Message: m.Message(), Code: m.Status}
	body := f.Object().Body()
	h := http.Header{
		"Content-Type": jsonType, "Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"},
		"Date":         {e.Start.UTC().Format(http.TimeFormat)},
		"X-Request-Id": {e.RequestID}, "X-Sluice-Version": {buildinfo.Version()}, "X-Content-Type-Options": nosniff,
	}
	f.SetRetry(h)
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(m.Status) + " " + http.StatusText(m.Status) + "\r\n")
	_ = h.Write(&b) // a bytes.Buffer never fails
	b.WriteString("\r\n")
	b.Write(body)
	e.Bytes = int64(len(body))
	a.opts.Metrics.RequestStarted()
	a.opts.Metrics.RequestEnded(&e, 0)
	e.Log(context.Background(), a.opts.Log, 0)
	return b.Bytes()
}
