// Package vendortest has strict fakes of the vendors' APIs, one file for each dialect. A fake refuses what the vendor refuses, in
// the vendor's own words and form, and answers everything else by a script that the tests know.
//
// What the model does depends on the last text of the user alone, see play, unless there is a Script. A test asks for a failure with the name of the
// upstream model: gpt-6-sol@broken fails as a server of OpenAI's that is broken.
package vendortest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Vendor is the fake of all vendors. It implements http.Handler and chooses the dialect by the path.
type Vendor struct {
	// Script says what the model does; nil: play does. Chat completions, Responses, Messages and Converse ask it.
	Script func(*Asked) *Answer
	// Cache keeps prompts of Messages and Converse; nil: the vendor has none, and makes figures up.
	Cache *Cache

	mu       sync.Mutex
	heard    []Heard
	issued   int
	thoughts map[string]thought // by signature
	messages map[string]bool    // ids that threads can continue
}

// Heard is a request that came, and what the vendor found wrong with it; empty: nothing.
type Heard struct {
	Path    string
	Header  http.Header
	Body    string
	Refused string
}

// Take returns what was heard since the last call.
func (v *Vendor) Take() []Heard {
	v.mu.Lock()
	defer v.mu.Unlock()
	heard := v.heard
	v.heard = nil
	return heard
}

// Asked is what a script knows of a request.
type Asked struct {
	Said     []string // by the user, in all messages
	Returned []string // by tools, in all messages
	Tools    []Tool   // functions that may be called
}

// Tool is a function that a request offers.
type Tool struct {
	Namespace string // of Responses; empty: none
	Name      string
	Schema    map[string]any // of its arguments; nil for one that takes a text
}

// Answer is what a script wants: a text, or a call of a tool if Call is its name. Output is how many tokens it claims to have; 0: a few.
type Answer struct {
	Text, Call, Arguments string
	Output                int
}

// object is JSON that the fakes read or write.
type object = map[string]any

// refusal is an error of a vendor.
type refusal struct {
	status               int
	kind, code, param    string
	message              string
	details              object
	retryAfter, amznType string
}

// refuse returns the refusal of a request that is wrong.
func refuse(param, code, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// asked is a request, whatever its dialect.
type asked struct {
	Asked
	model   string
	text    string   // the last of the user
	results []string // of tools, if they are what the request ends with
	tools   bool     // functions may be called
	thinks  bool     // thoughts are shown or signed
	schema  bool
	images  int
	marks   int      // of what shall be kept in a cache
	hour    int      // those of them for an hour, where that is told
	kept    *Figures // what the cache says; nil: there is none
	stream  bool
	prefix  string // the conversation so far, for the signature of thoughts
	last    string // the signature of the last thought in it
}

// offer notes a function; schema is the name of the member that has one.
func (a *asked) offer(namespace string, t object, schema string) {
	if name := text(t["name"]); name != "" {
		a.Tools = append(a.Tools, Tool{namespace, name, member(t[schema])})
	}
}

// calling returns a call as the answer wants it, of the tool that was offered.
func (a *asked) calling(id string, answer *Answer) call {
	c := call{id: id, name: answer.Call, arguments: answer.Arguments}
	for _, t := range a.Tools {
		if t.Name == c.name {
			c.namespace, c.custom = t.Namespace, t.Schema == nil && t.Namespace != ""
			break
		}
	}
	return c
}

// joined returns the texts of parts as one.
func joined(content any) (all string) {
	for _, p := range parts(content) {
		all += text(member(p)["text"])
	}
	return all
}

// returns notes the result of a tool.
func (a *asked) returns(result string) {
	a.results, a.Returned = append(a.results, result), append(a.Returned, result)
}

// reply is what the model does.
type reply struct {
	thinking  string
	signature string
	text      []string // in pieces
	calls     []call
	output    int  // how many tokens it claims to have
	refused   bool // the model declines
	cut       bool // the stream breaks off after the first piece of text
	late      bool // the stream ends with an error after the first piece of text
}

// call is a call of a tool.
type call struct {
	id, name, arguments string
	namespace           string
	custom              bool // arguments are a text
}

// Thought is what models think, where they show it.
const Thought = "Let me think."

// Hello is the answer to anything that the script does not know.
const Hello = "Hello, wörld."

// play returns what the model does: it calls tools when the user asks for the weather, reports results, fills the schema,
// and does what a word in capitals says.
func (v *Vendor) play(a *asked) *reply {
	r := &reply{output: 5, cut: strings.Contains(a.text, "CUT"), late: strings.Contains(a.text, "LATE"), refused: strings.Contains(a.text, "DECLINE")}
	if a.thinks {
		r.thinking, r.signature = Thought, v.sign(a)
	}
	if v.Script != nil {
		answer := v.Script(&a.Asked)
		r.output = max(r.output, answer.Output)
		if r.text = []string{answer.Text}; answer.Call != "" {
			r.text, r.calls = nil, []call{a.calling(v.id("call_"), answer)}
		}
		return r
	}
	switch {
	case a.results != nil:
		r.text = []string{"The results: ", strings.Join(a.results, ", ") + "."}
	case a.tools && strings.Contains(a.text, "weather"):
		for _, c := range []Answer{{Call: "get_weather", Arguments: `{"city":"Paris"}`}, {Call: "get_time", Arguments: `{}`}} {
			r.calls = append(r.calls, a.calling(v.id("call_"), &c))
		}
	case a.schema:
		r.text = []string{`{"city":`, `"Paris"}`}
	case a.images > 0:
		r.text = []string{"I see ", fmt.Sprintf("%d image.", a.images)}
	case r.refused:
		r.text = []string{"No."}
	default:
		r.text = []string{"Hello, ", "wörld."}
	}
	return r
}

// id returns an id that was never used before.
func (v *Vendor) id(prefix string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issued++
	return fmt.Sprintf("%s%06d", prefix, v.issued)
}

// thought is the signed thinking of one turn: the conversation that it belongs to, and the thought before it.
type thought struct{ prefix, before string }

// sign returns a new signature, bound to the conversation.
func (v *Vendor) sign(a *asked) string {
	s := v.id("c2lnbmVk")
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.thoughts == nil {
		v.thoughts = map[string]thought{}
	}
	v.thoughts[s] = thought{a.prefix, a.last}
	return s
}

// signed returns what a signature was made for.
func (v *Vendor) signed(signature string) (thought, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.thoughts[signature]
	return t, ok
}

// exchange is one request, which a dialect reads, checks and answers.
type exchange struct {
	*Vendor
	w    http.ResponseWriter
	r    *http.Request
	raw  []byte
	body object
}

// dialect is what the fakes differ in. Which is chosen by a part of the path.
type dialect struct {
	path  string
	read  func(*exchange) (*asked, *refusal)
	write func(*exchange, *asked, *reply)
	fail  func(*exchange, *refusal)
	// faults are the vendor's own failures by their names; see failure.
	faults map[string]refusal
}

// ServeHTTP implements http.Handler.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	for _, d := range []dialect{chatDialect, responsesDialect, messagesDialect, geminiDialect, converseDialect} {
		if !strings.Contains(r.URL.Path, d.path) {
			continue
		}
		x := &exchange{Vendor: v, w: w, r: r, raw: raw}
		w.Header().Set("Content-Type", "application/json")
		a, wrong := d.answer(x)
		said := ""
		if wrong != nil {
			said = wrong.message
		}
		v.mu.Lock()
		v.heard = append(v.heard, Heard{r.URL.Path, r.Header, string(raw), said})
		v.mu.Unlock()
		if wrong != nil {
			d.fail(x, wrong)
			return
		}
		d.write(x, a, v.play(a))
		return
	}
	http.NotFound(w, r)
}

// answer reads a request, and returns what is wrong with it.
func (d *dialect) answer(x *exchange) (*asked, *refusal) {
	decoder := json.NewDecoder(bytes.NewReader(x.raw))
	decoder.UseNumber()
	if err := decoder.Decode(&x.body); err != nil {
		return nil, refuse("", "", "We could not parse the JSON body of your request.")
	}
	a, wrong := d.read(x)
	if wrong != nil {
		return nil, wrong
	}
	if _, name, ok := strings.Cut(a.model, "@"); ok {
		fault := d.faults[name]
		return nil, &fault
	}
	return a, nil
}

// only returns the first member that is not among the names, in alphabetical order; empty: there is none.
func only(o object, names ...string) string {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, key) {
			return key
		}
	}
	return ""
}

// names splits a list of names.
func names(list string) []string { return strings.Fields(list) }

func list(v any) []any    { l, _ := v.([]any); return l }
func member(v any) object { o, _ := v.(object); return o }
func text(v any) string   { s, _ := v.(string); return s }
func encode(v any) string { b, _ := json.Marshal(v); return string(b) }
func plain(v any) []any   { return []any{object{"type": "text", "text": v}} }
func either(c bool, a, b string) string {
	if c {
		return a
	}
	return b
}

// parts returns content as a list: a text becomes one part.
func parts(content any) []any {
	if s, ok := content.(string); ok {
		return plain(s)
	}
	return list(content)
}

// event writes one event of a stream. The name may be empty.
func (x *exchange) event(name string, data any) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	if name != "" {
		fmt.Fprintf(x.w, "event: %s\n", name)
	}
	s, ok := data.(string)
	if !ok {
		s = encode(data)
	}
	fmt.Fprintf(x.w, "data: %s\n\n", s)
	x.flush()
}

// flush sends what was written.
func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// abort breaks the connection off.
func (x *exchange) abort() {
	x.flush()
	panic(http.ErrAbortHandler)
}
