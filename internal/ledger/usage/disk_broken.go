//go:build sluice_skips_sync

package usage

import "os"

// toDisk is broken on purpose: TestFindsBugs in internal/testkit/faulttest wants the tests of this package to notice.
func (j *Journal) toDisk(*os.File) error { return nil }
