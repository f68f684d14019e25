package admission

// Release ends the lease without a record and returns everything that was taken. It is for a call that is
// refused after Admit and before any upstream was called. It does nothing if the lease was settled.
func (l *Lease) Release() {
	if !l.settled.Swap(true) {
		l.gate.ledger.Free(l.accountID, l.place, Cost{})
		if l.key != nil {
			l.gate.freeKey(l.key, Cost{}, 0)
		}
	}
}
