package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// obedient is an upstream that does what the prompt asks for: "please say 10." is answered with ten letters,
// "please reply 1000." with a body of that many bytes, "please stream 1000." with an event of that many,
// "please choose 3." with three choices, and "please call." with a call of the tool work, and then with how that went.
func obedient(t *testing.T) string {
	t.Helper()
	const open, choice, shut, rest = `{"pad":"%s","id":"x","object":"chat.completion","created":1,"model":"m","choices":[`, `{"index":%d,"message":{"role":"assistant","content":"`, `"},"finish_reason":"stop"}`, `],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	head, tail := fmt.Sprintf(open, "")+fmt.Sprintf(choice, 0), shut+rest
	const chunk = `data: {"pad":"%s","id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
	pad := func(form string, n int) string { return fmt.Sprintf(form, strings.Repeat("x", n-len(form)+len("%s"))) }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, wish, _ := bytes.Cut(body, []byte("please "))
		text, _, _ := bytes.Cut(wish, []byte("."))
		verb, number, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(number)
		w.Header().Set("Content-Type", "application/json")
		switch verb {
		case "reply":
			w.Header().Set("Content-Length", number)
			_, _ = io.WriteString(w, pad(open+fmt.Sprintf(choice, 0)+tail, n))
		case "choose":
			_, _ = io.WriteString(w, fmt.Sprintf(open, "")+list(int64(n), func(i int64) string { return fmt.Sprintf(choice, i) + "hi" + shut })+rest)
		case "call":
			content := "fine"
			switch {
			case !bytes.Contains(body, []byte(`"role":"tool"`)):
				content = `","tool_calls":[{"id":"c1","type":"function","function":{"name":"t__work","arguments":"{}"}}],"refusal":"`
			case bytes.Contains(body, []byte("it sent more than")):
				content = "a tool error"
			}
			_, _ = io.WriteString(w, head+content+tail)
		case "stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, pad(chunk, n)+"data: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, head+strings.Repeat("x", n)+tail)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL + "/v1"
}

// list joins n texts.
func list(n int64, text func(i int64) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text(i))
	}
	return b.String()
}

// member tries a bound with a chat request that has a member with n of something.
func member(more func(n int64) string) try {
	return func(t *testing.T, s *stage, b bound) {
		t.Helper()
		key := s.account(t).MasterKey
		b.check(t, s.ask(t, key, "say 2", ","+more(b.n)), 200, s.ask(t, key, "say 2", ","+more(b.n+1)))
	}
}

var chatTries = map[string]try{
	"messages of a chat request": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			return s.node(t).request("POST", chatPath, key, `{"model":"m","messages":[`+list(n, func(int64) string { return `{"role":"user","content":"a"}` })+`]}`)
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"nesting of a chat request": member(func(n int64) string { // the request itself is one level
		return `"unknown":` + strings.Repeat("[", int(n-1)) + strings.Repeat("]", int(n-1))
	}),
	"fields of the open objects of a chat request": member(func(n int64) string { // three are those of the request
		return `"unknown":{` + list(n-3, func(i int64) string { return fmt.Sprintf(`"f%d":0`, i) }) + `}`
	}),
	"events kept of a resumable stream":               triedBy("line/resume", "TestBounds", "the oldest go"),
	"events kept of an account's resumable streams":   triedBy("line/resume", "TestBounds", "the oldest go"),
	"events kept of all resumable streams":            triedBy("line/resume", "TestBounds", "the oldest go"),
	"time that a call goes on without its caller":     triedBy("line/resume", "TestNobodyComesBack", "ended, charged for what was produced"),
	"streams of other nodes being resumed at once":    triedBy("line/resume", "TestPeersAtOnce", "503"),
	"streams that other nodes read here at once":      triedBy("line/resume", "TestLentAtOnce", "503"),
	"stored response with its input":                  triedBy("api/responses", "TestConversationIsBounded", "not stored"),
	"stored responses of an account":                  triedBy("store/sqlstore", "TestSQLite", "the oldest go"), // by its part about responses
	"stored responses of an account, number":          triedBy("store/sqlstore", "TestSQLite", "the oldest go"),
	"responses that wait for SQLite, of all accounts": triedBy("api/responses", "TestJournalRefuses", "in the database before the reply ends"),
	"conversation of a stored response":               triedBy("api/responses", "TestConversationIsBounded", "400"),
	"responses of a conversation":                     triedBy("api/responses", "TestTurnsAreBounded", "400"),
	"items of a conversation":                         triedBy("api/responses", "TestItemsAreBounded", "400"),
	"metadata of a response": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			pairs := list(n, func(i int64) string { return fmt.Sprintf(`"k%d":"v"`, i) })
			return s.node(t).request("POST", "/v1/responses", key, fmt.Sprintf(`{"model":"sandbox/small","input":"Hello","metadata":{%s}}`, pairs))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"inputs of an embeddings request": triedBy("prompt/embeddings", "TestBad", "400"),
	"tokens of an embeddings request": triedBy("prompt/embeddings", "TestBad", "400"),
	"dimensions of an embedding":      triedBy("prompt/embeddings", "TestBad", "400"),
	"tools of a chat request": member(func(n int64) string {
		return `"tools":[` + list(n, func(i int64) string { return fmt.Sprintf(`{"type":"function","function":{"name":"f%d"}}`, i) }) + `]`
	}),
	"replies to one request (`n`)": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply { return s.ask(t, key, fmt.Sprint("choose ", n), fmt.Sprint(`,"n":`, n)) }
		within := ask(b.n)
		b.check(t, within, 200, ask(b.n+1))
		if got := strings.Count(within.body, `"index":`); got != int(b.n) {
			t.Errorf("n = %d brought %d replies", b.n, got)
		}
	},
	"stop sequences": member(func(n int64) string {
		return `"stop":[` + list(n, func(i int64) string { return fmt.Sprintf(`"s%d"`, i) }) + `]`
	}),
	"blocks with `cache_control` of a Messages request": message(func(n int64) string {
		return `"system":[` + list(n, func(int64) string { return `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}` }) + `]`
	}),
	"tool name of a Messages request": message(func(n int64) string {
		return `"tools":[{"name":"` + strings.Repeat("n", int(n)) + `","input_schema":{"type":"object"}}]`
	}),
	"headers `anthropic-…` of a Messages request, together": triedBy("api/httpapi", "TestDialectHeader", "400"),
	"id of the message that a request continues":            triedBy("api/messages", "TestThreadBound", "400"),
	"name of a session in a header":                         triedBy("api/httpapi", "TestSessionOf", "not kept"),
	"model id": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			return s.node(t).request("POST", chatPath, key, chatBody(strings.Repeat("m", int(n)), "say 2", ""))
		}
		beyond := ask(b.n + 1)
		b.check(t, ask(b.n), 200, beyond)
		if !strings.Contains(beyond.body, "bytes long") { // an unknown model is a 400, too
			t.Errorf("beyond the bound: %s, want the length named", beyond.body)
		}
	},
	"image address": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			const address = "https://example.com/"
			return s.node(t).request("POST", chatPath, key, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"%s%s"}}]}]}`, address, strings.Repeat("a", int(n)-len(address))))
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"schema for a sandbox model": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			const head, tail = `{"type":"object","description":"`, `"}`
			schema := head + strings.Repeat(" ", int(n)-len(head+tail)) + tail
			return s.node(t).request("POST", chatPath, key, `{"model":"sandbox/large","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":`+schema+`}}}`)
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"bytes of a prompt that are counted":       triedBy("line/inference", "TestCountIsBounded", "a sample decides"),
	"bytes counted for an account in a minute": triedBy("line/inference", "TestCountingIsRationed", "a sample decides"),

	"accounts with counted prompts in a minute":                  triedBy("line/inference", "TestMostRationed", "a sample decides"),
	"failed calls of an account that are given back in a minute": triedBy("app", "TestFailedCallsAreGivenBackAFewTimes", "requests stay taken"),

	"`Idempotency-Key`": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			r, err := s.node(t).idempotent(t.Context(), key, strings.Repeat("k", int(n)), chatBody("m", "say 2", ""))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"kept reply": func(t *testing.T, s *stage, b bound) {
		b.says(t, "not kept")
		n, key := s.node(t), s.account(t).MasterKey
		around := len(s.ask(t, key, "say 1000000", "").body) - 1_000_000
		for _, tt := range []struct {
			bytes int64
			kept  bool
		}{{b.n, true}, {b.n + 1, false}} {
			body := chatBody("m", fmt.Sprint("say ", tt.bytes-int64(around)), "")
			if r := n.want(key, fmt.Sprint(tt.bytes), body, 200, false); len(r.body) != int(tt.bytes) {
				t.Fatalf("the reply has %d bytes, want %d", len(r.body), tt.bytes)
			}
			n.want(key, fmt.Sprint(tt.bytes), body, 200, tt.kept)
		}
	},
	"kept replies of an account": func(t *testing.T, s *stage, b bound) {
		b.says(t, "the oldest go")
		n, one := s.node(t), s.account(t)
		body := chatBody("m", "say 100", "")
		n.want(one.MasterKey, "1", body, 200, false)
		// As if the account had as many replies as leave room for one more of this size.
		db := openSQLite(t, n.site)
		if _, err := db.Exec(`UPDATE idempotent_sizes SET bytes = $1 - bytes WHERE account_id = $2`, b.n, one.ID); err != nil {
			t.Fatal(err)
		}
		s.age(t, `UPDATE idempotent_replies SET expires_at = expires_at - 1000 WHERE account_id = $1`, one.ID)
		n.want(one.MasterKey, "2", body, 200, false)
		n.want(one.MasterKey, "1", body, 200, true)
		n.want(one.MasterKey, "3", body, 200, false)
		n.want(one.MasterKey, "2", body, 200, true)
		n.want(one.MasterKey, "3", body, 200, true)
		n.want(one.MasterKey, "1", body, 200, false)
	},
	"replies being recorded at once":                         triedBy("line/idempotency", "TestRoomForRecordings", "not kept"),
	"conversations that stay with a model":                   triedBy("upstream/routing", "TestForget", "the oldest go"),
	"conversations whose target is remembered":               triedBy("upstream/routing", "TestHomesAreBounded", "the oldest go, those at their favourite first"),
	"conversations whose cache marks are remembered":         triedBy("upstream/caching", "TestForgets", "the oldest go"),
	"accounts with a model whose cache marks are remembered": triedBy("upstream/caching", "TestForgets", "the oldest go"),

	"reply of an upstream that is not streamed": func(t *testing.T, s *stage, b bound) {
		b.says(t, "the attempt fails")
		n, key := s.node(t), s.account(t).MasterKey
		for i, want := range []int{200, 503} {
			size := b.n + int64(i)
			if r := n.request("POST", chatPath, key, chatBody("whole", fmt.Sprint("reply ", size), "")); r.status != want {
				t.Errorf("a reply of %d bytes = %d %.300s, want %d", size, r.status, r.body, want)
			}
		}
	},
	"event of an upstream's stream": func(t *testing.T, s *stage, b bound) {
		b.says(t, "the stream is cut")
		n, key := s.node(t), s.account(t).MasterKey
		for i, want := range []int{200, 503} {
			size := b.n + int64(i)
			r := n.request("POST", chatPath, key, chatBody("events", fmt.Sprint("stream ", size), `,"stream":true`))
			if r.status != want || strings.Contains(r.body, "[DONE]") != (want == 200) {
				t.Errorf("an event of %d bytes = %d %.300s, want %d", size, r.status, r.body, want)
			}
		}
	},
}

// message tries a bound of a request to the Messages API, of which make returns a member.
func message(make func(n int64) string) try {
	return func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(n int64) reply {
			return s.node(t).request("POST", "/v1/messages", key, `{"model":"sandbox/small","max_tokens":9,"messages":[{"role":"user","content":"say 2"}],`+make(n)+`}`)
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	}
}
