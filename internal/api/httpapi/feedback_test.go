package httpapi

import (
	"testing"

	"sluice/internal/kit/fault"
)

func TestParseFeedback(t *testing.T) {
	t.Parallel()
	if id, good, err := parseFeedback([]byte(` {"rating":"good","request_id":"a"} `)); id != "a" || !good || err != nil {
		t.Errorf("parseFeedback = %q, %t, %v, want a good vote for a", id, good, err)
	}
	for _, body := range []string{
		`{"request_id":"a","rating":"good","Rating":"bad"}`, `{"request_id":"a","Request_Id":"b","rating":"good"}`, `{"requeſt_id":"a","rating":"good"}`,
		`{"request_id":"a","rating":"good","rating":"bad"}`, `{"request_id":"a","rating":"good","more":1}`, `{"request_id":"a","rating":"good"} {}`, `[]`, ``,
	} {
		if id, good, err := parseFeedback([]byte(body)); err == nil || fault.From(err).Kind != fault.Invalid {
			t.Errorf("parseFeedback(%s) = %q, %t, %v, want a 400", body, id, good, err)
		}
	}
}
