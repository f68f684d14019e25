package support

import (
	"net/http"
	"time"

	"sluice/internal/operate/admin"
)

// serversPath is the path of the page with the servers.
const serversPath = home + "/servers"

// serversPage shows which servers there are, and what this one says of itself. It changes nothing: that is done on their machines.
func (c *Console) serversPage(w http.ResponseWriter, r *http.Request, m *member) error {
	status, err := run(c, r, m, c.ops.StatusShow, admin.Empty{})
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, serversPage(c.frame(w, r, m, "Servers"), status, time.Now()))
}
