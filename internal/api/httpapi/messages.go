package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/api/messages"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

const (
	messagesPath    = "/v1/messages"
	countTokensPath = "/v1/messages/count_tokens"
)

// The headers of Anthropic's API. Its clients send the version with every request.
const (
	versionOfMessages = "Anthropic-Version"
	messagesKey       = "X-Api-Key"
)

// isMessages reports whether a path belongs to the door that speaks Anthropic's dialect, in which errors on it are
// answered (docs/api.md#messages-api).
func isMessages(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, messagesPath)
	return ok && (rest == "" || rest[0] == '/')
}

// createMessage serves POST /v1/messages.
func (a *API) createMessage(x *exchange, r *http.Request) error {
	req, body, release, err := a.readMessage(x, r, messages.Parse)
	if err != nil {
		return err
	}
	defer release()
	header, err := dialectHeader(r.Header)
	if err != nil {
		return err
	}
	if err := req.Since(r.Header.Get(versionOfMessages)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if name != versionOfMessages {
			req.Leave(strings.ToLower(name))
		}
	}
	if o := req.Chat.Original; o != nil {
		o.Header = header
	}
	err = a.complete(x, r, completion{Request: req.Chat, model: req.Chat.Model, body: body, userID: req.UserID, door: messages.Dialect, dialect: messages.NewWriter(req, x.event.RequestID)})
	return req.Explain(err)
}

// maxDialectHeader is how many bytes the headers of the dialect may have together.
const maxDialectHeader = 8 << 10

// dialectHeader returns the headers of the dialect, for an upstream that knows them; nil if there are none. Keys are in
// others.
func dialectHeader(h http.Header) (map[string][]string, error) {
	const prefix = "Anthropic-"
	var header map[string][]string
	n := 0
	for name, values := range h {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, v := range values {
			n += len(name) + len(v)
		}
		if header == nil {
			header = map[string][]string{}
		}
		header[name] = values
	}
	if n > maxDialectHeader {
		return nil, fault.New(fault.Invalid, "The headers anthropic-… have %d bytes together and may have %d. Name only the features in anthropic-beta that the request uses.", n, maxDialectHeader).At("anthropic-beta")
	}
	return header, nil
}

// readMessage reads a request in Anthropic's dialect, which is held a second time as the completion that it becomes.
func (a *API) readMessage(x *exchange, r *http.Request, parse func([]byte) (*messages.Request, error)) (*messages.Request, []byte, func(), error) {
	return readRequest(a, x, r, 2, parse, func(req *messages.Request) *chat.Request { return req.Chat })
}

// countTokens serves POST /v1/messages/count_tokens. It calls no model, and counts as one request.
func (a *API) countTokens(x *exchange, r *http.Request) error {
	req, _, release, err := a.readMessage(x, r, messages.ParseCount)
	if err != nil {
		return err
	}
	defer release()
	if err := req.Since(r.Header.Get(versionOfMessages)); err != nil {
		return err
	}
	tokens, err := a.countPrompt(x, r, req.Chat)
	if err != nil {
		return req.Explain(err)
	}
	return x.json([]byte(`{"input_tokens":` + strconv.Itoa(tokens) + `}`))
}

// countPrompt returns how many tokens the prompt of a request has. That counts as one request.
func (a *API) countPrompt(x *exchange, r *http.Request, req *chat.Request) (tokens int, err error) {
	err = a.current(x, func() (err error) {
		tokens, err = a.line.CountPrompt(r.Context(), x.Header(), x.models(), &inference.Call{ID: x.event.CallID, Start: x.event.Start, Caller: x.caller, Limits: x.limits(), Request: req})
		return err
	})
	return tokens, err
}

// keys returns the values of the header with the caller's key, in the form of Authorization. Clients of Anthropic's API
// send it in a header of their own (docs/api.md#messages-api).
func keys(r *http.Request) ([]string, error) {
	bearer := r.Header["Authorization"]
	own := r.Header[messagesKey]
	if len(own) == 0 || len(own) == 1 && own[0] == "" || !isMessages(r) && !isModels(r) {
		return bearer, nil
	}
	if len(own) > 1 || len(bearer) > 0 && (len(bearer) > 1 || strings.TrimSpace(afterScheme(bearer[0])) != own[0]) {
		return nil, fault.New(fault.Unauthenticated, "The headers x-api-key and Authorization give more than one key. Send one of them.")
	}
	return []string{"Bearer " + own[0]}, nil
}

// afterScheme returns what follows the scheme of an Authorization header.
func afterScheme(header string) string {
	_, rest, _ := strings.Cut(header, " ")
	return rest
}

// isModels reports whether the path is that of the list of models, or of one of them.
func isModels(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/models")
	return ok && (rest == "" || rest[0] == '/')
}

// forMessages reports whether a request for models comes from a client of Anthropic's API: it names its version, or gives
// the key in the header of that API. Claude Code only does the latter.
func forMessages(r *http.Request) bool {
	return r.Header[versionOfMessages] != nil || len(r.Header[messagesKey]) > 0 && r.Header[messagesKey][0] != ""
}

// modelData is a model as Anthropic's API shows it.
type modelData struct {
	Type      string `json:"type"` // model
	ID        string `json:"id"`
	Name      string `json:"display_name"`
	CreatedAt string `json:"created_at"`
	MaxInput  int    `json:"max_input_tokens,omitempty"`
	MaxTokens int    `json:"max_tokens,omitempty"`
	// Lifecycle is active, deprecated once the end of the model is announced, and retired from that day on.
	Lifecycle string  `json:"lifecycle"`
	RetiresAt *string `json:"retires_at"` // null: no end is announced
}

// modelPage is a page of the list of models.
type modelPage struct {
	Data    []modelData `json:"data"`
	More    bool        `json:"has_more"`
	FirstID *string     `json:"first_id"`
	LastID  *string     `json:"last_id"`
}

func modelDataOf(m *catalog.Model, now time.Time) modelData {
	data := modelData{
		Type: "model", ID: m.ID, Name: displayName(m), CreatedAt: time.Unix(m.Created, 0).UTC().Format(time.RFC3339), MaxInput: m.ContextLength, MaxTokens: m.MaxOutput, Lifecycle: "active",
	}
	if !m.Shutdown.IsZero() {
		at := m.Shutdown.UTC().Format(time.RFC3339)
		data.RetiresAt, data.Lifecycle = &at, "deprecated"
		if !now.Before(m.Shutdown) {
			data.Lifecycle = "retired"
		}
	}
	return data
}

// maxDisplayName is how long a name for people is at most, in bytes.
const maxDisplayName = 60

// displayName returns what people choose the model by: the first sentence of its description if that is short, else its id.
func displayName(m *catalog.Model) string {
	name, _, _ := strings.Cut(excerpt.Line(m.Description), ". ")
	if name = strings.TrimSuffix(strings.TrimSpace(name), "."); name == "" || len(name) > maxDisplayName {
		return m.ID
	}
	return name
}

const (
	// The number of models on a page if the caller does not say, and at most; those of Anthropic's API.
	defaultModels = 20
	mostModels    = 1000
)

// pageOfModels serves GET /v1/models for clients of Anthropic's API.
func (x *exchange) pageOfModels(r *http.Request) error {
	query := r.URL.Query()
	limit, err := limitOf(query, defaultModels, mostModels)
	if err != nil {
		return err
	}
	all := x.settings.Catalog.Models()
	from, to := 0, len(all)
	for _, name := range []string{"after_id", "before_id"} {
		id := query.Get(name)
		if id == "" {
			continue
		}
		switch at := slices.IndexFunc(all, func(m *catalog.Model) bool { return m.ID == id }); {
		case at < 0:
			return fault.New(fault.Invalid, "%s must be the id of a model; got %q.", name, excerpt.Of(id, maxEcho)).At(name)
		case name == "after_id":
			from = at + 1
		default:
			to = at
		}
	}
	page := modelPage{Data: []modelData{}}
	some := all[min(from, to):to]
	if page.More = len(some) > limit; page.More {
		some = some[:limit]
		if query.Get("before_id") != "" && query.Get("after_id") == "" { // the page that ends there
			some = all[to-limit : to]
		}
	}
	for _, m := range some {
		page.Data = append(page.Data, modelDataOf(m, x.event.Start))
	}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return x.encode(page)
}
