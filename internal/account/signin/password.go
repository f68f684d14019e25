package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"sluice/internal/kit/fault"
)

// The cost of hashing a password: 9 MiB, four passes, one lane, about 30 ms. An attacker pays the
// same as for 19 MiB in two passes, while a flood of sign-ins takes half the memory here. A stored
// hash names its own cost, so these can be raised without making old hashes useless.
const (
	argonPasses = 4
	argonLanes  = 1
	argonSalt   = 16
	argonBytes  = 32
)

// argonMemory is in KiB. It is not a constant because the tests of this package, which hash hundreds of passwords, lower it.
var argonMemory uint32 = 9 << 10

// Lengths of passwords. The upper bound keeps anybody from making us hash megabytes.
const (
	minPassword = 10  // characters
	maxPassword = 200 // bytes
)

// checkPassword refuses a password that is too short, too long or too easy to guess. It asks for length
// and not for kinds of characters, which people satisfy in ways that are easy to guess.
func checkPassword(password, email string) error {
	if n := utf8.RuneCountInString(password); n < minPassword || len(password) > maxPassword {
		return fault.New(fault.Invalid, "A password must have at least %d characters and at most %d.", minPassword, maxPassword).At("password")
	}
	if name, _, _ := strings.Cut(email, "@"); strings.EqualFold(password, email) || len(name) >= minPassword && strings.EqualFold(password, name) {
		return fault.New(fault.Invalid, "The password is your address. Choose another one.").At("password")
	}
	if strings.Count(password, password[:1]) == len(password) {
		return fault.New(fault.Invalid, "The password is one character repeated. Choose another one.").At("password")
	}
	return nil
}

// base64Raw is the encoding that argon2 hashes are usually written in: standard, without padding.
var base64Raw = base64.RawStdEncoding

// hashPassword returns the form in which a password is stored: argon2id with its cost, a random
// salt and the sum.
func hashPassword(password string) string {
	salt := make([]byte, argonSalt)
	rand.Read(salt) // never fails: crypto/rand
	sum := argon2.IDKey([]byte(password), salt, argonPasses, argonMemory, argonLanes, argonBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonPasses, argonLanes,
		base64Raw.EncodeToString(salt), base64Raw.EncodeToString(sum))
}

// matches reports whether password is the one that hashPassword turned into stored. It compares in
// constant time. A stored hash that cannot be parsed matches nothing.
func matches(password, stored string) bool {
	parts := strings.Split(stored, "$") // "", argon2id, v, cost, salt, sum
	if len(parts) != 6 || parts[1] != "argon2id" || len(password) > maxPassword {
		return false
	}
	var memory, passes uint32
	var lanes uint8
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &lanes); err != nil {
		return false
	}
	salt, err := base64Raw.DecodeString(parts[4])
	if err != nil {
		return false
	}
	want, err := base64Raw.DecodeString(parts[5])
	if err != nil {
		return false
	}
	sum := argon2.IDKey([]byte(password), salt, passes, memory, lanes, uint32(len(want)))
	return subtle.ConstantTimeCompare(sum, want) == 1
}
