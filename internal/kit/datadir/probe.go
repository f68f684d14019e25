package datadir

import (
	"context"
	"errors"
	"math"
	"os"

	"sluice/internal/kit/health"
	"sluice/internal/kit/telemetry"
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

// Look says whether anything can be stored in the data folder.
func (d *Dir) Look(context.Context) health.Finding {
	if err := d.Probe(); err != nil {
		return health.Finding{Failed: true, Message: "nothing can be stored in the data folder; calls are answered until the journal is full", Err: err}
	}
	return health.Finding{}
}

// AddMetrics adds the metrics of the disk.
func (d *Dir) AddMetrics(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_disk_free_bytes", "Bytes that are free on the disk of the data folder; -1 if that is not known.", func() int64 {
		if free, known := Free(d.Path()); known {
			return int64(min(free, math.MaxInt64))
		}
		return -1
	})
}
