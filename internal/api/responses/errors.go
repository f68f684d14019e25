package responses

import (
	"encoding/json"

	"sluice/internal/kit/fault"
)

// namedError is the error object of the API with a name as its code, as clients of the dialect expect it.
type namedError struct {
	fault.Object
	Code string `json:"code"` // in the place of the status
}

// ErrorBody returns the body of an error reply. It is that of every door, except that the code of a fault with a reason is
// the reason: programs that speak this dialect look for it there, to shorten a prompt that is too long.
func ErrorBody(f *fault.Fault) []byte {
	if f.Reason == "" {
		return f.Object().Body()
	}
	o := f.Object()
	o.Details = f.Details // where the reason is otherwise
	body, err := json.Marshal(struct {
		Error namedError `json:"error"`
	}{namedError{o, f.Reason}})
	if err != nil {
		panic(err) // strings and JSON always encode
	}
	return body
}
