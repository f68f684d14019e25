package usage

import "os"

// toDisk makes what was written to a file survive a power cut.
func (j *Journal) toDisk(f *os.File) error {
	if j.opts.Sync != nil {
		return j.opts.Sync(f)
	}
	return f.Sync()
}
