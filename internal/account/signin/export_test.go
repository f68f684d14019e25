package signin

import "time"

// At their full cost the hashes took most of the time of the tests.
func init() { argonMemory = 64 }

// HashPassword is for tests that need an account with a password.
var HashPassword = hashPassword

// NewMemoryTries and KeyOf are for the suite that every implementation of Tries passes.
func NewMemoryTries(now func() time.Time) Tries { return newMemoryTries(now) }

var KeyOf = keyOf
