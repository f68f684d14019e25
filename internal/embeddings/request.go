// Package embeddings is the language of POST /v1/embeddings: it reads requests for vectors and writes the replies.
//
// Parse returns a Request in which every rule holds that does not depend on the model. Adapters of package provider turn
// it into Vectors, in whatever form their upstream gives them; Append writes them in the form that the caller asked for.
// Nothing here knows about HTTP, models or limits; see httpapi and inference.
package embeddings

import (
	"bytes"
	"encoding/json"
	"strconv"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/tokens"
)

// Bounds of a request (docs/api.md#embeddings). They are OpenAI's.
const (
	maxInputs = 2048
	// MaxInput and MaxTotal are tokens of one input and of all inputs together.
	MaxInput = 8192
	MaxTotal = 300_000

	maxModel      = 256 // bytes
	maxUser       = 512 // bytes
	maxDimensions = 65_536
	maxToken      = 1<<31 - 1

	// maxTokenBytes is the number of bytes beyond which no token of usual text goes. A text that is longer than so many
	// times its limit is refused without counting it.
	maxTokenBytes = 16
)

// bodyShape is the keys of a request that we or an upstream read.
var bodyShape = chat.Keys("model", "input", "encoding_format", "dimensions", "user", "input_type", "truncate", "task_type", "texts", "inputs", "images", "models", "provider", "options", "keep_alive", "extra_body", "max_cost", "usage")

// Request is one request. It has at least one input.
type Request struct {
	Model      string
	Inputs     []Input
	Base64     bool // the caller wants vectors in base64 instead of numbers
	Dimensions int  // 0: as many as the model gives
	User       string
}

// Input is a text, or the tokens of one, which only the tokenizer of the model can read.
type Input struct {
	Text   string
	Tokens []int // nil: it is a text
}

// Parse reads a request. The error is a fault that names the field.
func Parse(body []byte) (*Request, error) {
	if err := chat.Check(body, "model and input", bodyShape); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fault.New(fault.Invalid, "The body cannot be read as JSON") // Check lets nothing pass that fails here
	}
	r := &Request{}
	var err error
	if r.Model, err = text(fields["model"], "model", maxModel); err != nil {
		return nil, err
	}
	if r.Model == "" {
		return nil, bad("model", "is required")
	}
	if err := r.readInputs(fields["input"]); err != nil {
		return nil, err
	}
	format, err := text(fields["encoding_format"], "encoding_format", 16)
	switch {
	case err != nil, format != "" && format != "float" && format != "base64":
		return nil, bad("encoding_format", `must be "float" or "base64"`)
	}
	r.Base64 = format == "base64"
	if raw := fields["dimensions"]; given(raw) {
		n, ok := whole(raw, 1, maxDimensions)
		if !ok {
			return nil, bad("dimensions", "must be a whole number from 1 to %d", maxDimensions)
		}
		r.Dimensions = n
	}
	r.User, err = text(fields["user"], "user", maxUser)
	return r, err
}

// bad returns the fault of a field. The format continues a sentence that begins with the field.
func bad(field, format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, field+" "+format, args...).At(field)
}

// given reports whether a field is there and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// text reads a text of at most most bytes. It returns "" for a field that is not there.
func text(raw json.RawMessage, field string, most int) (s string, err error) {
	if !given(raw) {
		return "", nil
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", bad(field, "must be a string")
	}
	if len(s) > most {
		return "", bad(field, "has %d bytes; the most is %d", len(s), most)
	}
	return s, nil
}

// whole reads a whole number within bounds.
func whole(raw json.RawMessage, least, most int) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && n >= least && n <= most && string(raw) != "-0"
}

const inputForms = "must be a string, an array of strings, an array of tokens, or an array of arrays of tokens"

// readInputs reads input in one of its four forms.
func (r *Request) readInputs(raw json.RawMessage) error {
	if !given(raw) {
		return bad("input", "is required")
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return bad("input", inputForms)
		}
		return r.addText(s, "input")
	case '[':
	default:
		return bad("input", inputForms)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return bad("input", inputForms)
	}
	if len(list) == 0 {
		return bad("input", "must not be empty")
	}
	if first := list[0][0]; first != '"' && first != '[' {
		return r.addTokens(list, "input")
	}
	if len(list) > maxInputs {
		return bad("input", "has %d entries; the most is %d", len(list), maxInputs)
	}
	for i, entry := range list {
		path := "input[" + strconv.Itoa(i) + "]"
		if entry[0] != list[0][0] {
			return bad(path, "is of another type than the entries before it")
		}
		if entry[0] == '"' {
			var s string
			if json.Unmarshal(entry, &s) != nil {
				return bad(path, "must be a string")
			}
			if err := r.addText(s, path); err != nil {
				return err
			}
			continue
		}
		var tokens []json.RawMessage
		if json.Unmarshal(entry, &tokens) != nil {
			return bad(path, "must be an array of tokens")
		}
		if err := r.addTokens(tokens, path); err != nil {
			return err
		}
	}
	return nil
}

// addText adds a text.
func (r *Request) addText(s, path string) error {
	if s == "" {
		return bad(path, "must not be empty")
	}
	r.Inputs = append(r.Inputs, Input{Text: s})
	return nil
}

// addTokens adds the tokens of a text.
func (r *Request) addTokens(list []json.RawMessage, path string) error {
	if len(list) == 0 {
		return bad(path, "must not be empty")
	}
	if len(list) > MaxTotal {
		return bad(path, "has %d tokens; the most in all is %d", len(list), MaxTotal)
	}
	in := Input{Tokens: make([]int, len(list))}
	for i, raw := range list {
		n, ok := whole(raw, 0, maxToken)
		if !ok {
			if path == "input" && i == 0 && (raw[0] == '{' || bytes.ContainsAny(raw[:1], "tfn")) {
				return bad(path, inputForms)
			}
			return bad(path+"["+strconv.Itoa(i)+"]", "must be a token: a whole number from 0")
		}
		in.Tokens[i] = n
	}
	r.Inputs = append(r.Inputs, in)
	return nil
}

// Bytes returns the length of all texts, and the number of tokens that were given as such.
func (r *Request) Bytes() (bytes, tokens int) {
	for i := range r.Inputs {
		bytes += len(r.Inputs[i].Text)
		tokens += len(r.Inputs[i].Tokens)
	}
	return bytes, tokens
}

// Texts reports whether all inputs are texts.
func (r *Request) Texts() bool {
	for i := range r.Inputs {
		if r.Inputs[i].Tokens != nil {
			return false
		}
	}
	return true
}

// Sure reports whether the inputs certainly fit, most tokens each and MaxTotal in all, without counting them: a token has
// at least one byte.
func (r *Request) Sure(most int) bool {
	total := 0
	for i := range r.Inputs {
		n := max(len(r.Inputs[i].Text), len(r.Inputs[i].Tokens))
		if n > most {
			return false
		}
		total += n
	}
	return total <= MaxTotal
}

// Check returns a fault if an input has more than most tokens, or all of them have more than MaxTotal. count counts the
// tokens of a text; if it is nil, only what is wrong without counting is found. It returns the number of tokens.
func (r *Request) Check(most int, count func(string) int) (int, error) {
	total := 0
	for i := range r.Inputs {
		in := &r.Inputs[i]
		n, about := len(in.Tokens), ""
		switch {
		case in.Tokens != nil:
		case len(in.Text) > most*maxTokenBytes:
			n, about = len(in.Text)/maxTokenBytes, "more than "
		case count != nil:
			n = count(in.Text)
		}
		if n > most {
			path := "input"
			if len(r.Inputs) > 1 {
				path += "[" + strconv.Itoa(i) + "]"
			}
			return 0, bad(path, "has %s%d tokens; the model %q reads at most %d of one input", about, n, r.Model, most)
		}
		if total += n; total > MaxTotal {
			return 0, bad("input", "has more than %d tokens in all, the most of one request", MaxTotal)
		}
	}
	return total, nil
}

// About returns the number of tokens of all inputs, by a sample where they are long.
func (r *Request) About() (n int) {
	const small = 16 << 10 // bytes, up to which counting is cheap
	bytes, n := r.Bytes()
	if bytes > small {
		return n + bytes/4
	}
	return n + r.count()
}

// Count returns the number of tokens of all inputs by our own tokenizer.
func (r *Request) Count() int {
	_, n := r.Bytes()
	return n + r.count()
}

// count counts the tokens of the texts.
func (r *Request) count() (n int) {
	for i := range r.Inputs {
		if r.Inputs[i].Tokens == nil {
			n += tokens.Count(r.Inputs[i].Text)
		}
	}
	return n
}
