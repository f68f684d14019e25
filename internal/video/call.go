package video

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/netguard"
)

// maxAnswer bounds a reply other than a file, and maxWords the part of an error message that is
// kept, both in bytes.
const (
	maxAnswer = 1 << 20
	maxWords  = 300
	// callPatience bounds one request. fetchPatience bounds the time between two pieces of a file:
	// a large file may take long, as long as it keeps coming.
	callPatience  = time.Minute
	fetchPatience = time.Minute
	// maxWait bounds how long a vendor's Retry-After may make us wait.
	maxWait = time.Minute
)

// Caller sends requests to one vendor. Its header, which contains the key, goes to the vendor's own
// host only. If the vendor redirects elsewhere, that must be a public address.
type Caller struct {
	// base is the URL that all paths are appended to. It has no trailing slash.
	base *url.URL
	// secret is the key. It is removed from whatever the vendor says before that is logged.
	secret string
	client *http.Client
}

// NewCaller returns a caller for the API that begins at baseURL. The header is sent with every
// request. The secret is the part of it that must never be repeated.
func NewCaller(baseURL string, header http.Header, secret string) (*Caller, error) {
	base, err := url.Parse(strings.TrimSuffix(baseURL, "/"))
	if err != nil || base.Host == "" {
		return nil, errors.New("the base URL cannot be read")
	}
	// The operator has configured this host, so it may have a private address.
	host := base.Host
	if base.Port() == "" {
		port := "443"
		if base.Scheme == "http" {
			port = "80"
		}
		host = base.Hostname() + ":" + port
	}
	header = header.Clone()
	header.Set("User-Agent", "sluice")
	// Redirects may only lead to public addresses and to this host.
	guard := netguard.New(&netguard.Options{Allow: []string{host}})
	return &Caller{base: base, secret: secret, client: guard.Client(base, header)}, nil
}

// At returns the URL of a path below the base. A nil query adds none.
func (c *Caller) At(path string, query url.Values) string {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	return u.String()
}

// PlainID returns an id that a vendor gave if it can safely become part of a URL path, and an error
// otherwise. Without the check a vendor could make us call any path of its API with our key.
func PlainID(id string) (string, error) {
	if id == "" || len(id) > 200 || strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}) {
		return "", errors.New("the provider returned an unusable id")
	}
	return id, nil
}

// Ask sends a request and decodes the JSON reply into out. A nil body sends none, and a nil out
// discards the reply.
func (c *Caller) Ask(ctx context.Context, method, address, contentType string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	resp, err := c.send(ctx, method, address, contentType, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// One byte more than allowed, to notice that there is more.
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(err)
	case len(raw) > maxAnswer:
		return errors.New("the provider's answer is too long")
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the provider's answer cannot be read: %w", err)
	}
	return nil
}

// AskJSON is Ask with a JSON body. A nil in sends none.
func (c *Caller) AskJSON(ctx context.Context, method, address string, in, out any) error {
	if in == nil {
		return c.Ask(ctx, method, address, "", nil, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.Ask(ctx, method, address, "application/json", body, out)
}

// Fetch downloads the MP4 file at a URL and writes it to w.
// The size is bounded by w, not here.
func (c *Caller) Fetch(ctx context.Context, address string, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The timer cancels the request unless data keeps arriving; see alive.
	late := time.AfterFunc(fetchPatience, func() { cancel(errStalled) })
	defer late.Stop()
	resp, err := c.send(ctx, http.MethodGet, address, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	// Some vendors serve files from a generic store that does not know their type.
	if kind != "video/mp4" && kind != "application/octet-stream" && kind != "binary/octet-stream" {
		return fmt.Errorf("the provider sent %q instead of a video", kind)
	}
	n, err := io.Copy(w, &alive{resp.Body, late})
	// w refused to take more; the vendor is not to blame.
	if errors.Is(err, errTooLarge) {
		return err
	}
	// Report why ctx was canceled, if it was, rather than that it was.
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return c.unreachable(err)
	}
	if n == 0 {
		return errors.New("the provider sent an empty file")
	}
	return nil
}

// errStalled is the cause of cancellation if a download makes no progress.
var errStalled = errors.New("the provider stopped in the middle of the file")

// alive is a body that resets the timer with each piece that arrives.
type alive struct {
	body io.Reader
	late *time.Timer
}

// Read implements io.Reader.
func (a *alive) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.late.Reset(fetchPatience)
	return n, err
}

// send returns a reply with a 2xx status, or the error that any other reply means. The caller
// closes the body.
func (c *Caller) send(ctx context.Context, method, address, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the provider returned an invalid URL")
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a truncated error text is good enough
	return nil, c.answer(resp, raw)
}

// unreachable wraps a connection error without the URL, which may contain a key.
func (c *Caller) unreachable(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("the provider cannot be reached: %w", err)
}

// Answer is the error reply of a vendor.
type Answer struct {
	Status  int
	Code    string // the vendor's own error code
	Message string // shortened and without the key, for the log
	// RetryAfter is how long the vendor asks us to wait. It is 0 if the vendor does not say, and
	// never more than maxWait.
	RetryAfter time.Duration
}

// Error implements error.
func (a *Answer) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the provider answered %d %s: %s", a.Status, a.Code, a.Message))
}

// Busy reports whether the vendor turned the request away before looking at it, so that it is safe
// to retry.
func (a *Answer) Busy() bool { return a.Status == 429 || a.Status == 503 }

// wait returns how long to wait before a retry: what the vendor asks for, but at least the usual
// time.
func (a *Answer) wait(usual time.Duration) time.Duration {
	return min(max(usual, a.RetryAfter), maxWait)
}

// refusal turns an answer that blames the request into a final Refusal. It returns any other answer
// unchanged.
func (a *Answer) refusal() error {
	switch {
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		return Refuse(Expired, "%w", a)
	case a.Status == http.StatusBadRequest, a.Status == http.StatusUnprocessableEntity:
		if Moderates(a.Code + " " + a.Message) {
			return Refuse(Moderated, "%w", a)
		}
		return Refuse(Rejected, "%w", a)
	}
	return a
}

// Final turns an error that a retry cannot fix into a Refusal. It returns any other error
// unchanged.
func Final(err error) error {
	if a, ok := errors.AsType[*Answer](err); ok {
		return a.refusal()
	}
	return err
}

// Moderates reports whether a vendor's words say that its moderation refused the prompt or the
// video. Vendors have no common code for that, so it looks for the words that they use.
func Moderates(words string) bool {
	words = strings.ToLower(words)
	for _, sign := range []string{"moderation", "content_policy", "content policy", "content_filter", "content filter", "safety", "responsible ai", "usage guidelines", "sentinel"} {
		if strings.Contains(words, sign) {
			return true
		}
	}
	return false
}

// answer parses an error reply in OpenAI's or Google's format.
func (c *Caller) answer(resp *http.Response, raw []byte) *Answer {
	var body struct {
		Error struct {
			Code    json.RawMessage `json:"code"` // a string or a number
			Status  string          `json:"status"`
			Type    string          `json:"type"`
			Message string          `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(raw, &body) // a reply in another format leaves everything empty
	a := &Answer{Status: resp.StatusCode, Code: strings.Trim(string(body.Error.Code), `"`), Message: c.clean(body.Error.Message)}
	// Google's code is the HTTP status again; its status is the name of the error.
	if body.Error.Status != "" {
		a.Code = body.Error.Status
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.RetryAfter = min(time.Duration(seconds)*time.Second, maxWait)
	}
	a.Code = c.clean(a.Code)
	return a
}

// clean shortens what a vendor says and removes the key from it.
func (c *Caller) clean(text string) string {
	if c.secret != "" {
		text = strings.ReplaceAll(text, c.secret, "…")
	}
	return excerpt.Of(strings.Join(strings.Fields(text), " "), maxWords)
}
