package app_test

import (
	"strings"
	"testing"
)

// Every door tells the service tier that the upstream names, in the words of its own clients.
func TestServiceTier(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	plain := v.says
	tiers := map[string]func(tier string) (path, reply string){
		"chat": func(tier string) (path, reply string) {
			return "/v1/chat/completions", strings.Replace(plain["/v1/chat/completions"], `{"choices"`, `{"service_tier":"`+tier+`","choices"`, 1)
		},
		"responses": func(tier string) (path, reply string) {
			return "/v1/responses", strings.Replace(plain["/v1/responses"], `"status"`, `"service_tier":"`+tier+`","status"`, 1)
		},
		"messages": func(tier string) (path, reply string) {
			return "/v1/messages", strings.Replace(plain["/v1/messages"], `"input_tokens"`, `"service_tier":"`+tier+`","input_tokens"`, 1)
		},
	}
	for _, tt := range []struct {
		dialect, tier             string // the upstream's
		chat, responses, messages string // what callers read; empty: nothing
	}{
		{"chat", "default", "default", "default", "standard"},
		{"chat", "priority", "priority", "priority", "priority"},
		{"chat", "flex", "flex", "flex", ""},
		{"chat", "on_demand", "", "default", ""}, // a vendor's own, which clients do not know
		{"responses", "priority", "priority", "priority", "priority"},
		{"messages", "standard", "default", "default", "standard"},
		{"messages", "priority", "priority", "priority", "priority"},
		{"messages", "batch", "", "default", "batch"},
	} {
		path, reply := tiers[tt.dialect](tt.tier)
		v.mu.Lock()
		v.says = map[string]string{path: reply}
		v.mu.Unlock()
		for _, d := range threeDoors {
			want := map[string]string{"chat": tt.chat, "responses": tt.responses, "messages": tt.messages}[d.name]
			for _, stream := range []string{"", `,"stream":true`} {
				status, got, _ := n.knock(d.path, key, `{"model":"lab/`+tt.dialect+`-closed",`+d.head+stream+`}`, "")
				has := strings.Contains(got, `"service_tier":"`+want+`"`)
				if want == "" {
					has = !strings.Contains(got, "service_tier")
				}
				// The upstream does not stream, and a stream of messages tells the tier at its beginning.
				if stream != "" && tt.dialect != "chat" && d.name != "chat" {
					continue
				}
				if status != 200 || !has {
					t.Errorf("%s to %s of the tier %s%s = %d %s, want the tier %q", d.name, tt.dialect, tt.tier, stream, status, got, want)
				}
			}
		}
	}
}
