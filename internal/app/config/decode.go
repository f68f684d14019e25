package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sluice/internal/kit/typo"
)

// MaxNesting limits how deep lists and mappings may be nested. The settings need 4; the
// parser's time and memory grow with the square of the depth.
const MaxNesting = 32

// decoder reads the syntax tree of the file into the configuration types. It is strict:
// anything that the types do not have is an error. Values are named by paths such as
// models[0].plan, in messages as well.
type decoder struct {
	*record
	file     string
	env      map[string]string
	readFile func(path string) (string, error)
	lines    []string
}

// decode reads the text of the file into root. It reports false if the text is not valid YAML.
func (d *decoder) decode(text []byte, root reflect.Value) bool {
	body, at, problem := d.parse(text)
	if problem != "" {
		d.failAt(at, "", "%s", problem)
		return false
	}
	d.places[""] = place{source: d.file, line: 1, column: 1}
	if body != nil {
		d.value(root, body, "")
	}
	return true
}

// parse returns the syntax tree, or nil for a file without content. If the text is invalid, it
// returns the problem and its place.
func (d *decoder) parse(raw []byte) (ast.Node, place, string) {
	// Remove the byte order mark, and normalize line ends so that positions match what editors
	// show.
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(raw), "\ufeff"))
	d.lines = strings.Split(text, "\n")
	for i, line := range d.lines {
		if at, problem := unprintable(line); problem != "" {
			return nil, place{source: d.file, line: i + 1, column: at}, problem
		}
	}
	tokens := lexer.Tokenize(text)
	if tk := TooDeep(tokens); tk != nil {
		return nil, d.placeAt(tk), fmt.Sprintf("lists and mappings are nested more than %d deep", MaxNesting)
	}
	// mapping reports duplicate keys itself, with both lines.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, problem := d.syntaxError(err)
		return nil, at, problem
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case doc.Body.Type() == ast.DirectiveType:
			return nil, d.placeOfNode(doc.Body), "directives (% lines) are not supported; remove this line"
		case body != nil:
			return nil, d.placeOfNode(doc.Body), `a second document begins here; put all settings into one, without "---" between them`
		default:
			body = doc.Body
		}
	}
	return body, place{}, ""
}

// unprintable finds a character that YAML does not allow. It returns its column and the
// problem, or 0 and "".
func unprintable(line string) (int, string) {
	column := 0
	for i, c := range line {
		column++
		if c == utf8.RuneError && !strings.HasPrefix(line[i:], "\ufffd") {
			return column, "the file is not UTF-8 text; save it in that encoding"
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return column, fmt.Sprintf("the control character %U is not allowed", c)
		}
	}
	return 0, ""
}

// TooDeep returns the token at which the nesting exceeds MaxNesting, or nil. It is asked before the parser runs. Nesting by
// indentation alone needs no limit of its own: the maximum file size bounds it.
func TooDeep(tokens token.Tokens) *token.Token {
	brackets, dashes, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, dashes = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if brackets+dashes > MaxNesting {
			return tk
		}
	}
	return nil
}

// value reads a node into v and records its place.
func (d *decoder) value(v reflect.Value, node ast.Node, path string) {
	d.places[path] = d.placeOfNode(node)
	switch node.(type) {
	case *ast.AnchorNode:
		d.fail(path, "anchors (&name) are not supported; write the value out wherever it is needed")
		return
	case *ast.AliasNode:
		d.fail(path, "%s", noAliases)
		return
	case *ast.TagNode:
		d.fail(path, "tags (!name) are not supported; put the value in quotes if the ! is part of it")
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case isSection(v.Type()), isNames(v.Type()):
		d.mapping(v, node, path)
	case v.Kind() == reflect.Slice && !isWord(v, node):
		d.list(v, node, path)
	default:
		d.scalar(v, node, path)
	}
}

// isWord reports whether a list that a word may stand for is written as a word.
func isWord(v reflect.Value, node ast.Node) bool {
	_, text := node.(*ast.StringNode)
	return text && v.Type() == reflect.TypeFor[Allowed]()
}

// isSection reports whether values of the type are mappings in the file. A network is a struct
// as well, but is written as text.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Map && !isNames(t) || t.Kind() == reflect.Struct && t != reflect.TypeFor[netip.Prefix]()
}

// isNames reports whether values of the type are mappings of any names to scalars.
func isNames(t reflect.Type) bool {
	return t.Kind() == reflect.Map && t.Elem().Kind() != reflect.Struct
}

// fieldsOf returns the settings of a section: the fields that have a key, also those of embedded structs.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Tag.Get("yaml") == "" })
}

// mapping reads a struct, the map of plans, or a map of names. It reports unknown, repeated and missing keys.
func (d *decoder) mapping(v reflect.Value, node ast.Node, path string) {
	var entries []*ast.MappingValueNode
	switch node := node.(type) {
	case *ast.MappingNode:
		entries = node.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{node}
	case *ast.NullNode: // a key whose whole content is commented out
	default:
		d.mismatch(v.Type(), node, path)
		return
	}
	lines := map[string]int{} // key → its line
	for _, entry := range entries {
		at := d.placeOfNode(entry.Key)
		key, problem := keyText(entry.Key)
		if problem != "" {
			d.failAt(at, path, "%s", problem)
			continue
		}
		inside := join(path, key)
		if first, twice := lines[key]; twice {
			d.failAt(at, inside, "given twice, on line %d and again on line %d; remove one of them", first, at.line)
			continue
		}
		read := d.field
		switch {
		case isNames(v.Type()):
			read = d.name
		case v.Kind() == reflect.Map:
			read = d.plan
		}
		if read(v, key, entry, inside) {
			lines[key] = at.line
		}
	}
	if v.Kind() == reflect.Struct {
		for _, field := range fieldsOf(v.Type()) {
			key := field.Tag.Get("yaml")
			required := field.Tag.Get("required")
			if required == "chat" && v.FieldByName("Kind").String() == embeddingKind {
				continue // only chat models need it
			}
			if _, present := lines[key]; !present && required != "" {
				d.failAt(d.places[path], join(path, key), "is required, but missing")
			}
		}
	}
}

// field reads one entry of a struct. It reports false if the struct has no such key.
func (d *decoder) field(v reflect.Value, key string, entry *ast.MappingValueNode, path string) bool {
	var known []string
	for _, field := range fieldsOf(v.Type()) {
		name := field.Tag.Get("yaml")
		if name == key {
			d.value(v.FieldByIndex(field.Index), entry.Value, path)
			return true
		}
		known = append(known, name)
	}
	at := d.placeOfNode(entry.Key)
	// "key:value" without a space is a single key in YAML. The value in it may be a secret, so
	// show only what precedes it.
	if cut := strings.IndexAny(key, ":= \t\n"); cut >= 0 {
		path = strings.TrimSuffix(path, key[cut:])
		d.failAt(at, path, `not a "key: value" pair; put a colon and a space between the two`)
		return false
	}
	d.failAt(at, strings.TrimSuffix(path, key)+shorten(key), "unknown field%s", typo.DidYouMean(key, known))
	return false
}

// name reads one entry of a map, which may have any key.
func (d *decoder) name(v reflect.Value, name string, entry *ast.MappingValueNode, path string) bool {
	value := reflect.New(v.Type().Elem()).Elem()
	d.value(value, entry.Value, path)
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	v.SetMapIndex(reflect.ValueOf(name), value)
	return true
}

// plan reads one entry of Config.Plans. It reports false if there is no such
// plan.
func (d *decoder) plan(v reflect.Value, name string, entry *ast.MappingValueNode, path string) bool {
	if !slices.Contains(planNames, name) {
		d.failAt(d.placeOfNode(entry.Key), strings.TrimSuffix(path, name)+shorten(name), "%s is not a plan; %s", quote(name), oneOf(planNames))
		return false
	}
	return d.name(v, name, entry, path)
}

// list reads a sequence. An invalid entry keeps its index, so that the paths of later entries
// stay correct.
func (d *decoder) list(v reflect.Value, node ast.Node, path string) {
	if _, empty := node.(*ast.NullNode); empty {
		return
	}
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.mismatch(v.Type(), node, path)
		return
	}
	list := reflect.MakeSlice(v.Type(), len(sequence.Values), len(sequence.Values))
	for i, item := range sequence.Values {
		inside := fmt.Sprintf("%s[%d]", path, i)
		entry := list.Index(i)
		if _, empty := item.(*ast.NullNode); empty {
			d.places[inside] = d.placeOfNode(item)
			d.fail(inside, "this entry of the list is empty; fill it in or remove it")
			continue
		}
		if isSection(entry.Type()) {
			setDefaults(entry)
		}
		d.value(entry, item, inside)
	}
	v.Set(list)
}

// scalar reads text, a number or a boolean, and expands ${…} in text.
func (d *decoder) scalar(v reflect.Value, node ast.Node, path string) {
	var text string
	isText := false
	switch node := node.(type) {
	case *ast.NullNode:
		d.fail(path, `has no value; write one, or remove the line ("" is the empty text)`)
		return
	case *ast.StringNode:
		text, isText = node.Value, true
	case *ast.LiteralNode:
		text, isText = node.Value.Value, true
	case *ast.BoolNode:
		text = strconv.FormatBool(node.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		text = numberText(node.GetToken())
	default:
		d.mismatch(v.Type(), node, path)
		return
	}
	expanded := isText && strings.Contains(text, "${")
	if expanded {
		at := d.places[path]
		at.raw = text
		d.places[path] = at
		var err error
		if text, err = d.expand(text); err != nil {
			d.fail(path, "%s", err)
			return
		}
	}
	// Text is not converted to numbers or booleans, nor the other way round. The exception is
	// ${…}, which always yields text.
	wantsText := v.Kind() == reflect.String
	wantsPlain := v.Kind() == reflect.Bool || v.Kind() == reflect.Int
	if wantsText && !isText || wantsPlain && isText && !expanded || setText(v, text) != nil {
		d.mismatch(v.Type(), node, path)
	}
}

// numberText returns a number without the underscores that group its digits. It returns "" for
// forms that people read differently (010, 0x10).
func numberText(tk *token.Token) string {
	if tk.Type != token.IntegerType && tk.Type != token.FloatType {
		return ""
	}
	return strings.ReplaceAll(tk.Value, "_", "")
}

// mismatch reports a node that has the wrong type. It quotes a value only if a value of that
// kind is expected there: stray text may be a secret.
func (d *decoder) mismatch(t reflect.Type, node ast.Node, path string) {
	quotable := t != reflect.TypeFor[Secret]() && t.Kind() != reflect.Slice && !isSection(t)
	found := "text"
	switch node := node.(type) {
	case *ast.SequenceNode:
		found = "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		found = "a mapping"
	case *ast.StringNode:
		if quotable {
			found = d.shown(path, node.Value)
		}
	case *ast.LiteralNode:
		if quotable {
			found = d.shown(path, node.Value.Value)
		}
	default:
		found = "a number or a word"
		if quotable {
			found = shorten(node.GetToken().Value)
		}
		if problem := barePort(node.GetToken().Value); problem != "" && (path == "listen" || path == "metrics_listen") {
			d.fail(path, "%s", problem)
			return
		}
		if t.Kind() == reflect.String {
			found += "; put it in quotes"
		}
	}
	d.fail(path, "expected %s, found %s", wordsFor(t), found)
}

// keyText returns the text of a mapping's key, or a problem.
func keyText(key ast.MapKeyNode) (text, problem string) {
	switch key := key.(type) {
	case *ast.StringNode:
		if key.Value == "" {
			return "", "the key of this value is empty"
		}
		return key.Value, ""
	case *ast.MergeKeyNode:
		return "", "merge keys (<<) are not supported; write the fields out"
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return key.GetToken().Value, ""
	}
	return "", `write this key as plain text: "key: value"`
}

// placeOfNode returns where a node starts. A mapping starts at its first key.
func (d *decoder) placeOfNode(node ast.Node) place {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return d.placeOfNode(n.Values[0])
		}
	case *ast.MappingValueNode:
		return d.placeOfNode(n.Key)
	}
	return d.placeAt(node.GetToken())
}

// placeAt returns the place of a token. It is clamped to the file, because the parser's
// positions are sometimes slightly outside.
func (d *decoder) placeAt(tk *token.Token) place {
	line := min(max(tk.Position.Line, 1), len(d.lines))
	width := utf8.RuneCountInString(d.lines[line-1])
	return place{source: d.file, line: line, column: min(max(tk.Position.Column, 1), width+1)}
}

// syntaxError returns where the parser stopped, and why.
func (d *decoder) syntaxError(err error) (place, string) {
	at, problem := place{source: d.file, line: 1, column: 1}, "this is not valid YAML; check the indentation and the quotes around here"
	parserError, ok := err.(interface {
		GetToken() *token.Token
		GetMessage() string
	})
	if !ok {
		return at, problem
	}
	if tk := parserError.GetToken(); tk != nil {
		at = d.placeAt(tk)
	}
	for _, known := range syntaxProblems {
		if strings.Contains(parserError.GetMessage(), known.message) {
			return at, known.plain
		}
	}
	return at, problem
}

const noAliases = "aliases (*name) are not supported; write the value out, or put it in quotes if the * is part of it"

// syntaxProblems translates the parser's messages. Messages that are not in the list are not
// shown: some of them quote the file, which may contain secrets.
var syntaxProblems = []struct{ message, plain string }{
	{"mapping value is not allowed in this context", `a "key: value" pair is not allowed here; check the indentation, or put a value with ": " in it in quotes`},
	{"map key-value is pre-defined", "the value has ended before this; check the indentation, or put the whole value in quotes"},
	{"value is not allowed in this context", "this does not belong here; check that it lines up with its neighbours, or put the whole value in quotes"},
	{"non-map value is specified", `expected "key: value" here; check the colon, the space after it and the indentation`},
	{"unexpected key name", `expected "key: value" on one line; check the colon, the space after it and the indentation`},
	{"sequence end token ']' not found", `the list that begins with "[" is not closed`},
	{"',' or ']' must be specified", `expected "," or "]"; text with any of []{}, in it, such as ${NAME}, needs quotes inside a list`},
	{"could not find flow mapping end token '}'", `the mapping that begins with "{" is not closed`},
	{"could not find flow map content", `the mapping that begins with "{" is not closed`},
	{"',' or '}' must be specified", `expected "," or "}"; text with any of []{}, in it, such as ${NAME}, needs quotes inside braces`},
	{"corresponding to ']'", `"]" without a "[" before it; put the value in quotes if it is part of it`},
	{"end character of double-quoted text", "the quoted text that begins here has no closing quote"},
	{"end character of single-quoted text", "the quoted text that begins here has no closing quote"},
	{"unknown escape character", `this escape does not exist inside double quotes; write \\ for a backslash, or use single quotes`},
	{"found character '\t' that cannot start any token", "tabs are not allowed here; indent with spaces"},
	{"tab character", "tabs are not allowed here; indent with spaces"},
	{"is a reserved character", "a value cannot begin with this character; put it in quotes"},
	{"undefined alias name", noAliases},
	{"unexpected scalar value type", `a value cannot begin with "*" or "&"; put it in quotes`},
	{"undefined anchor", `a value cannot begin with "&"; put it in quotes`},
	{"expected sequence element", `expected an entry of the list before ","`},
	{"unexpected directive value", "a value cannot begin with this character; put it in quotes"},
	{"block sequence entries are not allowed", `an entry that begins with "- " is not allowed here; put it on its own line`},
	{"invalid header option", `after "|" or ">" the text begins on the next line; put the value in quotes if the character is part of it`},
}
