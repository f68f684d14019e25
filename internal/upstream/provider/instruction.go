package provider

// Instruction returns the text of a system message that stands between others, as a part of the user's turn, for upstreams
// that know no such message. It stays where it stands: in front of all others it would change the whole prompt, of which no
// cache would then have the beginning.
func Instruction(text string) string { return "<system>\n" + text + "\n</system>" }
