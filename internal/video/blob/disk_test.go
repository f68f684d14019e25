package blob_test

import (
	"path/filepath"
	"testing"

	"sluice/internal/video/blob"
	"sluice/internal/video/blob/blobtest"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) (blobtest.Files, string) {
		dir := filepath.Join(t.TempDir(), "files")
		d, err := blob.NewDisk(dir)
		if err != nil {
			t.Fatalf("NewDisk = %v", err)
		}
		return d, filepath.Join(dir, "tmp")
	})
}
