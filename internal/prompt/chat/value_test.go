package chat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// everything has all keys in its shape, at every depth, so that all of a body is in the index.
func everything(names ...string) Shape {
	s := Keys(names...)
	for _, name := range names {
		s[name] = s
	}
	return s
}

// A value reads the same with an index and without.
func TestValue(t *testing.T) {
	t.Parallel()
	shape := everything("a", "b", "list")
	for name, body := range map[string]string{
		"empty":        `{}`,
		"space":        ` { "a" : [ 1 , "x" , { } , [ ] ] , "b" : null } `,
		"nested":       `{"a":{"b":{"list":[{"a":"\u00e9\n"},true,-1.5e3]}},"other":{"a":[1,{"c":2}]}}`,
		"escaped keys": `{"\u0061":1,"b\"":{"list":"]}"},"list":["{","\\"]}`,
		"many":         `{"list":[` + strings.TrimSuffix(strings.Repeat(`{"a":"x"},`, maxNodes/2), ",") + `],"b":{"a":1}}`,
	} {
		root, err := Check([]byte(body), "a", shape)
		if err != nil {
			t.Fatalf("%s: Check = %v", name, err)
		}
		if problem := differ(root, ValueOf([]byte(body))); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// differ says where two readings of the same JSON differ; empty: they do not.
func differ(v, w Value) string {
	if !bytes.Equal(v.Raw(), w.Raw()) || v.IsText() && (v.Size() != w.Size() || v.Size() != len(v.Text())) {
		return fmt.Sprintf("%s of size %d is %s of size %d", v.Raw(), v.Size(), w.Raw(), w.Size())
	}
	a, b := v.Walk(), w.Walk()
	for a.Next() {
		if !b.Next() || !bytes.Equal(a.Key, b.Key) || a.Index != b.Index {
			return fmt.Sprintf("%q, number %d, is %q, number %d", a.Key, a.Index, b.Key, b.Index)
		}
		if a.Key != nil && (!bytes.Equal(v.Member(string(a.Key)).Raw(), a.Value.Raw()) || !bytes.Equal(w.Member(string(a.Key)).Raw(), a.Value.Raw())) {
			return fmt.Sprintf("the member %q is not found by its name", a.Key)
		}
		if problem := differ(a.Value, b.Value); problem != "" {
			return problem
		}
	}
	if b.Next() {
		return fmt.Sprintf("%.40s has more without an index", v.Raw())
	}
	return ""
}

func TestValuePath(t *testing.T) {
	t.Parallel()
	const body = ` {"a":[{"b":1},{"b":{"c":[0,"here"]}}]}`
	root, err := Check([]byte(body), "a", everything("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []Value{root, ValueOf([]byte(body))} {
		list := v.Member("a").Walk()
		list.Next()
		list.Next()
		inner := list.Value.Member("b").Member("c").Walk()
		inner.Next()
		inner.Next()
		if got := v.Path(inner.Value); got != "a[1].b.c[1]" || !inner.Value.Is("here") {
			t.Errorf("Path(%s) = %q, want a[1].b.c[1]", inner.Value.Raw(), got)
		}
		if got := v.Path(v); got != "" {
			t.Errorf("Path of the whole = %q, want none", got)
		}
	}
}
