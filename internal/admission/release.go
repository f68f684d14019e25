package admission

// Release gives the place back, with everything that was taken, and leaves no record: for a call that
// was refused before anybody was asked. It counts as settling.
func (l *Lease) Release() {
	if !l.settled.Swap(true) {
		l.gate.ledger.Free(l.accountID, l.place, Cost{})
	}
}
