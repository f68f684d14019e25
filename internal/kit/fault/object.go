package fault

import (
	"encoding/json"
	"strconv"

	"sluice/internal/kit/jsonscan"
)

// Object is the error object of the API (docs/api.md#errors): what stands under "error" in the body
// of an error reply. Every door that answers with one takes it from here, so that all of them have
// the same members.
type Object struct {
	Message string `json:"message"`
	Type    string `json:"type"` // the name of a Kind, or of the same thing at a vendor
	Code    int    `json:"code"` // the HTTP status of the reply
	Param   string `json:"param,omitempty"`
	// Details is an object that a vendor sent with its error; nil if there is none.
	Details json.RawMessage `json:"details,omitempty"`
	Budget  json.RawMessage `json:"budget,omitempty"` // how the budget in the way stands
}

// Object returns what a caller reads of f. The cause is not part of it. Code is the status, so a reason is among the
// details, as error_code.
func (f *Fault) Object() Object {
	o := Object{Message: f.Message, Type: f.TypeName(), Code: f.Status(), Param: f.Param, Details: f.Details, Budget: f.Budget}
	if f.Reason != "" {
		o.Details = withReason(f.Details, f.Reason)
	}
	return o
}

// withReason returns details with a reason. A vendor's own error_code stays.
func withReason(details json.RawMessage, reason string) json.RawMessage {
	all := map[string]any{}
	if details != nil && json.Unmarshal(details, &all) != nil || all["error_code"] != nil {
		return details
	}
	all["error_code"] = reason
	raw, err := json.Marshal(all)
	if err != nil {
		panic(err) // what was decoded encodes again
	}
	return raw
}

// Body returns {"error":o}, the whole body of an error reply. As always with encoding/json, <, >
// and & are escaped: a message may repeat what a stranger sent, and a browser must not take the
// reply for a page.
func (o Object) Body() []byte {
	body, err := json.Marshal(struct {
		Error Object `json:"error"`
	}{o})
	if err != nil {
		panic(err) // strings, an int and JSON always encode
	}
	return body
}

// AppendEvent appends {"error":o} without param, as the last event of a stream that failed after it
// began. It allocates nothing but room in b, and escapes only what JSON requires: no browser shows
// an event stream as a page.
func (o Object) AppendEvent(b []byte) []byte {
	b = append(b, `{"error":{"message":`...)
	b = jsonscan.AppendQuoted(b, o.Message)
	b = append(b, `,"type":`...)
	b = jsonscan.AppendQuoted(b, o.Type)
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(o.Code), 10)
	return append(b, `}}`...)
}
