package faulttest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCorpora checks that everything that reads bytes from outside has a fuzz target, and inputs for it.
func TestCorpora(t *testing.T) {
	t.Parallel()
	for what, target := range map[string][2]string{
		"requests":               {"internal/prompt/chat", "FuzzParse"},
		"streams":                {"internal/line/relay", "FuzzStream"},
		"event streams":          {"internal/kit/sse", "FuzzReader"},
		"MCP, as a client":       {"internal/upstream/mcpclient", "FuzzCounter"},
		"MCP, as a server":       {"internal/api/mcpserver", "FuzzReadMessage"},
		"cookies":                {"internal/web/webui", "FuzzCookie"},
		"webhooks":               {"internal/account/billing/stripe", "FuzzEvent"},
		"ranges":                 {"internal/api/httpapi", "FuzzRange"},
		"the journal":            {"internal/ledger/usage", "FuzzScan"},
		"video requests":         {"internal/video", "FuzzParse"},
		"the configuration":      {"internal/app/config", "FuzzDecode"},
		"the admin socket":       {"internal/operate/admin", "FuzzDecode"},
		"HTTP/1.1, as a server":  {"internal/kit/lane", "FuzzDiffer"},
		"HTTP/1.1, as a client":  {"internal/kit/plainhttp", "FuzzReply"},
		"HTTP/1.1, what we send": {"internal/kit/plainhttp", "FuzzRequest"},
		"resumed streams":        {"internal/line/resume", "FuzzLastEvent"},
		"messages between nodes": {"internal/line/resume", "FuzzStranger"},
	} {
		if !exists(t, target[0], target[1]) {
			t.Errorf("%s: %s has no %s", what, target[0], target[1])
		}
		inputs, err := os.ReadDir(filepath.Join(root, target[0], "testdata", "fuzz", target[1]))
		if err != nil || len(inputs) == 0 {
			t.Errorf("%s: %s has no inputs in testdata/fuzz, %v", what, target[1], err)
		}
	}
}
