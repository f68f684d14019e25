package app_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/testkit/vendortest"
)

// column is an upstream of the matrix.
type column struct {
	name     string
	door     string // the door of the same dialect; empty: none
	provider string // of the configuration, behind the name; %s is the address of the vendors
	upstream string
	efforts  []string // that the model takes; nil: all of them
	thinks   bool     // the conversation can show thinking
}

var claudeEfforts = []string{"low", "medium", "high", "xhigh", "max"}

// columns are the dialects of upstreams. Azure stands for OpenAI, whose own address cannot be set.
var columns = []column{
	{"chat", "chat", `kind: openai, base_url: "%s/v1", api_key: vendor-key`, "lab-model", nil, true},
	{"responses", "responses", `kind: azure, base_url: %q, api_key: vendor-key, api: responses`, "gpt-6-sol", []string{"none", "low", "medium", "high", "xhigh", "max"}, true},
	{"auto", "responses", `kind: azure, base_url: %q, api_key: vendor-key`, "gpt-6-sol", []string{"none", "low", "medium", "high", "xhigh", "max"}, true},
	{"anthropic", "messages", `kind: anthropic, base_url: %q, api_key: vendor-key`, "claude-sonnet-5-5", claudeEfforts, true},
	{"gemini", "", `kind: gemini, base_url: %q, api_key: vendor-key`, "gemini-3.8-flash", []string{"low", "medium", "high"}, true},
	{"bedrock", "", `kind: bedrock, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, "anthropic.claude-sonnet-5-5", claudeEfforts, true},
	{"mantle", "messages", `kind: bedrock, api: native, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, "anthropic.claude-sonnet-5-5", claudeEfforts, true},
	{"sandbox", "", "", "", nil, true},
}

// failures are what a vendor can answer in place of a reply, and what the caller then gets.
var failures = []struct {
	name   string
	status int
}{{"invalid", 400}, {"long", 400}, {"auth", 503}, {"rate", 503}, {"overloaded", 503}, {"broken", 503}, {"missing", 404}}

// cell is one door, one upstream and one feature.
type cell struct {
	*column
	n       *node
	vendor  *vendortest.Vendor
	door    string
	feature string
}

// feature is a row of the matrix.
type feature struct {
	name string
	// not says why a cell cannot be; nil, and empty: it can.
	not func(*cell) string
	run func(*cell) error
}

func features() []feature {
	all := []feature{
		{name: "plain", run: func(c *cell) error { return c.hello(asking{}) }},
		{name: "streamed", run: func(c *cell) error { return c.hello(asking{stream: true}) }},
		{name: "tools", run: func(c *cell) error { return c.both(c.callsTools) }},
		{name: "two turns with tools", run: func(c *cell) error { return c.both(c.twoTurns) }},
		{name: "five turns of thinking", run: func(c *cell) error { return c.both(c.fiveTurns) }, not: func(c *cell) string {
			return because(c.name == "sandbox", "the sandbox has nothing to remember")
		}},
	}
	for _, effort := range []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} {
		all = append(all, feature{
			name: "effort " + effort, run: func(c *cell) error { return c.thinksBy(effort) },
			not: func(c *cell) string {
				return because(c.door == "messages" && effort == "minimal", "Messages has no such effort") +
					because(c.door == "messages" && effort == "none" && c.column.door == "messages", "the caller's own words reach the vendor, whose model cannot stop thinking")
			},
		})
	}
	all = append(all,
		feature{name: "image", run: func(c *cell) error { return c.both(c.seesImage) }, not: func(c *cell) string { return because(c.name == "sandbox", "the sandbox reads no images") }},
		feature{name: "schema", run: func(c *cell) error { return c.both(c.fillsSchema) }},
		feature{name: "cache markers", run: func(c *cell) error { return c.both(c.marksCache) }, not: func(c *cell) string { return because(c.name == "sandbox", "the sandbox ignores them") }},
		feature{name: "refusal", run: func(c *cell) error { return c.both(c.declines) }, not: func(c *cell) string { return because(c.name == "sandbox", "the sandbox declines nothing") }},
		feature{name: "cut stream", run: func(c *cell) error { return c.breaks("CUT [[sandbox:tokens=50]] [[sandbox:cut=5]]") }},
		feature{name: "error in a stream", run: func(c *cell) error { return c.breaks("LATE") }, not: func(c *cell) string { return because(c.name == "sandbox", "the sandbox only breaks off") }},
	)
	for _, f := range failures {
		all = append(all, feature{
			name: "error " + f.name, run: func(c *cell) error { return c.fails(f.name, f.status) },
			not: func(c *cell) string {
				return because(c.name == "sandbox", "the sandbox has no vendor") +
					because(c.name != "sandbox" && f.name == "missing" && c.door != c.column.door, "a translated request names nothing that is stored at the vendor")
			},
		})
	}
	return all
}

func because(yes bool, why string) string {
	if yes {
		return why
	}
	return ""
}

// matrixSite writes the configuration: each upstream with a model, and each failure with a provider of its own, so that one that
// fails is not in the way of others.
func matrixSite(url string) string {
	providers, models := "providers:\n", "models:\n"
	add := func(c *column, suffix, fault string) {
		providers += fmt.Sprintf("- {name: %s%s, allow_image_urls: true, "+c.provider+"}\n", c.name, suffix, url)
		models += fmt.Sprintf("- {id: m/%s%s, provider: %s%s, upstream: %q, plan: free, context_length: 1000000, max_output: 64000, tool_calling: true, reasoning: true}\n", c.name, suffix, c.name, suffix, c.upstream+fault)
	}
	for i := range columns {
		c := &columns[i]
		if c.provider == "" {
			continue
		}
		add(c, "", "")
		for _, f := range failures {
			add(c, "-"+f.name, "@"+f.name)
		}
	}
	return "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n" + providers + models
}

// startMatrix starts a server with all upstreams.
func startMatrix(t *testing.T, url string) *node {
	t.Helper()
	s := newSite(t, matrixSite(url))
	s.patience = 300 * time.Millisecond
	return s.start(t)
}

// TestMatrix plays every feature through every door to every dialect of an upstream. With -v it prints a table.
func TestMatrix(t *testing.T) {
	t.Parallel()
	results := map[string]string{} // by the name of the cell; empty: it works
	var mu sync.Mutex
	var doors sync.WaitGroup
	for _, door := range threeDoors {
		vendor := &vendortest.Vendor{}
		server := httptest.NewServer(vendor)
		t.Cleanup(server.Close)
		n := startMatrix(t, server.URL)
		doors.Go(func() {
			for _, f := range features() {
				for i := range columns {
					c := &cell{&columns[i], n, vendor, door.name, f.name}
					result := c.try(&f)
					mu.Lock()
					results[c.key()] = result
					mu.Unlock()
				}
			}
		})
	}
	doors.Wait()
	t.Log(table(results))
	for _, key := range keys(results) {
		if result := results[key]; result != "" && !strings.HasPrefix(result, cannot) {
			t.Errorf("%s: %s", key, result)
		}
	}
}

// cannot begins the result of a cell that cannot be.
const cannot = "– "

func (c *cell) key() string { return c.door + "/" + c.name + "/" + c.feature }

// try plays the cell, and returns what is wrong.
func (c *cell) try(f *feature) string {
	if f.not != nil {
		if why := f.not(c); why != "" {
			return cannot + why
		}
	}
	c.vendor.Take()
	if err := f.run(c); err != nil {
		said := ""
		for _, h := range c.vendor.Take() {
			if h.Refused != "" {
				said += "\n\tthe vendor refused: " + h.Refused + "\n\t" + h.Body
			}
		}
		return err.Error() + said
	}
	return ""
}

// table prints the results: a row for each feature, a column for each door and upstream.
func table(results map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-24s", "")
	for _, d := range threeDoors {
		fmt.Fprintf(&b, "%-*s", 6*len(columns), "| "+d.name)
	}
	fmt.Fprintf(&b, "\n%-24s", "")
	for range threeDoors {
		for i := range columns {
			fmt.Fprintf(&b, "%-6.5s", columns[i].name)
		}
	}
	reasons := map[string]bool{}
	for _, f := range features() {
		fmt.Fprintf(&b, "\n%-24s", f.name)
		for _, d := range threeDoors {
			for i := range columns {
				c := cell{column: &columns[i], door: d.name, feature: f.name}
				mark := "ok"
				if r, ok := results[c.key()]; !ok {
					mark = ""
				} else if strings.HasPrefix(r, cannot) {
					mark = "–"
					reasons[f.name+": "+strings.TrimPrefix(r, cannot)] = true
				} else if r != "" {
					mark = "RED"
				}
				fmt.Fprintf(&b, "%-6s", mark)
			}
		}
	}
	for _, r := range keys(reasons) {
		fmt.Fprintf(&b, "\n– %s", r)
	}
	return b.String()
}

func keys[V any](m map[string]V) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// caller returns a client with the first message of a conversation.
func (c *cell) caller(text string, image, marks bool) *doorClient {
	model := "m/" + c.name
	if c.name == "sandbox" {
		model = "sandbox/reasoner"
	}
	client := &doorClient{n: c.n, door: c.door, model: model}
	client.say(text, image, marks)
	return client
}

// both runs a feature with a reply in one piece and with a stream.
func (c *cell) both(run func(asking) error) error {
	if err := run(asking{}); err != nil {
		return err
	}
	if err := run(asking{stream: true}); err != nil {
		return fmt.Errorf("streamed: %w", err)
	}
	return nil
}

func wrongSaid(s *said, want string) error { return fmt.Errorf("%s; want %s", s.brief(), want) }

func (c *cell) hello(a asking) error {
	s := c.caller("Repeat exactly: "+vendortest.Hello, false, false).send(a)
	if s.status != 200 || s.text != vendortest.Hello || s.finish != "stop" || !s.complete || s.dropped != "" {
		return wrongSaid(&s, "the whole text")
	}
	return nil
}

// weather asks for calls of both tools.
const weather = `What is the weather? [[sandbox:call=get_weather {"city":"Paris"}]] [[sandbox:call=get_time]]`

func (c *cell) asksWeather() string {
	if c.name == "sandbox" {
		return weather
	}
	return "What is the weather?"
}

func (c *cell) calls(client *doorClient, a asking) ([]called, error) {
	a.tools = true
	s := client.send(a)
	if s.status != 200 || len(s.calls) != 2 || s.calls[0].name != "get_weather" || strings.ReplaceAll(s.calls[0].arguments, " ", "") != `{"city":"Paris"}` || s.calls[1].name != "get_time" || s.finish != "tool_calls" || !s.complete {
		return nil, wrongSaid(&s, "two calls")
	}
	return s.calls, nil
}

func (c *cell) callsTools(a asking) error {
	_, err := c.calls(c.caller(c.asksWeather(), false, false), a)
	return err
}

func (c *cell) twoTurns(a asking) error {
	client := c.caller(c.asksWeather(), false, false)
	return c.answers(client, a)
}

// answers lets the model call its tools, and answers.
func (c *cell) answers(client *doorClient, a asking) error {
	calls, err := c.calls(client, a)
	if err != nil {
		return err
	}
	client.result(calls, "Sunny", "Noon")
	a.tools = true
	s := client.send(a)
	if s.status != 200 || !strings.Contains(s.text, "Sunny") || !strings.Contains(s.text, "Noon") || len(s.calls) != 0 || s.finish != "stop" || !s.complete {
		return wrongSaid(&s, "a report of both results")
	}
	return nil
}

// fiveTurns holds a conversation of five turns, two of them with tools. What the model has thought comes back to it.
func (c *cell) fiveTurns(a asking) error {
	a.effort, a.tools = "high", true
	client := c.caller("Hello 1?", false, false)
	for turn := 1; turn <= 5; turn++ {
		if turn > 1 && turn%2 == 1 {
			client.say(fmt.Sprintf("Hello %d?", turn), false, false)
		} else if turn > 1 {
			client.say(fmt.Sprintf("What is the weather in turn %d?", turn), false, false)
			if err := c.answers(client, a); err != nil {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
			continue
		}
		c.vendor.Take()
		if s := client.send(a); s.status != 200 || s.text != vendortest.Hello || s.thinking != vendortest.Thought || s.dropped != "" {
			return fmt.Errorf("turn %d: %w", turn, wrongSaid(&s, "a thought and the text"))
		}
	}
	heard := c.vendor.Take()
	back := strings.Count(heard[len(heard)-1].Body, `"c2lnbmVk`)
	if want := c.thoughts(); back < want {
		return fmt.Errorf("%d thoughts came back to the model, want %d: %.2000s", back, want, heard[len(heard)-1].Body)
	}
	return nil
}

// thoughts returns how many of six earlier thoughts an upstream gets back: Claude all, others those that led to calls, or what
// the caller sends itself.
func (c *cell) thoughts() int {
	switch {
	case c.name == "chat":
		return 0
	case strings.Contains(c.upstream, "claude"), c.door == "responses" && c.column.door == "responses":
		return 6
	}
	return 2
}

// thinksBy asks with an effort. The model gets it, or the nearest that it takes; then the reply says so.
func (c *cell) thinksBy(effort string) error {
	s := c.caller("Repeat exactly: "+vendortest.Hello, false, false).send(asking{effort: effort})
	exact := c.efforts == nil || slices.Contains(c.efforts, effort)
	named := strings.Contains(s.dropped, "effort") || strings.Contains(s.dropped, "thinking")
	if s.status != 200 || s.text != vendortest.Hello || exact && named {
		return wrongSaid(&s, "the text, and nothing left out")
	}
	// Sonnet 5.5 does as good as nothing instead: it thinks between tools.
	if idle := effort == "none" && strings.Contains(c.upstream, "claude"); !exact && !named && !idle {
		return wrongSaid(&s, "the effort named in x-sluice-dropped")
	}
	if c.name == "sandbox" {
		return nil
	}
	heard := c.vendor.Take()
	body := strings.ToLower(heard[len(heard)-1].Body)
	if want := c.nearest(effort); !strings.Contains(body, `"`+want+`"`) {
		return fmt.Errorf("the vendor got %s, want %q in it", body, want)
	}
	return nil
}

// nearest returns the effort that the upstream shall get.
func (c *cell) nearest(effort string) string {
	switch {
	case c.efforts == nil || slices.Contains(c.efforts, effort):
		return effort
	case effort == "xhigh" || effort == "max":
		return c.efforts[len(c.efforts)-1]
	case effort == "none" && strings.Contains(c.upstream, "claude"):
		return "between_tools"
	}
	return "low"
}

func (c *cell) seesImage(a asking) error {
	if s := c.caller("What is it?", true, false).send(a); s.status != 200 || s.text != "I see 1 image." {
		return wrongSaid(&s, "that the image was seen")
	}
	return nil
}

func (c *cell) fillsSchema(a asking) error {
	a.schema = true
	s := c.caller("Which city? Paris", false, false).send(a)
	var place struct{ City string }
	if err := json.Unmarshal([]byte(s.text), &place); s.status != 200 || err != nil || place.City == "" || s.dropped != "" {
		return wrongSaid(&s, "an object by the schema")
	}
	return nil
}

// marksCache marks a text to be kept. An upstream that knows marks gets it, and what was written is in the usage; others do
// without, and the reply says so.
func (c *cell) marksCache(a asking) error {
	s := c.caller("Hello?", false, true).send(a)
	if s.status != 200 || s.text != vendortest.Hello {
		return wrongSaid(&s, "the text")
	}
	dropped := "" // OpenAI keeps all prompts for half an hour
	if (c.name == "responses" || c.name == "auto") && c.door != "responses" {
		dropped = "cache_control.ttl"
	}
	switch {
	case c.name == "chat" && c.door == "chat": // the caller's own words, whatever the server makes of them
	case c.name == "chat", c.name == "gemini":
		if !strings.Contains(s.dropped, "cache") {
			return wrongSaid(&s, "the mark named in x-sluice-dropped")
		}
	case s.written != 7 || s.dropped != dropped:
		return wrongSaid(&s, fmt.Sprintf("7 tokens written to the cache and %q dropped, got %v", dropped, s.written))
	}
	return nil
}

func (c *cell) declines(a asking) error {
	if s := c.caller("DECLINE", false, false).send(a); s.status != 200 || s.finish != "content_filter" {
		return wrongSaid(&s, "a refusal")
	}
	return nil
}

// breaks asks for a stream that breaks off: it must not look complete.
func (c *cell) breaks(text string) error {
	if c.name != "sandbox" {
		text, _, _ = strings.Cut(text, " ")
	}
	if s := c.caller(text, false, false).send(asking{stream: true}); s.status != 200 || s.complete || s.fault == nil || s.finish != "" || c.name != "sandbox" && s.text != "Hello, " {
		return wrongSaid(&s, "the beginning and an error")
	}
	return nil
}

// words are a part of what the caller reads of a failure, by its name.
var words = map[string][]string{
	"auth": {"vendor"}, "rate": {"organization", "quota"}, "overloaded": {}, "broken": {},
}

// fails asks a vendor who answers with a failure.
func (c *cell) fails(name string, status int) error {
	client := c.caller("Hello?", false, false)
	client.model += "-" + name
	about := object{"about": "obj_123456"}
	if c.door == "messages" {
		about = object{"user_id": "obj_123456"}
	}
	s := client.send(asking{more: object{"metadata": about}})
	message := str(s.fault["message"])
	want := map[string]string{"invalid": "valid", "missing": "", "long": "maximum context length is"}[name]
	if c.door == "messages" && name == "long" {
		want = "prompt is too long: 1200000 tokens > "
	}
	if s.status != status || message == "" || !strings.Contains(message, want) {
		return wrongSaid(&s, fmt.Sprintf("%d %q", status, want))
	}
	for _, word := range words[name] {
		if strings.Contains(message, word) {
			return wrongSaid(&s, "nothing of the operator's affairs")
		}
	}
	switch {
	case name == "long" && c.door == "responses" && s.fault["code"] != "context_length_exceeded",
		name == "long" && c.door == "chat" && obj(s.fault["details"])["error_code"] != "context_length_exceeded":
		return wrongSaid(&s, "code context_length_exceeded")
	case name == "invalid" && c.door == c.column.door && strings.Contains(message, "provider"):
		return wrongSaid(&s, "the vendor's own words")
	case name == "missing" && c.door == "messages" && obj(s.fault["details"])["error_code"] != "thread_not_found":
		return wrongSaid(&s, "the vendor's details")
	}
	return nil
}
