// Package embeddings is the language of POST /v1/embeddings: it reads requests for vectors and writes the replies.
//
// Parse returns a Request in which every rule holds that does not depend on the model. Adapters of package provider turn
// it into Vectors, in whatever form their upstream gives them; Append writes them in the form that the caller asked for.
// Nothing here knows about HTTP, models or limits; see httpapi and inference.
package embeddings

import (
	"bytes"
	"slices"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
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

	// maxTokenBytes is the length in bytes that no token of usual text exceeds. A text that is longer than so many
	// times its limit is refused without counting it.
	maxTokenBytes = 16
)

// bodyShape is the keys of a request that we or an upstream read.
var bodyShape = chat.Keys("model", "input", "encoding_format", "dimensions", "user", "input_type", "truncate", "task_type", "texts", "inputs", "images", "models", "provider", "options", "keep_alive", "extra_body", "max_cost").With(chat.Shape{"usage": chat.Keys("include"), "budget": chat.Keys("clamp")})

// Request is one request. It has at least one input.
type Request struct {
	Model      string
	Inputs     []Input
	Base64     bool // the caller wants vectors in base64 instead of numbers
	Dimensions int  // 0: as many as the model gives
	User       string
	TellCost   bool // usage.include: the usage of the reply says what it costs. Upstreams do not get it
	// MaxCost is max_cost, the most that the call may cost in dollars, as the caller wrote the number; empty: it is not given.
	// Upstreams do not get it.
	MaxCost string
}

// Input is a text, or the tokens of one, which only the tokenizer of the model can read.
type Input struct {
	Text   string
	Tokens []int // nil: it is a text
}

// Parse reads a request. The error is a fault that names the field.
func Parse(body []byte) (*Request, error) {
	root, err := chat.Check(body, "model and input", bodyShape)
	if err != nil {
		return nil, err
	}
	r := &Request{}
	if r.Model, err = text(root.Given("model"), "model", maxModel); err != nil {
		return nil, err
	}
	if r.Model == "" {
		return nil, bad("model", "is required")
	}
	if err := r.readInputs(root.Given("input")); err != nil {
		return nil, err
	}
	format, err := text(root.Given("encoding_format"), "encoding_format", 16)
	switch {
	case err != nil, format != "" && format != "float" && format != "base64":
		return nil, bad("encoding_format", `must be "float" or "base64"`)
	}
	r.Base64 = format == "base64"
	if v := root.Given("dimensions"); v.Exists() {
		n, ok := whole(v.Raw(), 1, maxDimensions)
		if !ok {
			return nil, bad("dimensions", "must be a whole number from 1 to %d", maxDimensions)
		}
		r.Dimensions = n
	}
	if r.User, err = text(root.Given("user"), "user", maxUser); err != nil {
		return nil, err
	}
	if err := r.readUsage(root.Given("usage")); err != nil {
		return nil, err
	}
	if err := r.readMaxCost(root.Given("max_cost")); err != nil {
		return nil, err
	}
	return r, checkBudget(root.Given("budget"))
}

// readMaxCost reads max_cost.
func (r *Request) readMaxCost(v chat.Value) error {
	if !v.Exists() {
		return nil
	}
	if n := v.Number(); !v.IsNumber() || n < 0 || n > chat.MostCost {
		return bad("max_cost", "must be a number of dollars from 0 to %d", chat.MostCost)
	}
	r.MaxCost = string(v.Raw())
	return nil
}

// checkBudget checks budget. Vectors cannot be made shorter, so nothing follows from it here.
func checkBudget(v chat.Value) error {
	if !v.Exists() {
		return nil
	}
	if v.Kind() != '{' {
		return bad("budget", `must be an object such as {"clamp": true}`)
	}
	for w := v.Walk(); w.Next(); {
		switch {
		case string(w.Key) != "clamp":
			return bad("budget", "has a member that is not known; it has clamp alone")
		case !w.Value.Null() && !w.Value.IsBool():
			return bad("budget.clamp", "must be a boolean")
		}
	}
	return nil
}

// readUsage reads usage, which says what the usage of the reply tells.
func (r *Request) readUsage(v chat.Value) error {
	if !v.Exists() {
		return nil
	}
	include := v.Given("include")
	switch {
	case v.Kind() != '{':
		return bad("usage", `must be an object such as {"include": true}`)
	case include.Exists() && !include.IsBool():
		return bad("usage.include", "must be a boolean")
	}
	r.TellCost = include.Kind() == 't'
	return nil
}

// bad returns the fault of a field. The format continues a sentence that begins with the field.
func bad(field, format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, field+" "+format, args...).At(field)
}

// text reads a text of at most most bytes. It returns "" for a field that is not there.
func text(v chat.Value, field string, most int) (string, error) {
	switch {
	case !v.Exists():
		return "", nil
	case !v.IsText():
		return "", bad(field, "must be a string")
	case v.Size() > most:
		return "", bad(field, "has %d bytes; the most is %d", v.Size(), most)
	}
	return v.Text(), nil
}

// whole reads a whole number within bounds.
func whole(raw []byte, least, most int) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && n >= least && n <= most && string(raw) != "-0"
}

// inputForms is the message about an input of any other type.
const inputForms = "must be a string, an array of strings, an array of tokens, or an array of arrays of tokens"

// readInputs reads input in one of its four forms. It counts while it reads, and stops at the first entry or token that is
// too many: a body can have millions of them.
func (r *Request) readInputs(v chat.Value) error {
	left := room{tokens: MaxTotal, bytes: MaxTotal * maxTokenBytes}
	switch {
	case !v.Exists():
		return bad("input", "is required")
	case v.IsText():
		return r.addText(v, "input", &left)
	case v.Kind() != '[':
		return bad("input", inputForms)
	case v.IsEmpty():
		return bad("input", "must not be empty")
	}
	// The first entry decides which form it is. All others must be of its type.
	add, first := r.addText, byte('"')
	for w := v.Walk(); w.Next(); {
		if kind := w.Value.Kind(); w.Index == 0 && kind == '[' {
			add, first = r.addTokens, kind
		} else if w.Index == 0 && kind != '"' {
			return r.addTokens(v, "input", &left)
		}
		if w.Index == maxInputs {
			return bad("input", "has more than %d entries, the most of one request", maxInputs)
		}
		path := "input[" + strconv.Itoa(w.Index) + "]"
		if w.Value.Kind() != first {
			return bad(path, "is of another type than the entries before it")
		}
		if err := add(w.Value, path, &left); err != nil {
			return err
		}
	}
	return nil
}

// room is what the inputs that follow may have.
type room struct{ tokens, bytes int }

// addText adds a text. One that must have too many tokens is not copied.
func (r *Request) addText(v chat.Value, path string, left *room) error {
	if v.Size() == 0 {
		return bad(path, "must not be empty")
	}
	if left.bytes -= v.Size(); left.bytes < 0 {
		return tooMany()
	}
	r.Inputs = append(r.Inputs, Input{Text: v.Text()})
	return nil
}

// addTokens adds the tokens of a text, an array.
// The memory is reserved by counting commas, and never for more tokens than are allowed.
func (r *Request) addTokens(v chat.Value, path string, left *room) error {
	if v.IsEmpty() {
		return bad(path, "must not be empty")
	}
	in := Input{Tokens: make([]int, 0, min(bytes.Count(v.Raw(), []byte(","))+1, left.tokens+1))}
	for w := v.Walk(); w.Next(); {
		n, ok := whole(w.Value.Raw(), 0, maxToken)
		if !ok && path == "input" && w.Index == 0 && !w.Value.IsNumber() {
			return bad(path, inputForms)
		}
		if !ok {
			return bad(path+"["+strconv.Itoa(w.Index)+"]", "must be a token: a whole number from 0")
		}
		if left.tokens--; left.tokens < 0 {
			return tooMany()
		}
		in.Tokens = append(in.Tokens, n)
	}
	r.Inputs = append(r.Inputs, in)
	return nil
}

// tooMany is the fault of inputs that have too many tokens together.
func tooMany() error {
	return bad("input", "has more than %d tokens in all, the most of one request", MaxTotal)
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
	return !slices.ContainsFunc(r.Inputs, func(in Input) bool { return in.Tokens != nil })
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
//
// Callers ask Sure first, which nearly every request passes.
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
			return 0, tooMany()
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
