package contracts

import (
	"encoding/json"
	"reflect"
	"testing"
)

func parse(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPath(t *testing.T) {
	t.Parallel()
	doc := parse(t, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"detail":"low"}}]}]}`)
	for path, want := range map[string]int{
		"messages": 1, "messages[]{user}.content[]{image_url}.image_url.detail=low": 1, "messages[].content[]": 2, "messages[]{assistant}": 0,
		"messages[].content[]{image_url}.image_url.detail=high": 0, "model": 0,
	} {
		p, err := ParsePath(path)
		if err != nil || p.String() != path || len(p.Find(doc)) != want {
			t.Errorf("ParsePath(%q) = %q, %v, finds %d, want %d", path, p, err, len(p.Find(doc)), want)
		}
	}
	if p, err := ParsePath("messages[]{user"); err == nil {
		t.Errorf("ParsePath without an end = %q, want an error", p)
	}
}

func TestSamples(t *testing.T) {
	t.Parallel()
	list := &List{}
	for path, least := range map[string]string{
		"messages": `[{"role":"developer","content":"a"}]`, "messages[]{user}": `{"role":"user","content":"a"}`, "messages[]{user}.content": `"a"`,
		"messages[]{user}.content[]{file}": `{"type":"file","file":{}}`, "messages[]{user}.content[]{file}.file": `{}`,
	} {
		p, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		list.Names = append(list.Names, Name{"chat request", p, parse(t, least)})
	}
	p, err := ParsePath("messages[]{user}.content[]{file}.file.name")
	if err != nil {
		t.Fatal(err)
	}
	got := NewSamples(list).Of("chat request", parse(t, `{"model":"m","messages":[]}`), p, "b")
	want := parse(t, `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"name":"b"}}]}]}`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Of(%q) = %v, want %v", p, got, want)
	}
}
