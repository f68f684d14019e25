package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ProxiedFile records that a request came through a proxy or for another host. While it exists, a server treats
// its callers as strangers from the start. Delete it and restart the server to begin again.
const ProxiedFile = "proxied"

// Proxied returns what the folder at path recorded about the first such request. It is empty if there was none.
func Proxied(path string) string {
	raw, err := os.ReadFile(filepath.Join(path, ProxiedFile))
	if err != nil && os.IsNotExist(err) {
		return ""
	}
	if text := strings.TrimSpace(string(raw)); text != "" {
		return text
	}
	return "an earlier request" // the file exists, and only that counts
}

// RecordProxied creates ProxiedFile. Why says what gave the request away.
func (d *Dir) RecordProxied(why string) error {
	text := fmt.Sprintf("%s: %q\n", time.Now().UTC().Format(time.RFC3339), why)
	return os.WriteFile(d.Join(ProxiedFile), []byte(text), 0o600)
}
