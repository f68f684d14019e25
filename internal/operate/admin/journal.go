package admin

import (
	"context"
	"io/fs"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
)

// Journal is the journal of the server that a client talks to.
type Journal struct{ Client *Client }

// Parts returns the pieces of the journal.
func (j Journal) Parts(ctx context.Context) ([]usage.Part, error) {
	return Ops().JournalParts.Call(ctx, j.Client, Empty{})
}

// Read reads a piece. It returns fs.ErrNotExist if there is none of the name.
func (j Journal) Read(ctx context.Context, name string, offset, most int64) ([]byte, error) {
	out, err := Ops().JournalRead.Call(ctx, j.Client, JournalPiece{Name: name, Offset: offset, Bytes: most})
	if fault.Is(err, fault.NotFound) {
		err = fs.ErrNotExist
	}
	return out, err
}
