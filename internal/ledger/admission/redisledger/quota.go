package redisledger

import (
	"context"
	"time"
)

// What quota.lua does.
// The first number of its argument says which.
const (
	quotaReserve = 0
	quotaAdjust  = 1
	quotaRaise   = 2
)

// keepQuota is how long Redis remembers the units of a key's month: longer than any month.
const keepQuota = 40 * 24 * time.Hour

// ReserveUnits implements admission.Counts.
// made identifies the counter in Redis, so that an adjustment notices
// that another one has taken its place.
func (l *Ledger) ReserveUnits(keyID, month string, limit, units int64) (used, made int64, ok bool, err error) {
	text, err := l.quota(keyID, month, quotaReserve, limit, units, 0)
	if err != nil {
		l.state.local.Add(1) // the node goes by what it knows, as for a limit of the minute
		return 0, 0, false, err
	}
	return numberAt(text, 1), numberAt(text, 2), numberAt(text, 0) == 1, nil
}

// AdjustUnits implements admission.Counts.
func (l *Ledger) AdjustUnits(keyID, month string, made, delta, whole int64) (used int64, err error) {
	text, err := l.quota(keyID, month, quotaAdjust, made, delta, whole)
	if err != nil {
		return 0, err
	}
	return numberAt(text, 1), nil
}

// RaiseUnits implements admission.Counts.
func (l *Ledger) RaiseUnits(keyID, month string, atLeast int64) error {
	_, err := l.quota(keyID, month, quotaRaise, atLeast, 0, 0)
	return err
}

// quota runs the script about the units of a key's month and returns its reply, which has three numbers.
func (l *Ledger) quota(keyID, month string, numbers ...int64) (string, error) {
	if !l.state.exact() {
		return "", errApproximate
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.Deadline)
	defer cancel()
	var args []byte
	for _, n := range append(numbers, keepQuota.Milliseconds()) {
		args = appendNumber(args, n)
	}
	answers, err := l.send(ctx, []order{{script: quotaScript, keys: []string{l.opts.Prefix + "{" + keyID + "}:units:" + month}, args: []string{string(args)}}})
	if err == nil {
		err = answers[0].err
	}
	if err == nil && len(answers[0].text) != 3*8 {
		err = errOtherForm
	}
	if err != nil {
		l.state.failed(err)
		return "", err
	}
	l.state.answered()
	return answers[0].text, nil
}
