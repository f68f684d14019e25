package moving

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sluice/internal/app/config"
)

// maxValues is how many values a source may have, with every alias written out.
const maxValues = 50_000

// reader builds the tree of a source.
type reader struct {
	anchors map[string]ast.Node
	left    int // values that may still be made
}

// parse reads YAML or JSON, which is YAML as well. file is the name for messages.
func parse(file string, text []byte) (*value, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%s is larger than 1 MiB, the maximum for a configuration", file)
	}
	src := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	tokens := lexer.Tokenize(src)
	if tk := config.TooDeep(tokens); tk != nil {
		return nil, fmt.Errorf("%s:%d: lists and mappings are nested more than %d deep", file, tk.Position.Line, config.MaxNesting)
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		// The parser's own message quotes the file, which has keys.
		line := 1
		if e, ok := err.(interface{ GetToken() *token.Token }); ok && e.GetToken() != nil {
			line = e.GetToken().Position.Line
		}
		return nil, fmt.Errorf("%s:%d: this is not valid YAML or JSON; check the indentation and the quotes around here", file, line)
	}
	r := &reader{anchors: map[string]ast.Node{}, left: maxValues}
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		v, err := r.value(doc.Body, "", 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return v, nil
	}
	return nil, fmt.Errorf("%s is empty", file)
}

var errTooMany = fmt.Errorf("it has more than %d values", maxValues)

// value converts a node of the syntax tree.
func (r *reader) value(node ast.Node, path string, depth int) (*value, error) {
	if r.left--; r.left < 0 {
		return nil, errTooMany
	}
	if depth > config.MaxNesting {
		return nil, fmt.Errorf("line %d: lists and mappings are nested more than %d deep", node.GetToken().Position.Line, config.MaxNesting)
	}
	v := &value{path: path, line: node.GetToken().Position.Line}
	switch n := node.(type) {
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.value(n.Value, path, depth)
	case *ast.AliasNode:
		target, ok := r.anchors[n.Value.GetToken().Value]
		if !ok {
			return nil, fmt.Errorf("line %d: the alias has no anchor before it", v.line)
		}
		return r.value(target, path, depth+1)
	case *ast.TagNode:
		return r.value(n.Value, path, depth)
	case *ast.MappingNode:
		return v, r.mapping(v, n.Values, depth)
	case *ast.MappingValueNode:
		return v, r.mapping(v, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		return v, r.sequence(v, n.Values, depth)
	}
	v.form, v.text = scalar(node)
	return v, nil
}

// sequence fills a list.
func (r *reader) sequence(v *value, items []ast.Node, depth int) error {
	v.form = isList
	for i, item := range items {
		inside, err := r.value(item, v.path+"["+strconv.Itoa(i)+"]", depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, inside)
	}
	return nil
}

// scalar returns the form and the text of a node without parts.
func scalar(node ast.Node) (form, string) {
	switch n := node.(type) {
	case *ast.NullNode:
		return isNull, ""
	case *ast.StringNode:
		return isText, n.Value
	case *ast.LiteralNode:
		return isText, n.Value.Value
	case *ast.BoolNode:
		return isPlain, strconv.FormatBool(n.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		return isPlain, strings.ReplaceAll(n.GetToken().Value, "_", "")
	}
	return isText, node.GetToken().Value
}

// mapping fills a mapping. Like the loaders of the other gateways, it lets the last of equal keys win, and takes fields of
// a merged mapping (<<) unless the mapping has them itself.
func (r *reader) mapping(v *value, entries []*ast.MappingValueNode, depth int) error {
	v.form = isMapping
	v.fields = map[string]*value{}
	var merged []*value
	for _, entry := range entries {
		key := entry.Key.GetToken().Value
		if s, ok := entry.Key.(*ast.StringNode); ok {
			key = s.Value
		}
		_, merge := entry.Key.(*ast.MergeKeyNode)
		path := join(v.path, key)
		if merge {
			path = v.path
		}
		inside, err := r.value(entry.Value, path, depth+1)
		if err != nil {
			return err
		}
		inside.line = max(entry.Key.GetToken().Position.Line, 1)
		if merge {
			merged = append(merged, inside.list()...)
			continue
		}
		v.put(key, inside)
	}
	for _, m := range merged {
		for _, k := range m.keys {
			if v.fields[k] == nil {
				v.put(k, m.fields[k])
			}
		}
	}
	return nil
}

// put sets a field.
func (v *value) put(key string, inside *value) {
	if first := v.fields[key]; first != nil {
		first.dropped("the key is given twice, and the last one counts")
		v.repeated = append(v.repeated, first)
	} else {
		v.keys = append(v.keys, key)
	}
	v.fields[key] = inside
}

// join appends a key to a path. A key that would read like a path itself is quoted.
func join(path, key string) string {
	if strings.ContainsAny(key, ".[]: ") || key == "" {
		key = strconv.Quote(key)
	}
	if path == "" || strings.HasSuffix(path, ": ") {
		return path + key
	}
	return path + "." + key
}

// rebase makes the paths of an included file begin with its name.
func (v *value) rebase(prefix string) {
	v.path = prefix + v.path
	for _, r := range v.repeated {
		r.rebase(prefix)
	}
	for _, f := range v.fields {
		f.rebase(prefix)
	}
	for _, item := range v.items {
		item.rebase(prefix)
	}
}

// table reads rows of a database: a JSON list of objects, or CSV with a line of column names.
func table(file string, text []byte) (*value, error) {
	trimmed := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
	if len(trimmed) == 0 {
		return nil, fmt.Errorf("%s is empty", file)
	}
	if trimmed[0] == '[' || trimmed[0] == '{' {
		return parse(file, trimmed)
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%s is larger than 1 MiB; export fewer columns, or the rows in parts", file)
	}
	rows := csv.NewReader(bytes.NewReader(trimmed))
	head, err := rows.Read()
	if err != nil || len(head) < 2 {
		return nil, fmt.Errorf("%s is neither a JSON list nor CSV with a line of column names", file)
	}
	all := &value{form: isList}
	for left := maxValues; ; {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if left -= len(cells); err != nil || left < 0 {
			return nil, fmt.Errorf("%s: row %d cannot be read, or there are too many values", file, len(all.items)+1)
		}
		line, _ := rows.FieldPos(0)
		all.items = append(all.items, row("["+strconv.Itoa(len(all.items))+"]", line, head, cells))
	}
}

// row returns one row of CSV.
func row(path string, line int, head, cells []string) *value {
	v := &value{path: path, line: line, form: isMapping, fields: map[string]*value{}}
	for i, cell := range cells {
		f := isText
		if cell == "" || cell == "NULL" || cell == `\N` {
			f, cell = isNull, ""
		}
		v.put(head[i], &value{path: join(path, head[i]), line: line, form: f, text: cell})
	}
	return v
}
