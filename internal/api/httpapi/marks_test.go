package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
)

// hashed returns the session of a person whose name is no plain word.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "usr_" + hex.EncodeToString(sum[:])[:24]
}

// The headers name a session before the body does, in their order, and a person is the last resort.
func TestSessionOfRequest(t *testing.T) {
	t.Parallel()
	const uuid = "0197c2d4-7a1b-7c3d-8e5f-123456789abc"
	sum := sha256.Sum256([]byte("two words"))
	for _, tt := range []struct {
		name   string
		header http.Header
		extra  string // members of the body
		userID string
		want   string
	}{
		{"nothing", nil, "", "", ""},
		{"our own first", http.Header{"X-Claude-Code-Session-Id": {"claude"}, "X-Sluice-Session": {"own"}}, `,"prompt_cache_key":"key"`, "", "own"},
		{"Claude Code before Codex", http.Header{"Session_id": {"codex"}, "X-Claude-Code-Session-Id": {"claude"}}, "", "", "claude"},
		{"a header before the body", http.Header{"Conversation_id": {"codex"}}, `,"prompt_cache_key":"key"`, "", "codex"},
		{"a header that is no word is left out", http.Header{"X-Sluice-Session": {"two words"}}, `,"prompt_cache_key":"key"`, "", "key"},
		{"prompt_cache_key", nil, `,"prompt_cache_key":"key-1"`, "user_1_account__session_" + uuid, "key-1"},
		{"escaped", nil, `,"prompt_cache_key":"k\u0065y"`, "", "key"},
		{"no word", nil, `,"prompt_cache_key":"two words"`, "", "pck_" + hex.EncodeToString(sum[:])[:24]},
		{"empty", nil, `,"prompt_cache_key":""`, "", ""},
		{"no text", nil, `,"prompt_cache_key":7`, "", ""},
		{"a person", nil, `,"safety_identifier":"alice","user":"session_1"`, "", "alice"},
		{"a person after a conversation", nil, `,"safety_identifier":"alice","prompt_cache_key":"key"`, "", "key"},
		{"a person's address", nil, `,"safety_identifier":"two words"`, "", hashed("two words")},
		{"no name", nil, `,"safety_identifier":"","user":"session_1"`, "", ""},
		{"a person of Anthropic's dialect", nil, "", "two words", hashed("two words")},
		{"a header before a person", http.Header{"X-Session-Id": {"ses_1"}}, `,"safety_identifier":"alice"`, "bob", "ses_1"},
		{"Codex's thread", http.Header{"Thread-Id": {"thread"}}, "", "", "thread"},
		{"Codex's session before its thread", http.Header{"Thread-Id": {"thread"}, "Session-Id": {"codex"}}, "", "", "codex"},
		{"opencode", http.Header{"X-Session-Affinity": {"ses_1"}, "X-Session-Id": {"ses_1"}}, `,"prompt_cache_key":"key"`, "", "ses_1"},
		{"opencode by one header", http.Header{"X-Session-Affinity": {"ses_1"}}, "", "", "ses_1"},
		{"opencode as its own provider", http.Header{"X-Opencode-Session": {"ses_1"}}, "", "", "ses_1"},
		{"a sub-agent of opencode", http.Header{"X-Session-Affinity": {"ses_2"}, "X-Session-Id": {"ses_2"}, "X-Parent-Session-Id": {"ses_1"}}, "", "", "ses_1"},
		{"Claude Code's user", nil, "", "user_" + strings.Repeat("ab", 32) + "_account__session_" + uuid, uuid},
		{"Claude Code's object", nil, "", `{"device_id":"d","account_uuid":"","session_id":"` + uuid + `"}`, uuid},
		{"only a session", nil, "", "session_" + uuid, uuid},
		{"a part of a word", nil, "", "obsession_1", "obsession_1"},
		{"another member", nil, "", `{"session_name":"x"}`, hashed(`{"session_name":"x"}`)},
		{"another user", nil, "", "alice", "alice"},
		{"two people", nil, `,"safety_identifier":"bob"`, "alice", "alice"},
	} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]` + tt.extra + `}`))
		if err != nil {
			t.Fatal(err)
		}
		c := completion{Request: req, userID: tt.userID}
		if got := c.session(tt.header); got != tt.want {
			t.Errorf("%s: session = %q, want %q", tt.name, got, tt.want)
		}
	}
	c := completion{inputs: &embeddings.Request{}}
	if got := c.session(http.Header{"Session-Id": {"s"}}); got != "s" {
		t.Errorf("session of a request for embeddings = %q, want s", got)
	}
}

// Tags of the key come first and win by name, then those of the header and of the body; there are eight at most.
func TestTagsOf(t *testing.T) {
	t.Parallel()
	many := []string{"a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1"}
	for _, tt := range []struct {
		key, header []string
		metadata    string
		want        []string
	}{
		{nil, nil, "", nil},
		{nil, nil, "null", nil},
		{nil, nil, `"text"`, nil},
		{[]string{"team=search"}, nil, "", []string{"team=search"}},
		{[]string{"team=search"}, []string{"team=ads", "job=7"}, `{"job":"8","env":"prod"}`, []string{"team=search", "job=7", "env=prod"}},
		{nil, nil, `{"n":7,"o":{"a":"b"},"two words":"x","x":"a b","y":"a,b","z":"","w":"a=b","ok":"v\u0031"}`, []string{"ok=v1"}},
		{many, []string{"h=1", "i=1"}, `{"j":"1"}`, append(slices.Clone(many), "h=1")},
		{nil, nil, `{"long":"` + strings.Repeat("x", 65) + `","sp\u00a0ce":"x"}`, nil},
	} {
		var metadata []byte
		if tt.metadata != "" {
			metadata = []byte(tt.metadata)
		}
		before := slices.Clone(tt.key)
		if got := tagsOf(tt.key, tt.header, metadata); !slices.Equal(got, tt.want) {
			t.Errorf("tagsOf(%q, %q, %s) = %q, want %q", tt.key, tt.header, tt.metadata, got, tt.want)
		}
		if !slices.Equal(tt.key, before) {
			t.Errorf("tagsOf has changed the tags of the key to %q", tt.key)
		}
	}
}

// A header with something else than at most eight tags is refused.
func TestHeaderTags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []string
		want   []string
		bad    bool
	}{
		{nil, nil, false},
		{[]string{"a=b, c=d", "e=f"}, []string{"a=b", "c=d", "e=f"}, false},
		{[]string{" a=b ,"}, []string{"a=b"}, false},
		{[]string{"a"}, nil, true},
		{[]string{"a=b c"}, nil, true},
		{[]string{"=b"}, nil, true},
		{[]string{"a=" + strings.Repeat("x", 65)}, nil, true},
		{[]string{"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1"}, []string{"a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1", "h=1"}, false},
		{[]string{"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"}, nil, true},
	} {
		got, err := headerTags(http.Header{tagsHeader: tt.values})
		if !slices.Equal(got, tt.want) || (err != nil) != tt.bad {
			t.Errorf("headerTags(%q) = %q, %v; want %q, refused: %t", tt.values, got, err, tt.want, tt.bad)
		}
	}
}

// A call without tags costs no allocation for them.
func TestNoTagsCostNothing(t *testing.T) {
	h := http.Header{"Authorization": {"Bearer x"}}
	if n := testing.AllocsPerRun(100, func() {
		tags, err := headerTags(h)
		if err != nil || tagsOf(nil, tags, nil) != nil {
			t.Error("there are tags")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
