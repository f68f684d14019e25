package datadir

import (
	"errors"
	"os"
)

// probeFile is written by Probe.
const probeFile = ".probe"

// Probe returns an error if nothing can be stored in the folder: the disk is full or read-only, or gone. It writes
// one block, which is what a file system needs to notice.
func (d *Dir) Probe() error {
	name := d.Join(probeFile)
	// A leftover of a process that died here is used again.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close(), os.Remove(name))
}
