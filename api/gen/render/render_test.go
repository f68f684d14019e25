package render

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct{ source, wantErr string }{
		{"a: {$ref: '#/b'}\nb: {c: 1}", ""},
		{"a: {$ref: '#/b'}\nb: 1", "reference #/b leads nowhere"},
		{"a: [{$ref: '#/b/c'}]\nb: {}", "reference #/b/c leads nowhere"},
		{"a: {$ref: 1}", "reference 1 leads nowhere"},
		{"a: [", "read the document"},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.source))
		if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("Parse(%q) = %v, want %q", tt.source, err, tt.wantErr)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ source, want string }{
		{"z: 1\na: [x, true, null, 0.5]\n", `{"z":1,"a":["x",true,null,0.5]}`},
		{"a: &x {z: 1, b: 2}\nc: *x", `{"a":{"z":1,"b":2},"c":{"z":1,"b":2}}`},
		{`a: "<b> & \"c\""`, `{"a":"<b> & \"c\""}`},
		{"a: {}\nb: []", `{"a":{},"b":[]}`},
	}
	for _, tt := range tests {
		doc, err := Parse([]byte(tt.source))
		if err != nil {
			t.Fatalf("Parse(%q) = %v, want nil", tt.source, err)
		}
		if got := string(doc.JSON()); got != tt.want+"\n" {
			t.Errorf("JSON(%q) = %s, want %s", tt.source, got, tt.want)
		}
	}
}

func TestPretty(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", inlineWidth)
	tests := []struct{ source, want string }{
		{"a: 1", "{\n  \"a\": 1\n}"},
		{"a: {b: [1, 2]}", "{\n  \"a\": {\"b\": [1, 2]}\n}"},
		{"a: [" + long + ", {}]", "{\n  \"a\": [\n    \"" + long + "\",\n    {}\n  ]\n}"},
	}
	for _, tt := range tests {
		doc, err := Parse([]byte(tt.source))
		if err != nil {
			t.Fatalf("Parse(%q) = %v, want nil", tt.source, err)
		}
		if got := pretty(doc.root); got != tt.want {
			t.Errorf("pretty(%q) = %s, want %s", tt.source, got, tt.want)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"", ""},
		{"a < b", "<p>a &lt; b</p>"},
		{"`<a>` and **b** at [c](#d)\n", `<p><code>&lt;a&gt;</code> and <strong>b</strong> at <a href="#d">c</a></p>`},
		{"one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"},
		{"- a\n- `b`", "<ul><li>a</li><li><code>b</code></li></ul>"},
		{"lead\n- a", "<p>lead</p><ul><li>a</li></ul>"},
	}
	for _, tt := range tests {
		if got := string(prose(tt.in)); got != tt.want {
			t.Errorf("prose(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestHighlight(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{`{"a": "b"}`, `{<span class="key">&#34;a&#34;</span>: <span class="str">&#34;b&#34;</span>}`},
		{`[1, null, <]`, `[<span class="lit">1</span>, <span class="lit">null</span>, &lt;]`},
		{"data: [DONE]", `<span class="mark">data:</span> [DONE]`},
	}
	for _, tt := range tests {
		if got := string(highlight(jsonTokens, tt.in)); got != tt.want {
			t.Errorf("highlight(%s) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	doc, err := Parse([]byte(`
shared: {title: Shared, type: object, description: theirs, properties: {x: {type: string}}}
thing:
  required: [n]
  properties:
    n: {type: [integer, "null"], minimum: 1, maximum: 9, default: 3}
    s: {type: string, minLength: 1}
    e: {type: array, maxItems: 4, items: {type: string, enum: [a, b, null]}}
    o: {$ref: "#/shared", description: ours}
    p: {anyOf: [{type: string, const: all}, {type: array, maxItems: 2, items: {$ref: "#/shared"}}, {type: "null"}]}
    h: {type: object, additionalProperties: {type: string}}
`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		dir  direction
		want []string
	}{
		{request, []string{
			"n integer [1 to 9] [] 3 required:true optional:false forms:0 open:false ",
			"s string [not empty] []  required:false optional:false forms:0 open:false ",
			"e array of strings [at most 4 items] [a b]  required:false optional:false forms:0 open:false ",
			"o object [] []  required:false optional:false forms:1 open:true <p>ours</p>",
			"p string or array of objects [array at most 2 items] [all]  required:false optional:false forms:1 open:false ",
			"h object of strings [] []  required:false optional:false forms:0 open:false ",
		}},
		{response, []string{
			"n integer or null [] [] 3 required:false optional:false forms:0 open:false ",
			"s string [] []  required:false optional:true forms:0 open:false ",
			"e array of strings [] [a b]  required:false optional:true forms:0 open:false ",
			"o object [] []  required:false optional:true forms:1 open:true <p>ours</p>",
			"p string or array of objects or null [] [all]  required:false optional:true forms:1 open:false ",
			"h object of strings [] []  required:false optional:true forms:0 open:false ",
		}},
	}
	for _, tt := range tests {
		explain := &explainer{doc, map[string]bool{}}
		rows := explain.fields(doc.target("#/thing"), tt.dir)
		if len(rows) != len(tt.want) {
			t.Fatalf("fields(%v) = %d rows, want %d", tt.dir, len(rows), len(tt.want))
		}
		for i, row := range rows {
			if got := describe(row); got != tt.want[i] {
				t.Errorf("fields(%v)[%d] = %q, want %q", tt.dir, i, got, tt.want[i])
			}
		}
	}
}

func describe(f field) string {
	return fmt.Sprintf("%s %s %v %v %s required:%t optional:%t forms:%d open:%t %s",
		f.Name, f.Type, f.Facts, f.Values, f.Default, f.Required, f.Optional, len(f.Forms), f.Open, f.Note)
}
