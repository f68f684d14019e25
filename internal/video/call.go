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

	"sluice/internal/excerpt"
	"sluice/internal/netguard"
)

const (
	maxAnswer     = 1 << 20 // bytes of what a vendor says
	maxWords      = 300     // bytes of why it refuses
	callPatience  = time.Minute
	fetchPatience = time.Minute // for the next piece of a file
	maxWait       = time.Minute
)

// Caller asks one vendor. Its header, with the key, goes to the vendor's own host alone; where the vendor
// sends us elsewhere, that must be a public address.
type Caller struct {
	base   *url.URL
	secret string
	client *http.Client
}

// NewCaller returns a caller of the API that begins at baseURL. The secret is part of the header; what
// vendors say is cleaned of it.
func NewCaller(baseURL string, header http.Header, secret string) (*Caller, error) {
	base, err := url.Parse(strings.TrimSuffix(baseURL, "/"))
	if err != nil || base.Host == "" {
		return nil, errors.New("the base URL cannot be read")
	}
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
	guard := netguard.New(&netguard.Options{Allow: []string{host}})
	return &Caller{base: base, secret: secret, client: guard.Client(base, header)}, nil
}

// At is an address below the base.
func (c *Caller) At(path string, query url.Values) string {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	return u.String()
}

// PlainID returns an id that a vendor gave, if it can be a part of an address.
func PlainID(id string) (string, error) {
	if id == "" || len(id) > 200 || strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	}) {
		return "", errors.New("the provider gave no id that can be used")
	}
	return id, nil
}

// Ask sends a body, where there is one, and reads a JSON answer into out, where that is wanted.
func (c *Caller) Ask(ctx context.Context, method, address, contentType string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	resp, err := c.send(ctx, method, address, contentType, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
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

// AskJSON is Ask with a JSON body; nil: there is none.
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

// Fetch writes the MP4 file at an address to w.
func (c *Caller) Fetch(ctx context.Context, address string, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(fetchPatience, func() { cancel(errStalled) })
	defer late.Stop()
	resp, err := c.send(ctx, http.MethodGet, address, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "video/mp4" && kind != "application/octet-stream" && kind != "binary/octet-stream" {
		return fmt.Errorf("the provider sent %q in the place of a video", kind)
	}
	n, err := io.Copy(w, &alive{resp.Body, late})
	if errors.Is(err, errTooLarge) {
		return err
	}
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

var errStalled = errors.New("the provider stopped in the middle of the file")

// alive is a body whose every piece gives the next one time.
type alive struct {
	body io.Reader
	late *time.Timer
}

func (a *alive) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.late.Reset(fetchPatience)
	return n, err
}

// send returns a reply with status 2xx, or the error that another one means.
func (c *Caller) send(ctx context.Context, method, address, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the provider named an address that cannot be read")
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
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of it will do
	return nil, c.answer(resp, raw)
}

// unreachable keeps addresses and keys out of an error of the connection.
func (c *Caller) unreachable(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return fmt.Errorf("the provider cannot be reached: %w", err)
}

// Answer is what a vendor says when it does not do what it is asked.
type Answer struct {
	Status     int
	Code       string // the vendor's own
	Message    string // cleaned, for the log
	RetryAfter time.Duration
}

func (a *Answer) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the provider answered %d %s: %s", a.Status, a.Code, a.Message))
}

// Busy reports whether the vendor turned the request away before it looked at it.
func (a *Answer) Busy() bool { return a.Status == 429 || a.Status == 503 }

// wait is how long to wait before the same is asked again.
func (a *Answer) wait(usual time.Duration) time.Duration {
	return min(max(usual, a.RetryAfter), maxWait)
}

// refusal makes a final refusal of an answer that blames the request; any other error stays as it is.
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

// Final makes a refusal of an error that another attempt cannot mend.
func Final(err error) error {
	if a, ok := errors.AsType[*Answer](err); ok {
		return a.refusal()
	}
	return err
}

// Moderates reports whether a vendor's words say that its moderation refused.
func Moderates(words string) bool {
	words = strings.ToLower(words)
	for _, sign := range []string{"moderation", "content_policy", "content policy", "content_filter", "content filter", "safety", "responsible ai", "usage guidelines", "sentinel"} {
		if strings.Contains(words, sign) {
			return true
		}
	}
	return false
}

// answer reads an error reply, in OpenAI's form or Google's.
func (c *Caller) answer(resp *http.Response, raw []byte) *Answer {
	var body struct {
		Error struct {
			Code    json.RawMessage `json:"code"` // a text, or a number
			Status  string          `json:"status"`
			Type    string          `json:"type"`
			Message string          `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(raw, &body) // an answer of another form says nothing
	a := &Answer{Status: resp.StatusCode, Code: strings.Trim(string(body.Error.Code), `"`), Message: c.clean(body.Error.Message)}
	if body.Error.Status != "" {
		a.Code = body.Error.Status
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.RetryAfter = min(time.Duration(seconds)*time.Second, maxWait)
	}
	a.Code = c.clean(a.Code)
	return a
}

// clean bounds what a vendor says, and takes the key out of it.
func (c *Caller) clean(text string) string {
	if c.secret != "" {
		text = strings.ReplaceAll(text, c.secret, "…")
	}
	return excerpt.Of(strings.Join(strings.Fields(text), " "), maxWords)
}
