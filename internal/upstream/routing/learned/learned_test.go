package learned

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// judge returns the difficulty of a prompt by the built-in weights.
func judge(t testing.TB, prompt string) Difficulty {
	t.Helper()
	m, err := Builtin()
	if err != nil {
		t.Fatalf("Builtin() = %v", err)
	}
	text := m.Borrow()
	text.Write([]byte(prompt))
	return m.Judge(text)
}

// The program has the weights that are in the folder.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("weights.bin")
	if err != nil || !bytes.Equal(file, m.Append(nil)) {
		t.Errorf("weights.bin is not what the program has: %v", err)
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt string
		want   Form
	}{
		{"Why is the sky blue at noon?", Open},
		{"Find the degree of Q(\\sqrt{2}) over Q.", Formula},
		{"A robe takes 2 bolts of blue fiber, at $3 each, and half that much white fiber at $2. What does it cost?", Open},
		{"Stack is also known as\nA. FIFO memory\nB. LIFO memory", Options},
		{"stack is also known as\n  a. fifo memory\n  b. lifo memory\n\n", Options},
		{"Stack is also known as which memory?\nA. FIFO memory\nB. LIFO memory\nAnswer:", Direct},
		{"Kellerspeicher, wie heißt er noch auf Englisch?\nA. FIFO\nB. LIFO\nAntwort: ", Direct},
		{"Write a letter to my landlord. He must repair the heating. Dear Sir:\nthe heating does not work", Open},
	} {
		var l Learner
		if got := l.Read(tt.prompt, false).Form(); got != tt.want {
			t.Errorf("Form(%q) = %d, want %d", tt.prompt, got, tt.want)
		}
	}
}

// Case and white space change nothing, and neither do the pieces in which a text arrives.
func TestReading(t *testing.T) {
	t.Parallel()
	const prompt = "Janet’s ducks lay 16 eggs per day. How much in dollars, at $2.50 each, does she make every day?"
	want := judge(t, prompt)
	if !want.Known {
		t.Fatalf("Judge(%q).Known = false, want true", prompt)
	}
	for _, same := range []string{strings.ToUpper(prompt), strings.ReplaceAll(prompt, " ", "   "), "  " + prompt + "\n\n", strings.ReplaceAll(prompt, " ", "\n")} {
		if got := judge(t, same); got != want {
			t.Errorf("Judge(%q) = %v, want %v", same, got, want)
		}
	}
	m, _ := Builtin()
	text := m.Borrow()
	for i := range len(prompt) {
		text.Write([]byte(prompt[i : i+1]))
	}
	if got := m.Judge(text); got != want {
		t.Errorf("Judge(%q), byte by byte = %v, want %v", prompt, got, want)
	}
}

// Where the training set says nothing, the difficulty is the typical one.
// Nothing of a text is left when it is used again.
func TestReset(t *testing.T) {
	t.Parallel()
	const prompt = "Is it true that 3 of 4 doors are open?\nA. yes\nB. no\nAnswer:"
	read := func(text *Text) (terms []uint16, counts [Counts]float64) {
		text.Reset()
		text.Write([]byte(prompt))
		text.Close()
		text.Counts(&counts)
		return text.Terms(), counts
	}
	terms, counts := read(new(Text))
	for _, before := range []string{"", prompt, "Write a poem: $x$", strings.Repeat("Is it true? 12 of (3 / 4), \"never\".\n", 100), distinct(2 * mostTerms), "an open wo"} {
		used := new(Text)
		used.Reset()
		used.Write([]byte(before))
		gotTerms, gotCounts := read(used)
		if !slices.Equal(gotTerms, terms) || gotCounts != counts {
			t.Errorf("after %.40q the terms are %v and the counts %v, want %v and %v", before, gotTerms, gotCounts, terms, counts)
		}
	}
}

// distinct returns n different words.
func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(100000+i)) + " ")
	}
	return b.String()
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"", "hi", "Hello there", "????", "Ποια είναι η πρωτεύουσα της Αυστραλίας και πόσοι ζουν εκεί;", "オーストラリアの首都はどこですか", strings.Repeat("\x00\xff", 5000)} {
		if got := judge(t, prompt); got.Known || got.Chance != Typical {
			t.Errorf("Judge(%.60q) = %v, want the typical difficulty", prompt, got)
		}
	}
}

// Of prompts in prose, those that need an exact answer are harder.
func TestKinds(t *testing.T) {
	t.Parallel()
	easy := []string{
		"Write a short poem about the sea in autumn.",
		"Imagine you are a tour guide in Rome. Describe your favorite square to a family with children.",
		"What are the advantages of living in a small town, and what do people miss there?",
		"Draft a polite email that thanks a colleague for her help with the move.",
	}
	hard := []string{
		"Implement a function in Python that finds the longest common prefix of an array of strings.",
		"Find the sum of all integers x for which x^2 - 5x + 6 divides 120 without a remainder.",
		"Anna is taller than Ben. Carl is older than Dora, and Ben sits opposite of Carl. Who can not sit left of Anna? Deduce it logically from these clues.",
		"A shop sells pens at 3 for $2. How much do 40 pens cost after a discount of 15 percent, and how much is the tax of 8 percent?",
	}
	for _, e := range easy {
		for _, h := range hard {
			if x, y := judge(t, e), judge(t, h); x.Chance >= y.Chance {
				t.Errorf("the difficulty of %q is %.3f, and that of %q only %.3f", e, x.Chance, h, y.Chance)
			}
		}
	}
}

func TestQuality(t *testing.T) {
	t.Parallel()
	for _, q := range []float64{30, 60, 75, 90, 96} {
		if got := CurveOf(Typical).Quality(q); math.Abs(got-q) > 1e-9 {
			t.Errorf("Quality(%g, Typical) = %g, want no change", q, got)
		}
		for d := 0.1; d < 0.8; d += 0.1 {
			if worse, better := CurveOf(d).Quality(q), CurveOf(d).Quality(q+1); worse >= better {
				t.Errorf("at difficulty %g, quality %g becomes %g, and %g only %g", d, q, worse, q+1, better)
			}
		}
	}
	// By definition: the chance that the weak model fails where the strong one does not.
	for _, d := range []float64{0.1, 0.3, 0.6} {
		if got := CurveOf(d).Quality(strongQuality) - CurveOf(d).Quality(weakQuality); math.Abs(got-100*d) > 1e-9 {
			t.Errorf("at difficulty %g the weak model is %g points behind, want %g", d, got, 100*d)
		}
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	content := string(m.Append(nil))
	dir := t.TempDir()
	for _, tt := range []struct{ name, content, want string }{
		{"empty", "", "no file of router weights"},
		{"other", "PK\x03\x04" + strings.Repeat("x", 100), "no file of router weights"},
		{"truncated", content[:len(content)/2], "bytes instead of"},
		{"longer", content + "x", "bytes instead of"},
		{"version", magic + "\x02\x00" + content[len(magic)+2:], "have version 2"},
		{"damaged", content[:1000] + "~~" + content[1002:], "checksum"},
	} {
		file := filepath.Join(dir, tt.name)
		if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Load(%s) = %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "missing")); err == nil {
		t.Error("Load of a missing file = nil, want an error")
	}
	file := filepath.Join(dir, "good")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if loaded, err := Load(file); err != nil || !bytes.Equal(loaded.Append(nil), []byte(content)) {
		t.Errorf("Load(good) = %v, want the built-in weights", err)
	}
}

func TestAllocations(t *testing.T) {
	m, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	prompt := []byte(strings.Repeat("How many eggs are left after 3 days, and what do they cost? ", 30))
	if n := testing.AllocsPerRun(100, func() {
		text := m.Borrow()
		text.Write(prompt)
		m.Judge(text)
	}); n >= 1 {
		t.Errorf("Judge allocates %g times, want never", n)
	}
}

func BenchmarkJudge(b *testing.B) {
	m, err := Builtin()
	if err != nil {
		b.Fatal(err)
	}
	prompt := []byte(strings.Repeat("Let n be the number of eggs that are left after 3 days; a dozen of them costs $4. Which of these is true, and why? ", 20))[:2048]
	b.ReportAllocs()
	for b.Loop() {
		text := m.Borrow()
		text.Write(prompt)
		m.Judge(text)
	}
}
