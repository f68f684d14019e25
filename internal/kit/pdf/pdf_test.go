package pdf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func sample() []byte {
	p := &Page{}
	p.Text(50, 80, 12, true, `Invoice (1) \ Müller & Söhne – 5 €, 北京`)
	p.Right(545, 100, 10, false, "$1,234.50")
	p.Rule(50, 545, 110)
	return p.Bytes("Invoice (1)")
}

// Every entry of the table names the place of its object, and the stream has the length that it says.
func TestStructure(t *testing.T) {
	t.Parallel()
	file := sample()
	at, err := strconv.Atoi(string(regexp.MustCompile(`startxref\n(\d+)\n%%EOF\n$`).FindSubmatch(file)[1]))
	if err != nil || !bytes.HasPrefix(file[at:], []byte("xref\n0 8\n")) {
		t.Fatalf("the table is not at %d: %v", at, err)
	}
	for i, m := range regexp.MustCompile(`(\d{10}) 00000 n `).FindAllSubmatch(file[at:], -1) {
		place, _ := strconv.Atoi(string(m[1]))
		if want := strconv.Itoa(i+1) + " 0 obj\n"; !bytes.HasPrefix(file[place:], []byte(want)) {
			t.Errorf("object %d is not at %d", i+1, place)
		}
	}
	m := regexp.MustCompile(`(?s)/Length (\d+) >>\nstream\n(.*)\nendstream`).FindSubmatch(file)
	if n, _ := strconv.Atoi(string(m[1])); n != len(m[2]) {
		t.Errorf("the stream has %d bytes and says %d", len(m[2]), n)
	}
	if !bytes.Contains(file, []byte(`(Invoice \(1\) \\ M`+"\xfc"+`ller & S`+"\xf6"+`hne `+"\x96 5 \x80, ??"+`)`)) {
		t.Error("the text is not escaped and encoded")
	}
	if w := width("W1.", 10, true); w != (944+556+278)*10/1000.0 {
		t.Errorf("width of bold letters = %g", w)
	}
	if w := width("1.00", 10, false); w != (556*3+278)*10/1000.0 {
		t.Errorf("width = %g", w)
	}
	if encode("a\nb\x00") != "a b " {
		t.Errorf("encode leaves control characters: %q", encode("a\nb\x00"))
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	// A digit is 5.56 wide, a space 2.78.
	for _, tt := range []struct {
		text string
		most float64
		want []string
	}{
		{"", 20, nil},
		{" 11  22 ", 100, []string{"11 22"}},
		{"11 22 33", 26, []string{"11 22", "33"}},
		{"1111111 22", 18, []string{"111", "111", "1", "22"}},
		{"üüü", 1, []string{"ü", "ü", "ü"}},
	} {
		if got := Wrap(tt.text, 10, false, tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("Wrap(%q, %g) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

// A program that reads such files finds the text in it.
func TestReaders(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skip("pdftotext, of poppler, is not installed")
	}
	path := filepath.Join(t.TempDir(), "x.pdf")
	if err := os.WriteFile(path, sample(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "-layout", "-enc", "UTF-8", path, "-").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Müller & Söhne – 5 €") || !strings.Contains(string(out), "$1,234.50") {
		t.Errorf("pdftotext = %v\n%s", err, out)
	}
}
