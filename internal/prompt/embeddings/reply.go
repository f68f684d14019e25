package embeddings

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"sluice/internal/kit/jsonscan"
)

// Vectors are the result of a request, one for each input and in the order of the inputs.
type Vectors struct {
	List []Vector
	// Tokens is what the upstream says that it read; 0: it does not say.
	Tokens int
}

// Vector is one vector. Raw is its JSON as an upstream of the same dialect sent it, an array of numbers or base64, and
// empty for other upstreams. What has Raw needs no Values to be written in the same form.
type Vector struct {
	Values []float32
	Raw    json.RawMessage
}

// mostValues is how many numbers a vector has at most. The largest models give a few thousand.
const mostValues = maxDimensions

// errVector does not say which number is wrong: nobody can do anything about it.
var errVector = errors.New("an embedding is not a list of numbers")

// ReadVector reads a vector as upstreams of OpenAI's dialect send it: an array of numbers, or base64 of them.
// The JSON is kept as well, so that a caller who wants the same form gets it without another
// conversion.
func ReadVector(raw json.RawMessage) (Vector, error) {
	v := Vector{Raw: raw}
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return v, errVector
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(b) == 0 || len(b)%4 != 0 || len(b)/4 > mostValues {
			return v, errVector
		}
		v.Values = make([]float32, len(b)/4)
		for i := range v.Values {
			v.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	} else if bytes.IndexByte(raw, 'n') >= 0 || json.Unmarshal(raw, &v.Values) != nil { // null would be read as 0
		return v, errVector
	}
	return v, v.Check()
}

// Check returns an error for a vector that no caller can use.
func (v *Vector) Check() error {
	if len(v.Values) == 0 || len(v.Values) > mostValues {
		return errVector
	}
	for _, x := range v.Values {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return errVector
		}
	}
	return nil
}

// Check returns an error unless there is one vector for each of n inputs, all of the same length.
func (vs *Vectors) Check(n int) error {
	if len(vs.List) != n {
		return fmt.Errorf("%d embeddings for %d inputs", len(vs.List), n)
	}
	for i := range vs.List {
		if err := vs.List[i].Check(); err != nil {
			return err
		}
		if len(vs.List[i].Values) != len(vs.List[0].Values) {
			return errors.New("embeddings of different lengths")
		}
	}
	return nil
}

// Append appends the reply to b. Model is the id of the model that answered.
// tokens is what the call is charged for, which may be our own count.
func (vs *Vectors) Append(b []byte, model string, asBase64 bool, tokens int) []byte {
	b = append(b, `{"object":"list","data":[`...)
	for i := range vs.List {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		b = vs.List[i].append(b, asBase64)
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = jsonscan.AppendQuoted(b, model)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	return append(b, `}}`...)
}

// append appends the vector as an array of numbers, or as base64 of 32-bit numbers, little-endian, which is OpenAI's form.
func (v *Vector) append(b []byte, asBase64 bool) []byte {
	if len(v.Raw) > 0 && (v.Raw[0] == '"') == asBase64 {
		return append(b, v.Raw...)
	}
	if asBase64 {
		raw := make([]byte, 0, 4*len(v.Values))
		for _, x := range v.Values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	b = append(b, '[')
	for i, x := range v.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(b, x)
	}
	return append(b, ']')
}

// appendFloat appends the shortest decimal that reads back as the same 32-bit number.
func appendFloat(b []byte, x float32) []byte {
	form := byte('f')
	if a := math.Abs(float64(x)); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(b, float64(x), form, -1, 32)
}
