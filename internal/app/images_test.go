package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/operate/admin"
)

// TestImageAddresses is a model server on this machine, which would fetch whatever a caller names.
func TestImageAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			mu.Lock()
			bodies = append(bodies, string(raw))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a cat"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
sandbox: false
providers:
  - {name: guarded, kind: openai, base_url: "%[1]s/v1"}
  - {name: trusted, kind: openai, base_url: "%[1]s/v1", allow_image_urls: true}
models:
  - {id: eyes, provider: guarded, plan: free, context_length: 100000, max_output: 1000}
  - {id: open-eyes, provider: trusted, plan: free, context_length: 100000, max_output: 1000}
`, server.URL)).start(t)
	owner := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: owner.ID, Plan: "scale"})
	const public, metadata, pixel = "https://example.com/a.png", "http://169.254.169.254/latest/meta-data/", "data:image/png;base64,AAAA"
	for _, tt := range []struct {
		model, url string
		status     int
		reaches    bool
	}{
		{"eyes", pixel, 200, true},
		{"eyes", public, 400, false},
		{"eyes", metadata, 400, false},
		{"open-eyes", public, 200, true},
		{"open-eyes", metadata, 400, false},
		{"open-eyes", "http://0xa9fea9fe/latest/", 400, false},
		{"service/auto", public, 200, true}, // by the one that may
		{"service/auto", metadata, 400, false},
	} {
		mu.Lock()
		bodies = nil
		mu.Unlock()
		r := n.request("POST", "/v1/chat/completions", owner.MasterKey, `{"model":"`+tt.model+`","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"`+tt.url+`"}}]}]}`)
		mu.Lock()
		reached := len(bodies) > 0
		mu.Unlock()
		if r.status != tt.status || reached != tt.reaches {
			t.Errorf("%s with %s = %d %s, reached the server: %t; want %d and %t", tt.model, tt.url, r.status, r.body, reached, tt.status, tt.reaches)
		}
		if tt.status == 400 && !strings.Contains(r.body, `"param":"messages[0].content[1].image_url.url"`) {
			t.Errorf("%s with %s: %s does not name the image", tt.model, tt.url, r.body)
		}
	}
}

// TestNoAddresses sends addresses to models in the operator's network by every way that is no image_url. The upstream must
// not see any, whether the request is refused or what holds the address is left out.
func TestNoAddresses(t *testing.T) {
	t.Parallel()
	upstream := &double{}
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
sandbox: false
providers:
  - {name: lab, kind: openai, base_url: "%[1]s/v1"}
  - {name: newer, kind: openai, base_url: "%[1]s/v1", api: responses}
  - {name: claude, kind: anthropic, base_url: "%[1]s", api_key: k}
models:
  - {id: lab, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: newer, provider: newer, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: claude, provider: claude, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
`, server.URL)).start(t)
	owner := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: owner.ID, Plan: "scale"})
	const (
		address   = "169.254.169.254"
		completed = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
		response  = `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","status":"completed","role":"assistant","content":[{"type":"output_text","text":"yes","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`
		message   = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	)
	type way struct {
		part   string // ADDRESS in it is the address
		status int
		param  string
	}
	for _, door := range []struct {
		path, model, answer, body string
		ways                      []way
	}{
		{"/v1/chat/completions", "lab", completed, `{"model":"lab","messages":[{"role":"user","content":[{"type":"text","text":"hi"},%s]}]}`, []way{
			{`{"type":"text","text":"see http://a.example, please","image_url":null,"cache_control":{"type":"ephemeral"}}`, 200, ""},
			{`{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0=","filename":"http.pdf"}}`, 200, ""},
			{`{"type":"file","file":{"file_data":"JVBERi0xLjcKMSAwIG9iago=","filename":"a.pdf","file_id":null}}`, 200, ""},
			{`{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}`, 200, ""},
			{`{"type":"file","file":{"file_data":"ADDRESS"}}`, 400, "messages[0].content[1].file.file_data"},
			{`{"type":"file","file":{"file_data":"file:///etc/passwd"}}`, 400, "messages[0].content[1].file.file_data"},
			{`{"type":"file","file":{"file_data":"\u0068ttp:\/\/169.254.169.254\/"}}`, 400, "messages[0].content[1].file.file_data"},
			{`{"type":"file","file":{"file_id":"ADDRESS"}}`, 400, "messages[0].content[1].file.file_id"},
			{`{"type":"file","file":{"file_data":"AAAA","file_url":"ADDRESS"}}`, 400, "messages[0].content[1].file.file_url"},
			{`{"type":"file","file":{"file_data":"AAAA","source":{"url":"ADDRESS"}}}`, 400, "messages[0].content[1].file.source"},
			{`{"type":"input_audio","input_audio":{"data":"ADDRESS","format":"wav"}}`, 400, "messages[0].content[1].input_audio.data"},
			{`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav","url":"ADDRESS"}}`, 400, "messages[0].content[1].input_audio.url"},
			{`{"type":"text","text":"hi","image_url":{"url":"ADDRESS"}}`, 400, "messages[0].content[1].image_url"},
			{`{"type":"text","text":"hi","file":"ADDRESS"}`, 400, "messages[0].content[1].file"},
			{`{"video_url":{"url":"ADDRESS"},"type":"text","text":"hi"}`, 400, "messages[0].content[1].video_url"},
			{`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","original":"ADDRESS"}}`, 400, "messages[0].content[1].image_url.original"},
		}},
		{"/v1/responses", "newer", response, `{"model":"newer","store":false,"input":[{"role":"user","content":"hi"},%s]}`, []way{
			{`{"role":"user","content":[{"type":"input_text","text":"hi","own_field":1}]}`, 200, ""},
			{`{"role":"user","content":[{"type":"input_text","text":"hi","image_url":"ADDRESS"}]}`, 200, ""},
			{`{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0=","file_url":"ADDRESS"}]}`, 200, ""},
			{`{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"ADDRESS"}]}`, 400, ""},
			{`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","file_id":"ADDRESS"}]}`, 200, ""},
			{`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"ADDRESS","format":"wav"}}]}`, 400, ""},
			{`{"role":"user","content":"hi","image_url":"ADDRESS"}`, 200, ""},
			{`{"type":"image_generation_call","id":"ig_1","status":"completed","result":"AAAA","image_url":"ADDRESS"}`, 200, ""},
		}},
		{"/v1/messages", "claude", message, `{"model":"claude","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hi"},%s]}]}`, []way{
			{`{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}`, 200, ""},
			{`{"type":"text","text":"hi","image_url":"ADDRESS"}`, 200, ""},
			{`{"type":"text","text":"hi","source":{"type":"url","url":"ADDRESS"}}`, 200, ""},
			{`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA","url":"ADDRESS"}}`, 200, ""},
			{`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA","uri":"ADDRESS"}}`, 200, ""},
			{`{"type":"document","source":{"type":"url","url":"https://example.com/169.254.169.254.pdf"}}`, 400, ""},
			{`{"type":"video","source":{"type":"url","url":"ADDRESS"}}`, 400, ""},
			{`{"type":"image","source":{"type":"file","file_id":"ADDRESS"}}`, 400, ""},
		}},
	} {
		for _, w := range door.ways {
			upstream.say("200\n" + door.answer)
			r := n.request("POST", door.path, owner.MasterKey, fmt.Sprintf(door.body, strings.ReplaceAll(w.part, "ADDRESS", "http://"+address+"/")))
			heard := strings.Join(upstream.heard(), "\n")
			if r.status != w.status || strings.Contains(heard, address) || !strings.Contains(r.body, w.param) {
				t.Errorf("%s with %s = %d %s, and the upstream heard %s; want %d at %q, and no address", door.path, w.part, r.status, r.body, heard, w.status, w.param)
			}
			if w.status == 200 && heard == "" {
				t.Errorf("%s with %s reached nobody", door.path, w.part)
			}
		}
	}
}
