package mcpclient

// CountValues counts the values of JSON that comes in pieces.
func CountValues(pieces ...string) (n int) {
	var c counter
	for _, p := range pieces {
		n += c.count([]byte(p))
	}
	return n
}

// Hold makes a client believe that n more bytes are being read. A negative n means fewer.
func (c *Client) Hold(n int64) { c.held.Add(n) }

// MaxHeld bounds what is being read and decoded at once.
const MaxHeld = maxHeld

// Held returns the approximate number of bytes that are being read and decoded now.
func (c *Client) Held() int64 { return c.held.Load() }

// MaxLists is how many lists are cached.
const MaxLists = maxLists
