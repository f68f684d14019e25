package prefix

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

var key = NewKey(bytes.Repeat([]byte("secret"), 6))

// prompt is a prompt in a test.
type prompt struct {
	tools, system string
	messages      []string
}

func (p prompt) print() []byte {
	var to Printer
	to.Reset(key)
	if p.tools != "" {
		to.Begin(Tools)
		to.Write([]byte(p.tools))
	}
	if p.system != "" {
		to.Begin(System)
		to.Write([]byte(p.system))
	}
	for _, m := range p.messages {
		to.Begin(Messages)
		to.Write([]byte(m))
	}
	return to.Print()
}

// text returns a text of n bytes.
func text(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i*i%25)
	}
	return string(b)
}

// with returns the text with another byte at a place.
func with(s string, at int) string { return s[:at] + "#" + s[at+1:] }

func messages(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("message %d", i+1))
	}
	return list
}

func TestCompare(t *testing.T) {
	t.Parallel()
	base := prompt{text(5000), text(2000), append([]string{text(900)}, messages(10)...)}
	change := func(f func(*prompt)) prompt {
		p := base
		p.messages = append([]string{}, base.messages...)
		f(&p)
		return p
	}
	for _, tt := range []struct {
		name        string
		before, now prompt
		want        *Change
	}{
		{"the same", base, base, nil},
		{"two more messages", base, change(func(p *prompt) { p.messages = append(p.messages, "x", "y") }), nil},
		{"many more messages", base, change(func(p *prompt) { p.messages = append(p.messages, messages(300)...) }), nil},
		{"fewer messages", base, change(func(p *prompt) { p.messages = p.messages[:4] }), nil},
		{"no messages", base, change(func(p *prompt) { p.messages = nil }), nil},
		{"tools, at once", base, change(func(p *prompt) { p.tools = with(p.tools, 0) }), &Change{Part: Tools, Until: 256, Of: 5000}},
		{"tools, far behind", base, change(func(p *prompt) { p.tools = with(p.tools, 4999) }), &Change{Part: Tools, From: 4096, Of: 5000}},
		{"tools are left out", base, change(func(p *prompt) { p.tools = "" }), &Change{Part: Tools}},
		{"tools are added", prompt{"", "s", messages(1)}, prompt{"t", "s", messages(1)}, &Change{Part: Tools, Of: 1}},
		{"a longer list of tools", base, change(func(p *prompt) { p.tools += "more" }), &Change{Part: Tools, From: 4096, Until: 5000, Of: 5004}},
		{"system", base, change(func(p *prompt) { p.system = with(p.system, 1204) }), &Change{Part: System, From: 1024, Until: 1536, Of: 2000}},
		{"system, and tools that move into it", prompt{"ab", "cd", nil}, prompt{"abc", "d", nil}, &Change{Part: Tools, Until: 2, Of: 3}},
		{"first message", base, change(func(p *prompt) { p.messages[0] = with(p.messages[0], 500) }), &Change{Part: Messages, Message: 1, To: 1, From: 384, Until: 512, Of: 900}},
		{"message 3", base, change(func(p *prompt) { p.messages[2] = "other" }), &Change{Part: Messages, Message: 3, To: 3}},
		{"the last message", base, change(func(p *prompt) { p.messages[10] = "other" }), &Change{Part: Messages, Message: 11, To: 11}},
		{"a message is left out", base, change(func(p *prompt) { p.messages = append(p.messages[:5], p.messages[6:]...) }), &Change{Part: Messages, Message: 6, To: 6}},
		{
			"one of 300 messages",
			prompt{"", "s", messages(300)},
			prompt{"", "s", append(append(messages(99), "other"), messages(300)[100:]...)},
			&Change{Part: Messages, Message: 97, To: 128},
		},
	} {
		got, ok := Compare(tt.before.print(), tt.now.print())
		if !ok || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: Compare = %+v, %v, want %+v", tt.name, got, ok, tt.want)
		}
	}
}

// Wherever a byte changes, the print says a range that has it, and nothing before it.
func TestCompareFinds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := prompt{text(random.IntN(100_000)), text(1 + random.IntN(30_000)), messages(1 + random.IntN(60))}
		q := p
		at := random.IntN(len(p.system))
		q.system = with(p.system, at)
		c, ok := Compare(p.print(), q.print())
		if !ok || c == nil || c.Part != System || at < c.From || c.Until > 0 && at >= c.Until {
			t.Fatalf("Compare of system prompts of %d bytes that differ at %d = %+v, %v", len(p.system), at, c, ok)
		}
		n := random.IntN(len(p.messages))
		q = p
		q.messages = append(append(append([]string{}, p.messages[:n]...), "other"), p.messages[n+1:]...)
		c, ok = Compare(p.print(), q.print())
		if !ok || c == nil || c.Part != Messages || n+1 < c.Message || n+1 > c.To {
			t.Fatalf("Compare of %d messages of which number %d differs = %+v, %v", len(p.messages), n+1, c, ok)
		}
	}
}

func TestPrintIsBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 5, 6, 7, 15, 16, 17, 22, 31, 32, 33, 100, 1000, 4097} {
		raw := prompt{text(60_000), text(60_000), append([]string{text(9000)}, messages(n)...)}.print()
		if _, ok := parse(raw); !ok || len(raw) > Max {
			t.Errorf("with %d messages, a print has %d bytes and can be read: %v, want at most %d", n+1, len(raw), ok, Max)
		}
	}
}

// Other keys give other hashes, so nobody who reads a print can try texts against it.
func TestKeys(t *testing.T) {
	t.Parallel()
	a, b := NewKey(bytes.Repeat([]byte{1}, 32)), NewKey(bytes.Repeat([]byte{2}, 32))
	same := 0
	for i := range 1000 {
		if s := []byte(text(i)); uint16(a.sum(0, s)) == uint16(b.sum(0, s)) {
			same++
		}
	}
	if same > 5 {
		t.Errorf("%d of 1000 texts have the same hash under two keys", same)
	}
	for i := range 200 { // each byte counts
		s := []byte(text(200))
		was := key.sum(7, s)
		if s[i] ^= 1; key.sum(7, s) == was {
			t.Errorf("byte %d does not change the hash", i)
		}
	}
	if key.sum(1, []byte("a")) == key.sum(1, []byte("a\x00")) || key.sum(1, nil) == key.sum(2, nil) {
		t.Error("a longer text, or another one before it, has the same hash")
	}
}

func FuzzCompare(f *testing.F) {
	whole := prompt{text(5000), text(2000), messages(40)}.print()
	f.Add(whole, whole[:len(whole)-1])
	f.Add(prompt{}.print(), []byte{1, 0, 0, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		c, ok := Compare(a, b)
		if c != nil && (!ok || c.Until > 0 && c.Until <= c.From || c.To < c.Message) {
			t.Errorf("Compare = %+v, %v", c, ok)
		}
		if c, ok := Compare(a, a); c != nil {
			t.Errorf("Compare of a print with itself = %+v, %v, want no change", c, ok)
		}
	})
}

func BenchmarkPrint(b *testing.B) {
	for name, p := range map[string]prompt{
		"2KB": {"", text(1200), []string{text(800)}},
		"400KB": {text(60_000), text(20_000), func() (list []string) {
			for range 200 {
				list = append(list, text(1600))
			}
			return list
		}()},
	} {
		b.Run(name, func(b *testing.B) {
			tools, system := []byte(p.tools), []byte(p.system)
			var list [][]byte
			for _, m := range p.messages {
				list = append(list, []byte(m))
			}
			b.ReportAllocs()
			for b.Loop() {
				var to Printer
				to.Reset(key)
				to.Begin(Tools)
				to.Write(tools)
				to.Begin(System)
				to.Write(system)
				for _, m := range list {
					to.Begin(Messages)
					to.Write(m)
				}
				to.Print()
			}
		})
	}
}
