// Package contracts has the names that the official SDKs of other vendors declare: fields, variants, values and events of
// their requests and replies.
//
// extract.mjs reads them from the SDKs' type declarations and writes the lists in names/. A test of package oracles holds a
// running gateway against each name, and known.txt has those whose loss or refusal was decided. What a name is to the gateway
// is never written down here: the test asks the gateway.
package contracts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// List is what one version of an SDK declares.
type List struct {
	Package, Version string
	Names            []Name
}

// Name is one field, variant or value.
type Name struct {
	Root string // the door and the side, such as "chat request"
	Path Path   // from there
	// Least is the smallest value that the type of the name allows.
	Least any
}

func (n Name) String() string { return n.Root + " " + n.Path.String() }

// Read returns the list in a file that extract.mjs wrote.
func Read(file string) (*List, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	l := &List{}
	if _, err := fmt.Sscanf(string(head), "# %s %s", &l.Package, &l.Version); err != nil {
		return nil, fmt.Errorf("%s: the first line is no package and version: %w", file, err)
	}
	for line := range strings.Lines(string(rest)) {
		name, least, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		door, rest, _ := strings.Cut(name, " ")
		side, path, _ := strings.Cut(rest, " ")
		n := Name{Root: door + " " + side}
		if n.Path, err = ParsePath(path); err == nil {
			err = json.Unmarshal([]byte(least), &n.Least)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, name, err)
		}
		l.Names = append(l.Names, n)
	}
	return l, nil
}
