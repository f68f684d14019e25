package routing

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing/learned"
)

var update = flag.Bool("update", false, "rewrite testdata")

// offer is a catalog as an operator may have it: prices and qualities of well-known models.
func offer() []catalog.Model {
	made := func(id string, dollars float64, quality ...uint8) catalog.Model {
		return model(id, account.Free, func(m *catalog.Model) {
			priced(dollars, 50)(m)
			copy(m.Quality[:], quality)
			m.ContextLength = 1_000_000
		})
	}
	return []catalog.Model{
		made("nano", 0.4, 66, 64, 70, 62, 72, 62),
		made("small", 1, 73, 68, 70, 72, 78, 70),
		made("medium", 2, 80, 84, 84, 79, 83, 84),
		made("large", 10, 88, 92, 92, 88, 89, 93),
		made("largest", 30, 91, 95, 95, 92, 91, 96),
	}
}

// choiceOf returns the choice for a prompt at a position of the dial.
func (h *house) choiceOf(prompt, more string, dial int) Choice {
	h.Helper()
	q := h.query("service/auto", account.Free, parse(h, strconv.Quote(prompt), more))
	q.Weights, q.Scorer = NewWeights(""), Estimate{Dial: dial}
	c, err := h.router.Explain(h.Context(), q)
	if err != nil {
		h.Fatal(err)
	}
	return c
}

// TestChoices holds the router to the choices in testdata/choices.txtar, which a person should find plausible. Each
// file of the archive is a prompt; the comment of the archive is the result. -update rewrites it.
func TestChoices(t *testing.T) {
	t.Parallel()
	const path = "testdata/choices.txtar"
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := build(t, offer())
	var got bytes.Buffer
	fmt.Fprintln(&got, "What the router chooses at dial 0, 50 and 100, and why.")
	for _, f := range archive.Files {
		more := ""
		if strings.HasPrefix(f.Name, "tools") {
			more = `,"tools":[` + `{"type":"function","function":{"name":"f"}}` + `]`
		}
		prompt := strings.TrimSpace(string(f.Data))
		fmt.Fprintf(&got, "\n%s: difficulty %.2f\n", f.Name, h.choiceOf(prompt, more, 50).Difficulty.Chance)
		for _, dial := range []int{0, 50, 100} {
			c := h.choiceOf(prompt, more, dial)
			fmt.Fprintf(&got, "  %3d  %-8s %s\n", dial, c.Model.ID, c.Reason)
		}
	}
	got.WriteByte('\n')
	if *update {
		archive.Comment = got.Bytes()
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(archive.Comment) != got.String() {
		t.Errorf("the choices are now\n%s\nand %s says\n%s", got.String(), path, archive.Comment)
	}
}

// prompts returns prompts of our own making, of many kinds.
func prompts(n int) (all []string) {
	random := rand.New(rand.NewPCG(19, 1))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range n {
		a, b, c := 2+random.IntN(60), 2+random.IntN(400), 2+random.IntN(9)
		who := pick("Maria", "a farmer", "the school", "Tom and his sister", "a small company")
		thing := pick("apples", "notebooks", "tickets", "bricks", "bottles of juice", "chairs")
		topic := pick("photosynthesis", "contract law", "the French Revolution", "inflation", "plate tectonics", "the immune system", "supply and demand", "Kant's ethics", "electric circuits", "graph theory")
		switch random.IntN(8) {
		case 0:
			all = append(all, fmt.Sprintf("%s buys %d %s and sells %d of them every day for $%d each. How many days does it take until all are sold, and how much money is that in total?", who, b, thing, c, a))
		case 1:
			all = append(all, fmt.Sprintf("Which of the following is most closely related to %s?\nA. %s\nB. a theory of %s\nC. none of these\nD. all of these\nAnswer:", topic, thing, pick("motion", "value", "heat", "knowledge")))
		case 2:
			all = append(all, fmt.Sprintf("Explain %s to %s in simple words, with two examples from everyday life.", topic, pick("a child of ten", "a new colleague", "an engineer")))
		case 3:
			all = append(all, fmt.Sprintf("Write a %s function that takes a list of %s and returns those that occur more than %d times. What is its complexity?", pick("Python", "Go", "JavaScript"), thing, c))
		case 4:
			all = append(all, fmt.Sprintf("Write a short %s about %s and %s. It should be %s and have about %d words.", pick("story", "poem", "email", "speech"), who, thing, pick("funny", "sad", "formal"), 50+a))
		case 5:
			all = append(all, fmt.Sprintf("Let $f(x) = x^%d + %dx - %d$. Find the sum of all real roots of $f(x) = \\frac{%d}{%d}$.", c, a, b, a, c))
		case 6:
			all = append(all, fmt.Sprintf("Extract all names and amounts from this text and return them as JSON: %s paid %d euros for %s, and later %d euros more because of %s.", who, a, thing, b, topic))
		default:
			all = append(all, fmt.Sprintf("%s and %s disagree about %s. Give the strongest argument of each side and say which one is better supported.", pick("Two lawyers", "A teacher and a student", "Two neighbors"), who, topic))
		}
	}
	return all
}

// TestRobust holds the router to choose alike for prompts that say the same: white space, case, a greeting, and the
// language of an instruction around the question change the choice of at most one prompt in twenty.
func TestRobust(t *testing.T) {
	t.Parallel()
	const n = 500
	h := build(t, offer())
	const english = "Please answer the following question. "
	for _, tt := range []struct {
		name   string
		change func(string) (was, is string)
	}{
		{"white space", func(p string) (string, string) {
			return p, "  " + strings.ReplaceAll(strings.ReplaceAll(p, "\n", "\n\n"), " ", "  ") + "\n"
		}},
		{"upper case", func(p string) (string, string) { return p, strings.ToUpper(p) }},
		{"lower case", func(p string) (string, string) { return p, strings.ToLower(p) }},
		{"a greeting", func(p string) (string, string) { return p, "Hi there, hope you are well! " + p }},
		{"another greeting", func(p string) (string, string) { return p, "Good morning.\n\n" + p }},
		{"a German instruction", func(p string) (string, string) { return english + p, "Bitte beantworte die folgende Frage. " + p }},
		{"a Spanish instruction", func(p string) (string, string) {
			return english + p, "Por favor, responde a la siguiente pregunta. " + p
		}},
		{"a French instruction", func(p string) (string, string) {
			return english + p, "Merci de répondre à la question suivante. " + p
		}},
	} {
		changed := 0
		for _, p := range prompts(n) {
			was, is := tt.change(p)
			if h.choiceOf(was, "", MiddleDial).Model != h.choiceOf(is, "", MiddleDial).Model {
				changed++
			}
		}
		t.Logf("%s: %d of %d choices changed", tt.name, changed, n)
		if changed > n/20 {
			t.Errorf("%s changed %d of %d choices, want at most %d", tt.name, changed, n, n/20)
		}
	}
}

// The dial keeps its meaning: 0 is the cheapest model and 100 the best, whatever the difficulty.
func TestDialEnds(t *testing.T) {
	t.Parallel()
	h := build(t, offer())
	different := map[string]bool{}
	for _, p := range prompts(100) {
		if c := h.choiceOf(p, "", 0); c.Model.ID != "nano" {
			t.Errorf("at dial 0, %q is answered by %s, want nano", p, c.Model.ID)
		}
		if c := h.choiceOf(p, "", 100); c.Model.ID != "largest" {
			t.Errorf("at dial 100, %q is answered by %s, want largest", p, c.Model.ID)
		}
		different[h.choiceOf(p, "", 50).Model.ID] = true
	}
	if len(different) < 2 {
		t.Errorf("at dial 50 all prompts are answered by %v, want more than one model", different)
	}
}

// Where nothing was learned, the router chooses as it did without weights.
func TestFallback(t *testing.T) {
	t.Parallel()
	h := build(t, offer())
	for _, p := range []string{"Hello", "Ποια είναι η πρωτεύουσα της Αυστραλίας και πόσοι ζουν εκεί;", "??", "ok"} {
		with := h.choiceOf(p, "", 50)
		q := h.query("service/auto", account.Free, parse(t, strconv.Quote(p), ""))
		without, err := h.router.Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if with.Difficulty.Known || with.Difficulty.Chance != learned.Typical || with.Model != without.Model || with.Reason != without.Reason {
			t.Errorf("%q is answered by %s because %q, want %s because %q", p, with.Model.ID, with.Reason, without.Model.ID, without.Reason)
		}
	}
}

// Tools and length count by themselves.
func TestRaised(t *testing.T) {
	t.Parallel()
	h := build(t, offer())
	const order = "Tell me about your favorite season."
	tools := func(n int) string {
		return `,"tools":[` + strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f"}},`, n), ",") + `]`
	}
	plain := h.choiceOf(order, "", 50).Difficulty.Chance
	one := h.choiceOf(order, tools(1), 50).Difficulty.Chance
	if plain >= one {
		t.Errorf("the difficulty is %.3f without tools and %.3f with one", plain, one)
	}
	long := h.choiceOf(order+strings.Repeat(" The leaves fall.", 10_000), "", 50).Difficulty.Chance
	if long <= plain {
		t.Errorf("the difficulty is %.3f, and %.3f of 170 KB", plain, long)
	}
}

// Judging allocates nothing, however long the prompt is and whatever escapes it has.
func TestDifficultyAllocations(t *testing.T) {
	m, err := learned.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{
		strconv.Quote(strings.Repeat("How many \"eggs\"\nare left after 3 days? ", 40)),
		strconv.Quote(strings.Repeat("The leaves fall. ", 6000)),
		`[{"type":"text","text":"Look at this picture:"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"text","text":"How many eggs are there?"}]`,
	} {
		req := parse(t, content, "")
		if n := testing.AllocsPerRun(50, func() { difficultyOf(req, m) }); n >= 1 {
			t.Errorf("the difficulty of %.40s allocates %g times, want never", content, n)
		}
	}
}

// What routing adds to a call: a usual prompt, and a few models.
func BenchmarkRoute(b *testing.B) {
	c, err := catalog.New(append([]catalog.Model{catalog.Router("service")}, offer()...))
	if err != nil {
		b.Fatal(err)
	}
	routes := New(c, []Provider{{Name: "p", Keys: []Key{{Adapter: &silent{}}}}}, &Options{Log: slog.New(slog.DiscardHandler)})
	auto, _ := c.Lookup("service/auto")
	q := &Query{Catalog: c, Routes: routes, Model: auto, AccountID: "acct_1", Plan: account.Free, Weights: NewWeights(""), Request: parse(b, strconv.QuoteToASCII(strings.Join(prompts(2), "\n")), "")}
	r := NewRouter(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Choose(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDifficulty(b *testing.B) {
	m, err := learned.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Join(prompts(1000), "\n")
	for _, size := range []int{200, 2 << 10, 100 << 10} {
		req := parse(b, strconv.QuoteToASCII(text[:size]), "")
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				difficultyOf(req, m)
			}
		})
	}
}
