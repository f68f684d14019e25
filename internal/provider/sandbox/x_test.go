package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"sluice/internal/chat"
	"sluice/internal/provider"
	"strings"
	"testing"
)

func TestX(t *testing.T) {
	b, _ := os.ReadFile("/tmp/prompts.txt")
	tools, _ := os.ReadFile("/tmp/tools.json")
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		m, txt, _ := strings.Cut(l, "|")
		j, _ := json.Marshal(strings.ReplaceAll(txt, "\\n", "\n"))
		body := `{"model":"sandbox/small","temperature":0,"messages":[{"role":"user","content":` + string(j) + `}]`
		if m == "t" {
			body += `,"tools":` + string(tools)
		}
		if m == "j" {
			body += `,"response_format":{"type":"json_object"}`
		}
		r, err := chat.Parse([]byte(body + "}"))
		if err != nil {
			t.Fatal(err)
		}
		up := "small"
		if m == "l" {
			up = "large"
		}
		s, err := New().Open(t.Context(), &provider.Call{Request: r, Upstream: up})
		if err != nil {
			fmt.Println(l, "=>", err)
			continue
		}
		o := collect(t, s)
		fmt.Printf("%-70s => %s", txt, o.content)
		for _, c := range o.calls {
			fmt.Printf(" CALL %s %s", c.Name, c.Arguments)
		}
		fmt.Println()
	}
}
