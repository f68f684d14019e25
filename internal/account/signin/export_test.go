package signin

import "time"

// HashPassword is for tests that need an account with a password.
var HashPassword = hashPassword

// NewMemoryTries and KeyOf are for the suite that every implementation of Tries passes.
func NewMemoryTries(now func() time.Time) Tries { return newMemoryTries(now) }

var KeyOf = keyOf
