package models

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// TestEverySchemaIsFilled makes up schemas and prompts and asks an independent validator.
func TestEverySchemaIsFilled(t *testing.T) {
	t.Parallel()
	prompts := rapid.SampledFrom([]string{
		"", "go", "Ana Lima is 29 and lives in Porto with 3 cats.", "red or blue, 5 of \"each\"", "What is 2 + 2?",
		"From Rome to Oslo on 3 May 2026 for -7.5 at bo@example.com, https://example.com", strings.Repeat("word 12 ", 3000),
	})
	rapid.Check(t, func(r *rapid.T) {
		schema := `{"type":"object","properties":` + memberSchemas(r, 3) + `,"$defs":{"leaf":{"type":"string"},"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}},"up":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},"required":["kids","up"]}}}`
		text := prompts.Draw(r, "prompt")
		got := ask(t, body(t, "sandbox/small", text, `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+schema+`}}`), 0)
		if !json.Valid([]byte(got.content)) {
			r.Fatalf("%s for %q gives %s, want JSON", schema, text, got.content)
		}
		validate(t, []byte(schema), got.content)
		if t.Failed() {
			r.Fatalf("%s for %q gives %s", schema, text, got.content)
		}
	})
}

// members draws the properties of an object, with what is required of them.
func memberSchemas(r *rapid.T, depth int) string {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"name", "city", "age", "count", "answer", "tags", "from", "to", "is_new", "date", "email", "query", "x"}), 0, 4, rapid.ID).Draw(r, "names")
	var parts, required []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%q:%s", name, value(r, depth)))
		if rapid.Bool().Draw(r, "required") {
			required = append(required, fmt.Sprintf("%q", name))
		}
	}
	return `{` + strings.Join(parts, ",") + `},"additionalProperties":false,"required":[` + strings.Join(required, ",") + `]`
}

func value(r *rapid.T, depth int) string {
	kinds := 12
	if depth == 0 {
		kinds = 9
	}
	n := func(low, high int) int { return rapid.IntRange(low, high).Draw(r, "n") }
	switch n(0, kinds) {
	case 0:
		return fmt.Sprintf(`{"type":"integer","exclusiveMinimum":%d}`, n(-9, 9))
	case 1:
		low := n(-20, 20)
		return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, low, low+n(0, 9))
	case 2:
		return fmt.Sprintf(`{"type":"number","exclusiveMinimum":%d,"maximum":%d}`, n(-5, 0), n(1, 9))
	case 3:
		return fmt.Sprintf(`{"type":"number","minimum":%d,"default":%d}`, n(-30, 30), n(30, 40))
	case 4:
		return `{"type":["boolean","null"]}`
	case 5:
		return `{"enum":["red","blue",5,null,true]}`
	case 6:
		return fmt.Sprintf(`{"type":"string","format":%q}`, rapid.SampledFrom([]string{"date", "date-time", "email", "uri"}).Draw(r, "format"))
	case 7:
		return `{"const":{"a":[1]}}`
	case 8:
		return rapid.SampledFrom([]string{`{"$ref":"#/$defs/leaf"}`, `{"$ref":"#/$defs/tree"}`, `true`, `{}`, `{"type":"null"}`}).Draw(r, "simple")
	case 9:
		low := n(0, 3)
		return fmt.Sprintf(`{"type":"array","minItems":%d,"maxItems":%d,"items":%s}`, low, low+n(0, 3), value(r, max(0, depth-1)))
	case 10:
		return fmt.Sprintf(`{"anyOf":[%s,%s]}`, value(r, depth-1), value(r, depth-1))
	case 11:
		return fmt.Sprintf(`{"oneOf":[{"const":%d},{"type":"object","properties":{"z":%s},"required":["z"]}]}`, n(0, 9), value(r, depth-1))
	}
	return `{"type":"object","properties":` + memberSchemas(r, depth-1) + `}`
}

// A schema of many small elements is refused before it is decoded.
func TestLargeSchemas(t *testing.T) {
	enum := `{"type":"object","properties":{"a":{"enum":[` + strings.Repeat("0,", 4<<20) + `0]}}}`
	for at, member := range map[string]string{
		"response_format.json_schema.schema": `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + enum + `}}`,
		"tools[0].function.parameters":       `"tools":[{"type":"function","function":{"name":"f","parameters":` + enum + `}}]`,
	} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],` + member + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = New().Open(t.Context(), &provider.Call{Request: req, Upstream: "small"})
		runtime.ReadMemStats(&after)
		if f := fault.From(err); f.Kind != fault.Invalid || f.Param != at {
			t.Errorf("Open = %v, want a 400 at %s", err, at)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s: 8 MiB took %d MiB", at, took>>20)
		}
	}
}
