package responses

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Original returns the request for an upstream of the same dialect, which gets the caller's own members; nil if it must be
// translated. It must be called after Compose, with the same past.
//
// There is none for a conversation with MCP servers, which are called here, or whose oldest turns were left out.
func (r *Request) Original(past *Past) *chat.Original {
	if r.tools.servers() || r.skipped > 0 {
		if r.needs.Path == "" {
			return nil
		}
		return &chat.Original{Dialect: chat.DialectResponses, Needs: r.needs, Tools: r.offers}
	}
	return &chat.Original{
		Dialect: chat.DialectResponses, Needs: r.needs, Tools: r.offers, Remote: r.remote, Loose: r.loose,
		Compose: func(model string, most int, thinks bool, allow *allowance.Set) ([]byte, []string, error) {
			return r.native(past, model, most, thinks, allow)
		},
	}
}

// native returns the body for an upstream of the dialect: the caller's, with another model, with the whole conversation
// in it, and without what the operator does not allow. The upstream stores nothing, so it must hand out its reasoning if
// that is to come back.
func (r *Request) native(past *Past, model string, most int, thinks bool, allow *allowance.Set) (_ []byte, dropped []string, err error) {
	allowed := chat.NewWithholder(allowance.Responses, allow)
	b := jsonscan.AppendQuoted([]byte(`{"model":`), model)
	b = append(b, `,"store":false,"input":[`...)
	first := len(b)
	add := func(item chat.Value) {
		switch kind := item.Given("type").Text(); {
		case strings.HasPrefix(kind, "mcp_"): // of an earlier turn, whose servers this one does not have
			return
		case kind == "reasoning" && !foreignContent(item):
			return
		}
		if len(b) > first {
			b = append(b, ',')
		}
		b = appendOwn(b, item)
	}
	if past != nil {
		for _, raw := range past.Items {
			add(chat.ValueOf(allowed.Item(raw)))
		}
	}
	body, err := allowed.Body(r.body)
	if err != nil {
		r.refused = err // its path is in the words of the caller
		return nil, nil, err
	}
	root := chat.ValueOf(body)
	for all := chat.ValueOf(r.appendItems(nil, root.Given("input"))).Walk(); all.Next(); {
		add(all.Value)
	}
	b = append(b, ']')
	for walk := root.Walk(); walk.Next(); {
		key, v := string(walk.Key), walk.Value.Raw()
		switch key {
		case "model", "store", "input", "previous_response_id", "truncation", "include":
			continue
		case "prompt_cache_key":
			if walk.Value.Null() { // the adapter may add one
				continue
			}
		case "max_output_tokens":
			if n := int(r.settings.maxOutput.Number()); n > most {
				v = strconv.AppendInt(nil, int64(most), 10)
			}
		case "tools":
			if walk.Value.Kind() == '[' && walk.Value.IsEmpty() { // some upstreams refuse an empty list
				continue
			}
		}
		b = append(chat.AppendName(b, key), v...)
	}
	if include := r.included(thinks); include != nil {
		b = append(append(b, `,"include":`...), include...)
	}
	return append(b, '}'), allowed.Dropped(), nil
}

// included returns what the upstream is asked to include. If the response is stored here and the model reasons, its
// reasoning is part of the conversation, which the upstream can only read if it has sealed it. Models that do not reason
// refuse to be asked for that.
func (r *Request) included(thinks bool) []byte {
	list := chat.ValueOf(r.body).Given("include")
	if r.Encrypted || !r.Store || !thinks && !r.settings.reasoning.Exists() {
		return list.Raw()
	}
	b := []byte(`["reasoning.encrypted_content"`)
	for walk := list.Walk(); walk.Next(); {
		b = append(append(b, ','), walk.Value.Raw()...)
	}
	return append(b, ']')
}

// foreignContent reports whether an upstream has sealed the content of a reasoning item. What was sealed here, or not at all,
// means nothing to it.
func foreignContent(item chat.Value) bool {
	sealed := item.Given("encrypted_content").Text()
	return sealed != "" && !strings.HasPrefix(sealed, sealedHere)
}

// appendOwn appends an item without its id, unless it must have one: the upstream has stored none of them.
func appendOwn(b []byte, item chat.Value) []byte {
	kind := item.Given("type").Text()
	if !item.Given("id").Exists() || kind != "message" && kind != "" && kind != "function_call" && kind != "custom_tool_call" {
		return append(b, oneLine(item.Raw())...)
	}
	b = append(b, '{')
	for walk := item.Walk(); walk.Next(); {
		if string(walk.Key) != "id" {
			b = append(chat.AppendName(b, string(walk.Key)), oneLine(walk.Value.Raw())...)
		}
	}
	return append(b, '}')
}

// Dropped implements relay.Namer. What only an upstream of the dialect knows is dropped for every other one.
func (w *Writer) Dropped(names []string, quoted bool) []string {
	out := make([]string, 0, len(names)+len(w.req.tools.absent)+len(w.req.unread))
	add := func(name string) {
		if len(out) < provider.MaxDropped && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, name := range names {
		name = strings.Replace(name, "messages[]", "input[]", 1)
		name = strings.Replace(name, "tools[].function.", "tools[].", 1)
		for _, n := range fieldNames {
			if rest, ok := strings.CutPrefix(name, n.chat); ok && (rest == "" || rest[0] == '.') {
				name = n.here + rest
				break
			}
		}
		add(name)
	}
	if !quoted {
		for _, kind := range w.req.tools.absent {
			add("tools." + kind)
		}
		for _, name := range w.req.unread {
			add(name)
		}
	}
	return out
}

// relayed is the state of a reply whose upstream speaks the dialect. Its events go out as they are, but for the names that
// are ours: the id of the response and of its items, the model, and what is stored. The last event waits for the end.
type relayed struct {
	ids  map[string]string // of items, by those of the upstream
	kind string            // of the last event
	// scrap is what our own words are written to and thrown away.
	scrap []byte
	last  []byte // the Response object of the last event, or of a reply that is not streamed
}

// speaks reports whether the upstream's words begin a reply of the form that the caller wants. Some upstreams stream, or do
// not, whatever they are asked for; then the reply is translated.
func (w *Writer) speaks(raw []byte) bool {
	line, _, _ := bytes.Cut(raw, []byte{'\n'})
	if !json.Valid(line) {
		return false
	}
	v := chat.ValueOf(line)
	if w.req.Stream {
		return v.Given("type").Text() == "response.created"
	}
	return v.Given("object").Text() == "response"
}

// relay hands on what the upstream said. raw has an event on each line; see provider.Event.
func (w *Writer) relay(b, raw []byte) []byte {
	for line := range bytes.SplitSeq(raw, []byte{'\n'}) {
		if !json.Valid(line) { // no client could read it either
			continue
		}
		v := chat.ValueOf(line)
		if !w.req.Stream {
			if v.Given("object").Text() == "response" {
				w.native.last = bytes.Clone(v.Raw())
			}
			continue
		}
		kind := v.Given("type").Text()
		switch kind {
		case "", "error", "response.failed": // Fault writes them
			continue
		case "response.completed", "response.incomplete":
			w.native.kind, w.native.last = kind, bytes.Clone(v.Given("response").Raw())
			continue
		}
		if strings.ContainsAny(kind, "\r\n") {
			continue
		}
		b = append(append(append(b, "event: "...), kind...), "\ndata: "...)
		b = append(w.rename(b, v), "\n\n"...)
	}
	return b
}

// rename appends an event with our names and our own sequence numbers.
func (w *Writer) rename(b []byte, event chat.Value) []byte {
	index, _ := strconv.Atoi(string(event.Given("output_index").Raw()))
	b = append(b, '{')
	for walk := event.Walk(); walk.Next(); {
		key, v := string(walk.Key), walk.Value
		b = chat.AppendName(b, key)
		switch {
		case key == "sequence_number":
			b = strconv.AppendInt(b, int64(w.seq), 10)
			w.seq++
		case key == "item_id" && v.IsText():
			b = jsonscan.AppendQuoted(b, w.itemID(v.Text(), index))
		case key == "item" && v.Kind() == '{':
			b = w.renameItem(b, v, index)
		case key == "response" && v.Kind() == '{':
			b = w.renameResponse(b, v, nil)
		default:
			b = append(b, v.Raw()...)
		}
	}
	return append(b, '}')
}

// itemID returns our id of an item of the upstream. It holds that of the response, so that the item can be referred to.
func (w *Writer) itemID(theirs string, index int) string {
	if ours, ok := w.native.ids[theirs]; ok {
		return ours
	}
	prefix, _, _ := strings.Cut(theirs, "_")
	if len(prefix) > 16 || prefix == "" {
		prefix = "item"
	}
	if w.native.ids == nil {
		w.native.ids = map[string]string{}
	}
	ours := prefix + "_" + w.head.RequestID + "_" + strconv.Itoa(index)
	w.native.ids[theirs] = ours
	return ours
}

// renameItem appends an item with our id.
func (w *Writer) renameItem(b []byte, item chat.Value, index int) []byte {
	b = append(b, '{')
	for walk := item.Walk(); walk.Next(); {
		b = chat.AppendName(b, string(walk.Key))
		if string(walk.Key) == "id" && walk.Value.IsText() {
			b = jsonscan.AppendQuoted(b, w.itemID(walk.Value.Text(), index))
		} else {
			b = append(b, walk.Value.Raw()...)
		}
	}
	return append(b, '}')
}

// renameResponse appends a Response object with our names. What the caller asked for and we decide is what the caller said.
// The usage is for an upstream that says none at the end; nil while there is no end.
func (w *Writer) renameResponse(b []byte, response chat.Value, u *chat.Usage) []byte {
	b = append(append(append(b, `{"id":"resp_`...), w.head.RequestID...), `","model":`...)
	b = jsonscan.AppendQuoted(b, w.head.Model)
	b = strconv.AppendBool(append(b, `,"store":`...), w.req.Store)
	b = append(b, `,"previous_response_id":`...)
	if w.req.Previous != "" {
		b = jsonscan.AppendQuoted(b, w.req.Previous)
	} else {
		b = append(b, "null"...)
	}
	for walk := response.Walk(); walk.Next(); {
		key, v := string(walk.Key), walk.Value
		switch key {
		case "id", "model", "store", "previous_response_id":
			continue
		case "usage":
			if v.Kind() == '{' {
				b, u = w.cost(appendTheirUsage(chat.AppendName(b, key), v)), nil
				continue
			} else if u != nil {
				continue
			}
		}
		b = chat.AppendName(b, key)
		if key != "output" || v.Kind() != '[' {
			b = append(b, v.Raw()...)
			continue
		}
		b = w.renameOutput(b, v)
	}
	if u != nil {
		b = w.cost(appendUsage(chat.AppendName(b, "usage"), u))
	}
	return append(b, '}')
}

// renameOutput appends the items of a response with our ids.
func (w *Writer) renameOutput(b []byte, output chat.Value) []byte {
	b = append(b, '[')
	for items := output.Walk(); items.Next(); {
		if items.Index > 0 {
			b = append(b, ',')
		}
		if items.Value.Kind() == '{' {
			b = w.renameItem(b, items.Value, items.Index)
		} else {
			b = append(b, items.Value.Raw()...)
		}
	}
	return append(b, ']')
}

// details are the members of usage that clients' types require, each with the counts that it must have.
var details = []struct {
	name   string
	counts []string
}{
	{"input_tokens_details", []string{"cached_tokens", "cache_write_tokens"}},
	{"output_tokens_details", []string{"reasoning_tokens"}},
}

// appendTheirUsage appends the usage of an upstream, with a zero for each count that it does not have, and without what the call
// costs the operator, which some upstreams tell.
func appendTheirUsage(b []byte, usage chat.Value) []byte {
	b = append(b, '{')
	for walk := usage.Walk(); walk.Next(); {
		if key := string(walk.Key); key != details[0].name && key != details[1].name && !chat.IsCost(key) {
			b = append(chat.AppendName(b, key), walk.Value.Raw()...)
		}
	}
	for _, d := range details {
		b = append(chat.AppendName(b, d.name), '{')
		given := usage.Given(d.name)
		for walk := given.Walk(); given.Kind() == '{' && walk.Next(); {
			b = append(chat.AppendName(b, string(walk.Key)), walk.Value.Raw()...)
		}
		for _, name := range d.counts {
			if given.Kind() != '{' || !given.Member(name).Exists() {
				b = append(chat.AppendName(b, name), '0')
			}
		}
		b = append(b, '}')
	}
	return append(b, '}')
}
