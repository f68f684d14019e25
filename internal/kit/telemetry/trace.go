package telemetry

// TraceID returns the id of the trace that a traceparent header names, or "" if the header is not
// valid (https://www.w3.org/TR/trace-context/#traceparent-header). It allocates nothing: the id is a
// part of the header.
func TraceID(traceparent string) string {
	// version "-" trace id "-" parent id "-" flags. Later versions may add fields.
	const version, trace, parent, flags, end = 0, 3, 36, 53, 55
	s := traceparent
	if len(s) < end || s[trace-1] != '-' || s[parent-1] != '-' || s[flags-1] != '-' {
		return ""
	}
	if v := s[version : trace-1]; !isHex(v) || v == "ff" || v == "00" && len(s) != end || len(s) > end && s[end] != '-' {
		return ""
	}
	id := s[trace : parent-1]
	if !isHex(id) || !isHex(s[parent:flags-1]) || !isHex(s[flags:end]) || isZero(id) || isZero(s[parent:flags-1]) {
		return ""
	}
	return id
}

// isHex reports whether s consists of digits and lower-case letters from a to f.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isZero reports whether s consists of zeros, which the standard does not allow.
func isZero(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}
