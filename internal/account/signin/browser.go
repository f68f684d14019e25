package signin

import "strings"

// Browser returns a readable name for a user agent, such as "Firefox on Linux". The order
// matters: Edge and Opera also contain "Chrome/", and Chrome contains "Safari/".
func Browser(agent string) string {
	name := "Unknown browser"
	for _, known := range [][2]string{{"Firefox/", "Firefox"}, {"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"}} {
		if strings.Contains(agent, known[0]) {
			name = known[1]
			break
		}
	}
	for _, known := range [][2]string{{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS", "macOS"}, {"Linux", "Linux"}} {
		if strings.Contains(agent, known[0]) {
			return name + " on " + known[1]
		}
	}
	return name
}
