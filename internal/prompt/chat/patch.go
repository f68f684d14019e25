package chat

import (
	"cmp"
	"slices"

	"sluice/internal/kit/jsonscan"
)

// Patch says what changes in the caller's body before an upstream of the same dialect gets it. Names
// are those of top-level members. Even the zero Patch leaves out what upstreams refuse:
// stream_options without stream, empty stop sequences, and empty lists of stop sequences, tools and calls. A Patch is not
// changed by its use, so an adapter may keep one for each target.
type Patch struct {
	// Model replaces the model; empty keeps it.
	Model string
	// IncludeUsage asks for the usage at the end of a stream, even if the caller did not. Calls are
	// settled by it.
	IncludeUsage bool
	// SystemRole replaces the role developer by system, for upstreams that do not know developer.
	SystemRole bool
	// Drop lists members to leave out. The model is never left out.
	Drop []string
	// Set lists members to write, in place of the caller's or in addition. It wins over Drop and
	// IncludeUsage; Model wins over it. Names must be distinct.
	Set []Setting
	// Marks says how marks for a cache are written.
	Marks MarkStyle
	// Edits change members of messages, in the order of the messages.
	Edits []MessageEdit
}

// MessageEdit gives a member of a message another value, or adds it. A nil Value leaves it out. Everything around it stays
// as it is.
type MessageEdit struct {
	Message int // its index
	Name    string
	Value   []byte // JSON
}

// MarkStyle is how a vendor writes marks.
type MarkStyle uint8

const (
	MarksAsSent     MarkStyle = iota // as the caller has written them; those of another dialect are left out
	MarksNone                        // not at all
	MarksControl                     // as cache_control
	MarksBreakpoint                  // as prompt_cache_breakpoint
	marksOwn                         // each as its own dialect has it, for messages that are read again
)

// Setting is a member and the JSON of its value. Name is unescaped; AppendUpstream quotes it. Value is
// written as it is, so it must be valid JSON.
type Setting struct {
	Name  string
	Value []byte
}

// What IncludeUsage writes: into the caller's stream_options, or as a member of its own.
const (
	usageMember  = `"include_usage":true`
	usageOptions = `"stream_options":{` + usageMember + `},`
)

// AppendUpstream appends the caller's body with p applied to it. Every byte that p does not change is
// the caller's own. It allocates nothing but room in dst. Only a Request that Parse returned, or
// that a Builder made, has a body; for another one AppendUpstream panics.
//
// The model is a required member and is never left out. So the result is never an empty object, and a
// member that is added in front always has another one after its comma.
func (r *Request) AppendUpstream(dst []byte, p Patch) []byte {
	dst, _ = r.appendUpstream(dst, p, member{})
	return dst
}

// longMessages is the length from which Upstream does not copy the messages.
const longMessages = 16 << 10

// Upstream returns what AppendUpstream appends, in three pieces. Long messages of a body are a piece of it, so that nobody
// copies them.
func (r *Request) Upstream(p Patch) [3][]byte { return r.upstream(p, longMessages) }

// upstream is Upstream, for which messages are long from that length on.
func (r *Request) upstream(p Patch, long int32) [3][]byte {
	for _, m := range r.members {
		if m.field == fieldMessages && m.to-m.value >= long && r.keeps(m, p) {
			rest, cut := r.appendUpstream(nil, p, m)
			return [3][]byte{rest[:cut], r.raw[m.value:m.to], rest[cut:]}
		}
	}
	return [3][]byte{r.AppendUpstream(nil, p)}
}

// keeps reports whether p leaves the messages as they are.
func (r *Request) keeps(messages member, p Patch) bool {
	key := r.raw[messages.from:messages.keyTo]
	return !r.edited(p) && p.setting(key) == nil && !p.drops(key)
}

// edited reports whether p changes something inside the messages.
func (r *Request) edited(p Patch) bool {
	return len(p.Edits) > 0 || r.marked && p.Marks != MarksAsSent || slices.ContainsFunc(r.edits, func(e edit) bool { return !e.role || p.SystemRole })
}

// appendUpstream appends the caller's body with p applied to it, without the value of the member left, which may be the
// zero member. It returns where that value belongs.
func (r *Request) appendUpstream(dst []byte, p Patch, left member) (_ []byte, cut int) {
	// An upper bound in nearly every case, so that dst grows once: escapes may double the model's name.
	room := len(r.raw) - int(left.to-left.value) + 2*len(p.Model) + len(usageOptions)
	if r.built {
		room += r.size.bytes + r.size.bytes/8 + 128*len(r.Messages)
	}
	for _, s := range p.Set {
		room += len(s.Name) + len(s.Value) + len(`"":,`)
	}
	dst = slices.Grow(dst, room)

	// The opening brace and white space. Missing members come first, before the caller's.
	dst = append(dst, r.raw[:r.members[0].from]...)
	dst = r.appendMissing(dst, p)
	kept := false
	for i, m := range r.members {
		// Set wins over Drop; only the model wins over Set.
		set := p.setting(r.raw[m.from:m.keyTo])
		if m.field != fieldModel && set == nil && (r.hides(m) || p.drops(r.raw[m.from:m.keyTo])) {
			continue
		}
		if kept {
			// Between two members there is one comma, and white space.
			dst = append(dst, r.raw[r.members[i-1].to:m.from]...)
		}
		kept = true
		dst = append(dst, r.raw[m.from:m.value]...)
		switch {
		case m == left:
			cut = len(dst)
		case m.field == fieldModel && p.Model != "":
			dst = jsonscan.AppendQuoted(dst, p.Model)
		case set != nil:
			dst = append(dst, set.Value...)
		case m.field == fieldStop && r.emptyStops:
			dst = r.appendStops(dst)
		case m.field == fieldStreamOptions && r.Stream && (p.IncludeUsage && !r.IncludeUsage || r.resumes):
			dst = r.appendStreamOptions(dst, m, p.IncludeUsage)
		case m.field == fieldMessages && r.built:
			dst = r.appendBuilt(dst, p)
		case m.field == fieldMessages && (len(r.edits) > 0 || len(p.Edits) > 0 || r.marked && p.Marks != MarksAsSent):
			dst = r.appendMessages(dst, m, p)
		default:
			dst = append(dst, r.raw[m.value:m.to]...)
		}
	}
	return append(dst, r.raw[r.members[len(r.members)-1].to:]...), cut
}

// hides reports whether the member is left out for every upstream: usage, max_cost, budget and auto_cache, which are ours; stream_options
// without stream, a stop that has only empty strings or none, and an empty list of tools, with what is said about tools. Some upstreams answer each of
// those with a 400.
func (r *Request) hides(m member) bool {
	switch m.field {
	case fieldOurs:
		return true
	case fieldStreamOptions:
		return !r.Stream
	case fieldStop:
		return len(r.Stop) == 0 && r.raw[m.value] != 'n'
	case fieldTools:
		return r.noTools
	}
	return false
}

// appendStops appends the stop sequences that are not empty, as an array. There is at least one; hides
// has left out the member otherwise.
func (r *Request) appendStops(dst []byte) []byte {
	for i, s := range r.Stop {
		dst = jsonscan.AppendQuoted(append(dst, "[,"[min(i, 1)]), s)
	}
	return append(dst, ']')
}

// appendMissing appends the members that the caller did not send, each followed by a comma. The comma
// is always right, because at least the model follows. stream_options counts as missing if p drops the
// caller's: IncludeUsage still writes its own.
func (r *Request) appendMissing(dst []byte, p Patch) []byte {
	for _, s := range p.Set {
		if r.Member(s.Name) == nil {
			dst = jsonscan.AppendQuoted(dst, s.Name)
			dst = append(dst, ':')
			dst = append(dst, s.Value...)
			dst = append(dst, ',')
		}
	}
	// As JSON, with quotes: setting and drops compare with the caller's bytes.
	const options = `"stream_options"`
	if !p.IncludeUsage || !r.Stream || p.setting([]byte(options)) != nil {
		return dst
	}
	if p.drops([]byte(options)) || r.Member("stream_options") == nil {
		dst = append(dst, usageOptions...)
	}
	return dst
}

// setting returns what p sets the member with the given key to, or nil. The key is the caller's JSON,
// with its quotes.
func (p *Patch) setting(key []byte) *Setting {
	for i := range p.Set {
		if jsonscan.Equal(key, p.Set[i].Name) {
			return &p.Set[i]
		}
	}
	return nil
}

// drops reports whether p leaves out the member with the given key, which is JSON with its quotes.
func (p *Patch) drops(key []byte) bool {
	return slices.ContainsFunc(p.Drop, func(name string) bool { return jsonscan.Equal(key, name) })
}

// appendStreamOptions appends the caller's stream_options without resumable, which is ours, and with
// include_usage true if usage is set. Other options, which the upstream may know and we do not, are kept.
func (r *Request) appendStreamOptions(dst []byte, m member, usage bool) []byte {
	dst = append(dst, '{')
	if usage {
		dst = append(dst, usageMember...)
	}
	for w := ValueOf(r.raw[m.value:m.to]).Walk(); w.Next(); {
		if string(w.Key) != "resumable" && !(usage && string(w.Key) == "include_usage") {
			dst = append(AppendName(dst, string(w.Key)), w.Value.raw...)
		}
	}
	return append(dst, '}')
}

// appendMessages appends the caller's messages without empty tool_calls and, if p wants that, with the role system for
// developer, and with marks in another style. Parse recorded the first two in the order of the body.
func (r *Request) appendMessages(dst []byte, m member, p Patch) []byte {
	edits := r.edits
	if r.marked && p.Marks != MarksAsSent || len(p.Edits) > 0 {
		edits = slices.Clone(edits)
		if r.marked && p.Marks != MarksAsSent {
			edits = append(edits, r.markEdits(m, p.Marks)...)
		}
		edits = r.memberEdits(edits, m, p.Edits)
		slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	}
	return appendEdited(dst, r.raw, span{int(m.value), int(m.to)}, edits, p.SystemRole)
}

// appendEdited appends a part of a text with edits, which are in the order of the text.
func appendEdited(dst, text []byte, part span, edits []edit, systemRole bool) []byte {
	from := part.from
	for _, e := range edits {
		if e.role && !systemRole || e.to < from || e.to == from && e.from < from { // the latter are inside of another edit
			continue
		}
		if e.from < from { // two members in a row are left out, the first of which took the comma
			e.from, e.to = from, jsonscan.Space(text, jsonscan.Space(text, e.to)+1)
		}
		dst = append(append(dst, text[from:e.from]...), e.with...)
		from = e.to
	}
	return append(dst, text[from:part.to]...)
}

// memberEdits appends what changes in the messages of a body for the edits of a Patch.
func (r *Request) memberEdits(edits []edit, messages member, wanted []MessageEdit) []edit {
	for w := ValueOf(r.raw[messages.value:messages.to]).Walk(); len(wanted) > 0 && w.Next(); {
		for len(wanted) > 0 && wanted[0].Message == w.Index {
			edits = append(edits, memberEdit(r.raw, int(messages.value), w.Value, wanted[0]))
			wanted = wanted[1:]
		}
	}
	return edits
}

// memberEdit returns what changes in an object of a text, whose places are counted from at.
func memberEdit(text []byte, at int, object Value, wanted MessageEdit) edit {
	before := object.Offset() + 1
	for m := object.Walk(); m.Next(); before = m.Value.Offset() + len(m.Value.raw) {
		switch {
		case string(m.Key) != wanted.Name:
		case wanted.Value == nil:
			return without(text, at, before, m.Value)
		default:
			return edit{span: span{at + m.Value.Offset(), at + m.Value.Offset() + len(m.Value.raw)}, with: wanted.Value}
		}
	}
	end := at + object.Offset() + len(object.raw) - 1
	if wanted.Value == nil {
		return edit{span: span{end, end}}
	}
	return edit{span: span{end, end}, with: append(jsonscan.AppendQuoted([]byte{','}, wanted.Name), append([]byte{':'}, wanted.Value...)...)}
}
