package mcpclient

// CountValues counts the values of JSON that comes in pieces.
func CountValues(pieces ...string) (n int) {
	var c counter
	for _, p := range pieces {
		n += c.count([]byte(p))
	}
	return n
}
