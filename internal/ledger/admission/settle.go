//go:build !sluice_breaks_settle

package admission

// forgets reports whether a settlement is lost, which never happens.
func (*Lease) forgets() bool { return false }
