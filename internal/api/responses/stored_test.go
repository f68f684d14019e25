package responses

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
	"sluice/internal/line/relay"
)

// memory is a store in memory.
type memory struct {
	records map[string]*Record
	err     error
}

func (m *memory) KeepResponses(_ context.Context, all []*Record, _ Bound) error {
	for _, r := range all {
		if m.err == nil {
			m.records[string(r.ID)] = r
		}
	}
	return m.err
}

func (m *memory) find(id []byte, now time.Time) *Record {
	if r := m.records[string(id)]; r != nil && r.ExpiresAt.After(now) {
		return r
	}
	return nil
}

func (m *memory) FindResponses(_ context.Context, ids [][]byte, now time.Time) ([][]byte, error) {
	out := make([][]byte, len(ids))
	for i, id := range ids {
		if r := m.find(id, now); r != nil {
			out[i] = bytes.Clone(r.Sealed)
		}
	}
	return out, m.err
}

func (m *memory) SizeResponses(_ context.Context, ids [][]byte, now time.Time) ([]int64, error) {
	out := make([]int64, len(ids))
	for i, id := range ids {
		if r := m.find(id, now); r != nil {
			out[i] = int64(len(r.Sealed))
		}
	}
	return out, m.err
}

func (m *memory) FollowResponses(_ context.Context, id []byte, now time.Time, most int) (links []Link, err error) {
	for r := m.find(id, now); r != nil && len(links) < most; r = m.find(r.Previous, now) {
		links = append(links, Link{ID: r.ID, Previous: r.Previous, Size: int64(len(r.Sealed))})
	}
	return links, m.err
}

func (m *memory) DropResponse(_ context.Context, accountID string, id []byte) (bool, error) {
	r := m.records[string(id)]
	if r == nil || r.AccountID != accountID {
		return false, m.err
	}
	delete(m.records, string(id))
	return true, m.err
}

func (m *memory) ForgetResponses(_ context.Context, accountID string) error {
	for id, r := range m.records {
		if r.AccountID == accountID && m.err == nil {
			delete(m.records, id)
		}
	}
	return m.err
}

// idOf returns the id under which a response is stored.
func (s *shelved) idOf(account, id string) []byte {
	own := s.box(account, id).ID()
	return own[:]
}

// shelved is an archive whose clock the test moves.
type shelved struct {
	*Archive
	*memory
	now time.Time
}

func newShelved() *shelved {
	s := &shelved{memory: &memory{records: map[string]*Record{}}, now: time.Unix(1_700_000_000, 0)}
	s.Archive = NewArchive(s.memory, &ArchiveOptions{Key: seal.NewKey(), Now: func() time.Time { return s.now }})
	return s
}

// turn runs a request of an account: it looks for what the request refers to, and keeps a response that says text.
func (s *shelved) turn(t *testing.T, account, id, body, text string) (string, error) {
	t.Helper()
	r, err := Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	past, err := s.Past(t.Context(), account, r, nil)
	if err != nil {
		return "", err
	}
	composed, err := r.Compose(past)
	if err != nil {
		return "", err
	}
	response := fmt.Sprintf(`{"id":"resp_%s","output":[{"id":"msg_%s_0","type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}]%s}`, id, id, text, r.appendEcho(nil))
	return written(composed), s.Keep(t.Context(), account, r, ResponseID(id), []byte(response))
}

func TestConversation(t *testing.T) {
	t.Parallel()
	s := newShelved()
	for _, tt := range []struct{ id, body, text string }{
		{"1", `{"model":"m","instructions":"one","input":"Hi"}`, "Hello"},
		{"2", `{"model":"m","previous_response_id":"resp_1","input":[{"role":"user","content":"More"}]}`, "Fine"},
	} {
		if _, err := s.turn(t, "a", tt.id, tt.body, tt.text); err != nil {
			t.Fatalf("turn %s = %v", tt.id, err)
		}
	}
	const follow = `{"model":"m","previous_response_id":"resp_2","input":"End"}`
	got, err := s.turn(t, "a", "3", follow, "Bye")
	want := `{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},{"role":"user","content":"More"},{"role":"assistant","content":"Fine"},{"role":"user","content":"End"}]}`
	if err != nil || got != want {
		t.Errorf("third turn = %s, %v, want %s", got, err, want)
	}
	// What a reference means is kept, not the reference.
	if _, err := s.turn(t, "a", "4", `{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"item_reference","id":"msg_1_0"},{"role":"user","content":"And?"}]}`, "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a", "resp_1"); err != nil {
		t.Fatal(err)
	}
	got, err = s.turn(t, "a", "5", `{"model":"m","previous_response_id":"resp_4","input":"End"}`, "x")
	if err != nil || !strings.Contains(got, `{"role":"assistant","content":"Hello"}`) {
		t.Errorf("turn after a reference = %s, %v, want what was said", got, err)
	}
	// Nothing of what was said is readable in the store.
	for _, r := range s.records {
		if bytes.Contains(r.Sealed, []byte("output_text")) || bytes.Contains(r.ID, []byte("resp")) {
			t.Error("a response is stored in the clear")
		}
	}
	// The first response of the conversation is gone.
	_, err = s.turn(t, "a", "6", follow, "x")
	wantFault(t, err, fault.Invalid, "previous_response_id", `An earlier response of the conversation of "resp_2" not found`)
	for name, id := range map[string]string{"another account": "b", "unknown": "a"} {
		body := follow
		if id == "a" {
			body = strings.Replace(follow, "resp_2", "resp_99", 1)
		}
		_, err = s.turn(t, id, "7", body, "x")
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		wantFault(t, err, fault.Invalid, "previous_response_id", "Previous response with id ")
	}
	_, err = s.turn(t, "b", "8", `{"model":"m","input":[{"type":"item_reference","id":"msg_4_0"}]}`, "x")
	wantFault(t, err, fault.Invalid, "input[0].id", "input[0].id names no item of a stored response")
	_, err = s.Find(t.Context(), "b", "resp_4", nil)
	wantFault(t, err, fault.NotFound, "", `Response with id "resp_4" not found`)
	if err := s.Delete(t.Context(), "b", "resp_4"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Delete by another account = %v", err)
	}
	if found, err := s.Find(t.Context(), "a", "resp_4", nil); err != nil || !bytes.Contains(found, []byte(`"id":"resp_4"`)) {
		t.Errorf("Find = %s, %v", found, err)
	}
	// After 30 days it is gone.
	s.now = s.now.Add(keepFor)
	_, err = s.Find(t.Context(), "a", "resp_4", nil)
	wantFault(t, err, fault.NotFound, "", `Response with id "resp_4" not found`)
	s.err = errors.New("no database")
	_, err = s.turn(t, "a", "9", follow, "x")
	wantFault(t, err, fault.Unavailable, "", "Stored responses cannot be read now")
}

func wantFault(t *testing.T, err error, kind fault.Kind, param, message string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	if f := fault.From(err); f.Kind != kind || f.Param != param || !strings.HasPrefix(f.Message, message) {
		t.Errorf("fault = %v at %q: %s; want %v at %q: %s", f.Kind, f.Param, f.Message, kind, param, message)
	}
}

func TestConversationIsBounded(t *testing.T) {
	t.Parallel()
	s := newShelved()
	s.room = 1 << 20
	long := strings.Repeat("x", int(s.room)/3)
	previous := ""
	for i := range 4 {
		body := fmt.Sprintf(`{"model":"m",%s"input":%q}`, previous, long)
		_, err := s.turn(t, "a", fmt.Sprint(i), body, "x")
		if i == 3 {
			wantFault(t, err, fault.Invalid, "previous_response_id", "The conversation of the previous response")
		} else if err != nil {
			t.Fatal(err)
		}
		previous = fmt.Sprintf(`"previous_response_id":"resp_%d",`, i)
	}
	r, err := Parse([]byte(`{"model":"m","input":"Hi"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), "a", r, "resp_x", make([]byte, MaxKept)); err == nil {
		t.Error("Keep of a large response = nil, want an error")
	}
}

func TestInputItems(t *testing.T) {
	t.Parallel()
	s := newShelved()
	const body = `{"model":"m","input":[{"role":"user","content":"a"},{"type":"message","id":"own","role":"assistant","content":"b"},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"d"}]}`
	if _, err := s.turn(t, "a", "1", body, "x"); err != nil {
		t.Fatal(err)
	}
	const first, third, fourth = `{"id":"item_1_0","type":"message","role":"user","content":"a"}`,
		`{"id":"item_1_2","type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"id":"item_1_3","type":"function_call_output","call_id":"c","output":"d"}`
	const second = `{"type":"message","id":"own","role":"assistant","content":"b"}`
	list := func(first, last string, more bool, data ...string) string {
		return fmt.Sprintf(`{"object":"list","data":[%s],"first_id":%q,"last_id":%q,"has_more":%t}`, strings.Join(data, ","), first, last, more)
	}
	for _, tt := range []struct {
		page Page
		want string
	}{
		{Page{Limit: 10, Ascending: true}, list("item_1_0", "item_1_3", false, first, second, third, fourth)},
		{Page{Limit: 2}, list("item_1_3", "item_1_2", true, fourth, third)},
		{Page{Limit: 2, After: "item_1_2"}, list("own", "item_1_0", false, second, first)},
		{Page{Limit: 1, After: "item_1_0", Ascending: true}, list("own", "own", true, second)},
		{Page{Limit: 1, After: "item_1_0"}, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`},
	} {
		if got, err := s.Input(t.Context(), "a", "resp_1", tt.page, nil); err != nil || string(bytes.Join(got, nil)) != tt.want {
			t.Errorf("Input(%+v) = %s, %v, want %s", tt.page, got, err, tt.want)
		}
	}
	_, err := s.Input(t.Context(), "a", "resp_1", Page{Limit: 1, After: "nope"}, nil)
	wantFault(t, err, fault.Invalid, "after", "after must be the id of an input item")
	_, err = s.Input(t.Context(), "a", "resp_2", Page{Limit: 1}, nil)
	wantFault(t, err, fault.NotFound, "", "Response with id")
}

// A reply that could not be stored says so, and goes out.
func TestNotStored(t *testing.T) {
	t.Parallel()
	const script = "text \"Hi\"\nfinish stop\nusage 1 0 1 0\n"
	for _, stream := range []string{"", `"stream":true,`} {
		got, err := answer(t, `{`+stream+`"model":"m","input":"x"}`, play(t, script), &Options{Keep: func([]byte) bool { return false }})
		at := strings.LastIndex(got, `"status":"completed","model"`)
		if err != nil || at < 0 || !strings.Contains(got[at:], `"store":false`) {
			t.Errorf("reply = %s, %v, want one that is not stored", got, err)
		}
	}
	// It is stored before its end, and as it is sent.
	var kept []byte
	got, err := answer(t, `{"model":"m","input":"x"}`, play(t, script), &Options{Keep: func(b []byte) bool { kept = b; return true }})
	if err != nil || got != string(kept) {
		t.Errorf("reply = %s, %v; kept is %s", got, err, kept)
	}
	// One that breaks off is not stored, nor one whose caller does not want it.
	never := &Options{Keep: func([]byte) bool { t.Error("stored"); return true }}
	if _, err := answer(t, `{"stream":true,"model":"m","input":"x"}`, play(t, "text \"Hi\"\n"), never); err == nil {
		t.Error("a reply that breaks off = nil, want an error")
	}
	if _, err := answer(t, `{"model":"m","store":false,"input":"x"}`, play(t, script), never); err != nil {
		t.Error(err)
	}
}

func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	s := newShelved()
	// What is kept of a turn names the one before, and nothing else of it matters here.
	var before []byte
	for i := range maxTurns + 1 {
		own := s.box("a", ResponseID(fmt.Sprint(i))).ID()
		s.records[string(own[:])] = &Record{ID: own[:], AccountID: "a", Previous: before, ExpiresAt: s.now.Add(time.Hour)}
		before = own[:]
	}
	_, err := s.turn(t, "a", "next", fmt.Sprintf(`{"model":"m","previous_response_id":"resp_%d","input":"x"}`, maxTurns), "x")
	wantFault(t, err, fault.Invalid, "previous_response_id", "The conversation of the previous response")
}

func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	body := func(n int) []byte {
		return []byte(`{"model":"m","input":[` + strings.Repeat(`{"role":"user","content":"a"},`, n-1) + `{"role":"user","content":"a"}]}`)
	}
	if _, err := Parse(body(maxItems)); err != nil {
		t.Errorf("Parse of %d items = %v", maxItems, err)
	}
	_, err := Parse(body(maxItems + 1))
	wantFault(t, err, fault.Invalid, "input", "input holds too much")
}

// What was sealed for an account comes back as the reasoning that led to calls, for that account alone.
func TestSealedReasoning(t *testing.T) {
	t.Parallel()
	s := newShelved()
	sealed := s.Seal("a", []byte("First \"this\"."))
	compose := func(account, content string) (string, error) {
		r, err := Parse([]byte(`{"model":"m","input":[{"role":"user","content":"Go"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + content + `"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Opened = func(sealed string) ([]byte, bool) { return s.Opened(account, sealed) }
		same, err := r.Compose(nil)
		return written(same), err
	}
	const call = `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}]}`
	const head = `{"model":"m","messages":[{"role":"user","content":"Go"},{"role":"assistant","content":null,`
	if got, err := compose("a", sealed); err != nil || got != head+`"reasoning_content":"First \"this\".",`+call {
		t.Errorf("Compose = %s, %v", got, err)
	}
	if got, err := compose("a", "gAAAAA"); err != nil || got != head+call {
		t.Errorf("Compose with what another service has sealed = %s, %v", got, err)
	}
	for _, tt := range []struct{ account, content string }{{"b", sealed}, {"a", sealed[:len(sealed)-4]}, {"a", sealedHere + "!"}, {"a", sealedHere}} {
		_, err := compose(tt.account, tt.content)
		if f := fault.From(err); err == nil || f.Param != "input[1].encrypted_content" || !strings.HasPrefix(f.Message, "input[1].encrypted_content cannot be read") {
			t.Errorf("Compose with content of another account or damaged = %v", err)
		}
	}
	// In an earlier exchange it stays, so that the prompt begins as it did.
	r, _ := Parse([]byte(`{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"` + sealed + `"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"},{"role":"user","content":"x"}]}`))
	r.Opened = func(sealed string) ([]byte, bool) { return s.Opened("a", sealed) }
	if same, err := r.Compose(nil); err != nil || !strings.Contains(written(same), "reasoning_content") {
		t.Errorf("Compose = %s, %v, want the reasoning of an earlier exchange", written(same), err)
	}
}

// What is read counts before it is read.
func TestPastIsCounted(t *testing.T) {
	t.Parallel()
	s := newShelved()
	if _, err := s.turn(t, "a", "1", `{"model":"m","input":"Hi"}`, "Hello"); err != nil {
		t.Fatal(err)
	}
	r, err := Parse([]byte(`{"model":"m","previous_response_id":"resp_1","input":[{"type":"item_reference","id":"msg_1_0"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	// The conversation, all of the response that is referred to, its item, and what is given back of the response.
	var taken []int64
	_, err = s.Past(t.Context(), "a", r, func(n int64) error { taken = append(taken, n); return nil })
	if size := int64(len(s.records[string(s.idOf("a", "resp_1"))].Sealed)); err != nil || len(taken) != 4 || taken[0] != size || taken[1] != copies*size || taken[2] < 50 || taken[3] != -taken[1] {
		t.Errorf("Past takes %v, %v, want the conversation of %d bytes, and a response and its item", taken, err, size)
	}
	full := errors.New("full")
	if _, err := s.Past(t.Context(), "a", r, func(int64) error { return full }); !errors.Is(err, full) {
		t.Errorf("Past without room = %v", err)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := newShelved()
	for _, id := range []string{"1", "2", "3"} {
		if _, err := s.turn(t, "a", id, `{"model":"m","input":"Hi `+id+`"}`, "Hello"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		account string
		most    int64
		want    string
	}{{"a", 1 << 20, "312"}, {"a", 0, ""}, {"b", 1 << 20, ""}} {
		got, held := "", int64(0)
		take := func(n int64) error { held += n; return nil }
		err := s.Export(t.Context(), tt.account, []string{"3", "none", "1", "2"}, tt.most, take, func(raw []byte) error {
			_, rest, _ := strings.Cut(string(raw), `"text":"Hi `)
			got += rest[:1]
			if held < int64(len(raw)) || held > 3*int64(len(raw)) {
				t.Errorf("%d bytes are taken for one of %d", held, len(raw))
			}
			return nil
		})
		if held != 0 {
			t.Errorf("%d bytes are taken after the export", held)
		}
		if err != nil || got != tt.want {
			t.Errorf("Export to %s = %s, %v, want %s", tt.account, got, err, tt.want)
		}
	}
}

// The caller of a stream has everything but the last event while the response is being stored.
func TestStreamIsSentBeforeItIsStored(t *testing.T) {
	t.Parallel()
	const script = "text \"Hi\"\nfinish stop\nusage 1 0 1 0\n"
	w := httptest.NewRecorder()
	early := ""
	keep := func([]byte) bool { early = w.Body.String(); return true }
	got, err := answerTo(t, w, `{"stream":true,"model":"m","input":"x"}`, play(t, script), &Options{Keep: keep})
	for _, event := range []string{"response.created", "response.output_text.delta", "response.output_item.done"} {
		if !strings.Contains(early, "event: "+event+"\n") {
			t.Errorf("before the response is stored, the caller has\n%swithout %s", early, event)
		}
	}
	if err != nil || strings.Contains(early, "response.completed") || !strings.Contains(got, "response.completed") {
		t.Errorf("the reply is %v\n%swant that the last event comes after storing", err, got)
	}
	// A caller who has left has a stored response all the same.
	stored := false
	_, err = answerTo(t, &departed{httptest.NewRecorder()}, `{"stream":true,"model":"m","input":"x"}`, play(t, script), &Options{Keep: func([]byte) bool { stored = true; return true }})
	if !errors.Is(err, relay.ErrGone) || !stored {
		t.Errorf("the reply to somebody who has left = %v, stored: %t", err, stored)
	}
}

// departed is a caller who has left.
type departed struct{ *httptest.ResponseRecorder }

func (*departed) Write([]byte) (int, error) { return 0, errors.New("the connection is closed") }
