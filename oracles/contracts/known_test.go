package contracts

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKnown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "known.txt")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n\nchat request n  translated refused  why\nchat request tools[]{*}  refused  why\nchat reply x  not sent  why\n")
	known, err := ReadKnown(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, verdict string
		want          int // the line; -1: none
	}{
		{"chat request n", "translated refused", 0},
		{"chat request n", "native refused", -1},
		{"chat request tools[]{a}", "native refused", 1},
		{"chat request tools[]{a}", "native lost", -1},
		{"chat request tools[]a", "native refused", -1},
		{"chat request nn", "translated refused", -1},
	} {
		got := -1
		if d := known.Decide(tt.name, tt.verdict); d != nil {
			for i := range known.Lines {
				if known.Lines[i] == d {
					got = i
				}
			}
		}
		if got != tt.want {
			t.Errorf("Decide(%q, %q) = line %d, want %d", tt.name, tt.verdict, got, tt.want)
		}
	}
	if last := known.Lines[2]; last.Seen != 0 || known.Lines[1].Seen != 2 || known.Lines[1].Used != 1 {
		t.Errorf("seen and used = %+v, %+v", known.Lines[1], last)
	}
	write("chat request n refused\n")
	if _, err := ReadKnown(file); err == nil {
		t.Error("ReadKnown of a line without columns = nil, want an error")
	}
}
