package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// legal returns an error for a body that the scanner must refuse. It uses encoding/json and plain counting
// only.
func legal(body []byte) error {
	if !json.Valid(body) {
		return errors.New("not JSON")
	}
	if !utf8.Valid(body) {
		return errors.New("not UTF-8")
	}
	if loneSurrogate(body) {
		return errors.New("half a surrogate pair")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var keys []map[string]bool // one for each open object; nil for an array
	isKey := false             // whether the next token is a key
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		inObject := len(keys) > 0 && keys[len(keys)-1] != nil
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				keys = append(keys, map[string]bool{})
			case '[':
				keys = append(keys, nil)
			default:
				keys = keys[:len(keys)-1]
			}
			if len(keys) > maxDepth {
				return errors.New("too deep")
			}
			isKey = len(keys) > 0 && keys[len(keys)-1] != nil
			continue
		case json.Number:
			if digits := regexp.MustCompile(`\d`).FindAllString(v.String(), -1); len(digits) > maxDigits {
				return errors.New("too many digits")
			}
			if _, err := strconv.ParseFloat(v.String(), 64); err != nil {
				return err
			}
		case string:
			if inObject && isKey {
				if keys[len(keys)-1][v] {
					return fmt.Errorf("key %q twice", v)
				}
				keys[len(keys)-1][v] = true
				isKey = false
				continue
			}
		}
		isKey = inObject
	}
}

var escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|[^u])`)

// loneSurrogate reports whether valid JSON has an escape for half a surrogate pair.
func loneSurrogate(body []byte) bool {
	open, end := false, 0 // whether a first half was the last escape, and where that ended
	for _, at := range escapes.FindAllSubmatchIndex(body, -1) {
		code := strings.ToLower(string(body[at[2]:at[3]]))
		second := code >= "udc00" && code <= "udfff"
		if open != (second && at[0] == end) || second && !open {
			return true
		}
		open, end = code >= "ud800" && code < "udc00", at[1]
	}
	return open
}

// decode returns the body as encoding/json reads it.
func decode(t testing.TB, body []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("decode(%q): %v", body, err)
	}
	return m
}

// checkDecoded compares a request with what encoding/json decodes from its body.
func checkDecoded(t testing.TB, r *Request) {
	t.Helper()
	body := decode(t, r.raw)
	if r.Model != body["model"] {
		t.Errorf("Parse(%q).Model = %q, want %q", r.raw, r.Model, body["model"])
	}
	messages := body["messages"].([]any)
	if len(r.Messages) != len(messages) {
		t.Fatalf("Parse(%q) has %d messages, want %d", r.raw, len(r.Messages), len(messages))
	}
	roles := map[string]Role{
		"system": RoleSystem, "developer": RoleSystem, "user": RoleUser, "assistant": RoleAssistant, "tool": RoleTool,
	}
	size, images := 0, 0
	for i, m := range r.Messages {
		want := messages[i].(map[string]any)
		if m.Role != roles[want["role"].(string)] {
			t.Errorf("message %d of %q has role %d, want %q", i, r.raw, m.Role, want["role"])
		}
		var texts []string
		switch c := want["content"].(type) {
		case nil:
			if !m.Content.IsNull() {
				t.Errorf("message %d of %q has a content, want none", i, r.raw)
			}
		case string:
			texts = []string{c}
		case []any:
			for j, part := range c {
				p := part.(map[string]any)
				if p["type"] == "text" || p["type"] == "refusal" {
					texts = append(texts, p[p["type"].(string)].(string))
					continue
				}
				if p["type"] != "image_url" {
					if m.Content.Parts()[j].IsImage() {
						t.Errorf("part %d of %q is an image, want none", j, r.raw)
					}
					continue
				}
				images++
				if url := p["image_url"].(map[string]any)["url"]; m.Content.Parts()[j].ImageURL() != url {
					t.Errorf("part %d of %q has the URL %q, want %q", j, r.raw, m.Content.Parts()[j].ImageURL(), url)
				}
			}
		}
		// Text leaves out the line breaks in front of the first text that is not empty.
		joined := strings.Join(texts, "\n")
		if got := m.Content.Text(); strings.TrimLeft(got, "\n") != strings.TrimLeft(joined, "\n") {
			t.Errorf("message %d of %q has the text %q, want %q", i, r.raw, got, joined)
		}
		for _, text := range texts {
			size += len(text)
		}
		calls, _ := want["tool_calls"].([]any)
		if len(m.ToolCalls) != len(calls) {
			t.Fatalf("message %d of %q has %d calls, want %d", i, r.raw, len(m.ToolCalls), len(calls))
		}
		for j, c := range made(m.ToolCalls) {
			w := calls[j].(map[string]any)
			f, arguments := w["function"], "arguments"
			if w["type"] == "custom" {
				f, arguments = w["custom"], "input"
			}
			if f := f.(map[string]any); (c != ToolCall{w["id"].(string), f["name"].(string), f[arguments].(string), w["type"] == "custom"}) {
				t.Errorf("call %d of message %d of %q = %v, want %v", j, i, r.raw, c, w)
			}
			size += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	if r.PromptBytes() < size {
		t.Errorf("PromptBytes(%q) = %d, want at least %d", r.raw, r.PromptBytes(), size)
	}
	if r.Images() != images {
		t.Errorf("Images(%q) = %d, want %d", r.raw, r.Images(), images)
	}
	if r.TokenBound() <= r.PromptBytes() {
		t.Errorf("TokenBound(%q) = %d, want more than %d", r.raw, r.TokenBound(), r.PromptBytes())
	}
}

// checkPatch compares the result of AppendUpstream with the same changes made to the decoded body.
func checkPatch(t testing.TB, r *Request, p Patch) {
	t.Helper()
	got := r.AppendUpstream([]byte("before"), p)
	if !bytes.HasPrefix(got, []byte("before")) {
		t.Fatalf("AppendUpstream(%q) = %q, want dst in front", r.raw, got)
	}
	got = got[len("before"):]
	if pieces := r.upstream(p, 0); !bytes.Equal(bytes.Join(pieces[:], nil), got) {
		t.Fatalf("Upstream(%q, %+v) = %q, want the same as AppendUpstream: %q", r.raw, p, pieces, got)
	}
	if err := legal(got); err != nil {
		t.Fatalf("AppendUpstream(%q, %+v) = %q: %v", r.raw, p, got, err)
	}
	want := decode(t, r.raw)
	if tools, ok := want["tools"].([]any); ok && len(tools) == 0 {
		delete(want, "tools")
		delete(want, "tool_choice")
		delete(want, "parallel_tool_calls")
	}
	for _, name := range p.Drop {
		if name != "model" {
			delete(want, name)
		}
	}
	if !r.Stream {
		delete(want, "stream_options")
	}
	if stops, ok := want["stop"]; ok {
		list, many := stops.([]any)
		left := slices.DeleteFunc(slices.Clone(list), func(s any) bool { return s == "" })
		switch {
		case stops == "", many && len(left) == 0:
			delete(want, "stop")
		case many:
			want["stop"] = left
		}
	}
	if options, ok := want["stream_options"].(map[string]any); ok {
		delete(options, "resumable") // ours
	}
	if p.IncludeUsage && r.Stream {
		options, _ := want["stream_options"].(map[string]any)
		if options == nil {
			options = map[string]any{}
			want["stream_options"] = options
		}
		options["include_usage"] = true
	}
	if messages, ok := want["messages"].([]any); ok {
		for _, v := range messages {
			m := v.(map[string]any)
			if calls, ok := m["tool_calls"].([]any); ok && len(calls) == 0 {
				delete(m, "tool_calls")
			}
			if m["role"] == "developer" && p.SystemRole {
				m["role"] = "system"
			}
		}
	}
	for _, s := range p.Set {
		var v any
		d := json.NewDecoder(bytes.NewReader(s.Value))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		want[s.Name] = v
	}
	if p.Model != "" {
		want["model"] = string([]rune(p.Model)) // bytes that are no UTF-8 become U+FFFD
	}
	if diff := cmp.Diff(want, decode(t, got)); diff != "" {
		t.Errorf("AppendUpstream(%q, %+v) = %q, differs (-want +got):\n%s", r.raw, p, got, diff)
	}
}
