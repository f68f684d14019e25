package signin

// HashPassword is for tests that need an account with a password.
var HashPassword = hashPassword
