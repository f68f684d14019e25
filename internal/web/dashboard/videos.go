package dashboard

import (
	"net/http"
	"strconv"
	"time"

	"sluice/internal/web/webui"
)

// videosView is the data of the form for a new video.
type videosView struct {
	Model string
	// Kept is how long a finished video is kept, such as 2 days.
	Kept  string
	Sizes []videoSize
}

// videoSize is a common pair of width and height (docs/api.md#video-request).
type videoSize struct {
	Value, Text string
}

// videosPage shows the form. videos.js loads the list and does everything else through the API.
func (d *Dashboard) videosPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	p := d.frame(w, r, v, "Videos")
	p.Styles, p.Scripts = []string{accountStyle}, []string{"videos.js"}
	view := videosView{Model: d.VideoModel(), Kept: keptText(d.VideosKept()), Sizes: []videoSize{
		{"854x480", "854 × 480"},
		{"480x854", "480 × 854"},
		{"480x480", "480 × 480"},
		{"1280x720", "1280 × 720, counts 1.5 times"},
		{"720x1280", "720 × 1280, counts 1.5 times"},
		{"1920x1080", "1920 × 1080, counts twice"},
		{"1080x1920", "1080 × 1920, counts twice"},
	}}
	return d.ui.Render(w, r, http.StatusOK, videosPage(p, view))
}

// keptText returns how long something is kept: in days if these are whole.
func keptText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d > day && d%day == 0:
		return strconv.Itoa(int(d/day)) + " days"
	case d > time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + " hours"
	}
	return webui.Millis(d.Milliseconds())
}
