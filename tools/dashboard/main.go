// Command dashboard writes the Grafana dashboard, deploy/grafana/sluice.json.
//
// The panels are the table below, the one place that names the metrics of the dashboard. Grafana's own
// format is 40 lines a panel, most of them the same, and nobody can review it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

//go:generate go run . ../../deploy/grafana/sluice.json

// panel is one graph. Its queries are written with $node for the chosen nodes.
type panel struct {
	title, text string // what it shows, and how to read it
	unit        string // one of Grafana's
	queries     []query
}

// query is one expression of a panel. legend names each of its lines.
type query struct{ expr, legend string }

// row is a group of panels.
type row struct {
	title  string
	panels []panel
}

// rows is the dashboard from top to bottom. Each query must return something from a server that has been
// used: a test asks a running one.
var rows = []row{
	{"Callers", []panel{
		{"Requests", "Requests a second, by status. 429 means that limits of accounts work, 5xx that something of ours or of a provider does not.", "reqps", []query{
			{`sum by (status) (rate(sluice_http_requests_total{instance=~"$node"}[$__rate_interval]))`, "{{status}}"},
		}},
		{"Share of 5xx", "Of all requests. The alert SluiceErrors is at 5 %.", "percentunit", []query{
			{`(sum(rate(sluice_http_requests_total{instance=~"$node",status=~"5.."}[$__rate_interval])) or vector(0)) / sum(rate(sluice_http_requests_total{instance=~"$node"}[$__rate_interval]))`, "5xx"},
		}},
		{"Duration of chat calls", "From the first byte of the request to the last one of the reply. A stream takes as long as the model writes.", "s", []query{
			{`histogram_quantile(0.5, sum by (le) (rate(sluice_http_request_duration_seconds_bucket{instance=~"$node",route="/v1/chat/completions"}[$__rate_interval])))`, "half of them"},
			{`histogram_quantile(0.95, sum by (le) (rate(sluice_http_request_duration_seconds_bucket{instance=~"$node",route="/v1/chat/completions"}[$__rate_interval])))`, "95 %"},
		}},
		{"Slowest routes", "95 % of the requests of a route are faster.", "s", []query{
			{`topk(5, histogram_quantile(0.95, sum by (le, route) (rate(sluice_http_request_duration_seconds_bucket{instance=~"$node"}[$__rate_interval]))))`, "{{route}}"},
		}},
		{"Under way", "Requests, model calls and connections now.", "short", []query{
			{`sum(sluice_http_requests_in_flight{instance=~"$node"})`, "requests"},
			{`sum(sluice_calls_running{instance=~"$node"})`, "model calls"},
			{`sum(sluice_connections{instance=~"$node"})`, "connections"},
			{`sum(sluice_videos_running{instance=~"$node"})`, "videos"},
		}},
		{"Time to the first token", "Of streamed calls, over all models.", "s", []query{
			{`histogram_quantile(0.5, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{instance=~"$node"}[$__rate_interval])))`, "half of them"},
			{`histogram_quantile(0.95, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{instance=~"$node"}[$__rate_interval])))`, "95 %"},
		}},
		{"Videos that wait", "Jobs of all nodes that no worker has taken, and how long the oldest has waited.", "short", []query{
			{`max(sluice_videos_waiting{instance=~"$node"})`, "jobs"},
			{`max(sluice_videos_oldest_seconds{instance=~"$node"})`, "seconds"},
		}},
		{"Request bodies in memory", "Beyond the bound in the configuration, requests are refused with 503.", "bytes", []query{
			{`sluice_request_bodies_bytes{instance=~"$node"}`, "{{instance}}"},
		}},
	}},
	{"Providers", []panel{
		{"Attempts", "Calls to providers a second, by outcome. Failed ones are tried again elsewhere.", "reqps", []query{
			{`sum by (provider, outcome) (rate(sluice_upstream_attempts_total{instance=~"$node"}[$__rate_interval]))`, "{{provider}} {{outcome}}"},
		}},
		{"Error rate", "A moving average of the worst target of a provider.", "percentunit", []query{
			{`max by (provider) (sluice_upstream_error_rate{instance=~"$node"})`, "{{provider}}"},
		}},
		{"Time to the first content", "A moving average of the slowest target of a provider.", "s", []query{
			{`max by (provider) (sluice_upstream_first_content_seconds{instance=~"$node"})`, "{{provider}}"},
		}},
		{"Targets without calls", "Targets whose breaker is open or trying.", "short", []query{
			{`sum by (provider, state) (sluice_upstream_targets{instance=~"$node",state!="closed"})`, "{{provider}} {{state}}"},
		}},
		{"Calls under way", "At each provider.", "short", []query{
			{`sum by (provider) (sluice_upstream_calls_running{instance=~"$node"})`, "{{provider}}"},
		}},
	}},
	{"What we know", []panel{
		{"Settlements that wait", "For the database. It grows while the database is away, and must return to 0.", "short", []query{
			{`sluice_journal_records{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Bytes of the journal that wait", "They need room on the disk of the node.", "bytes", []query{
			{`sluice_journal_bytes{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Age of what is known about accounts", "A revoked key works for this long on this node.", "s", []query{
			{`sluice_accounts_age_seconds{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Limits counted in Redis", "1: exactly, together with the other nodes. 0: each node by its share.", "short", []query{
			{`sluice_ledger_exact{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Nodes", "That share the limits, as each node sees it, and accounts.", "short", []query{
			{`sluice_ledger_nodes{instance=~"$node"}`, "{{instance}}"},
			{`max(sluice_accounts{instance=~"$node"})`, "accounts"},
		}},
		{"Redis fell behind", "Ends of calls that wait for Redis or were given up, and calls admitted by a node's share.", "short", []query{
			{`sluice_ledger_queued{instance=~"$node"}`, "{{instance}} waiting"},
			{`sluice_ledger_dropped{instance=~"$node"}`, "{{instance}} given up"},
			{`sluice_ledger_local_calls{instance=~"$node"}`, "{{instance}} by share"},
		}},
	}},
	{"The processes", []panel{
		{"Ready", "1: the node takes calls. 0: /readyz says why not.", "short", []query{
			{`sluice_ready{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Free disk", "On the disk of the data folder. The alert SluiceDisk is at 2 GB.", "bytes", []query{
			{`sluice_disk_free_bytes{instance=~"$node"}`, "{{instance}}"},
		}},
		{"Memory", "Resident. Much of it is the binary itself, which the kernel can take back.", "bytes", []query{
			{`process_resident_memory_bytes{instance=~"$node",job="sluice"}`, "{{instance}}"},
		}},
		{"Processor", "Cores in use.", "short", []query{
			{`rate(process_cpu_seconds_total{instance=~"$node",job="sluice"}[$__rate_interval])`, "{{instance}}"},
		}},
		{"Goroutines", "They follow the number of open streams. A line that only rises is a leak.", "short", []query{
			{`go_goroutines{instance=~"$node",job="sluice"}`, "{{instance}}"},
		}},
		{"Open files", "Of those that the process may open.", "percentunit", []query{
			{`process_open_fds{instance=~"$node",job="sluice"} / process_max_fds{instance=~"$node",job="sluice"}`, "{{instance}}"},
		}},
		{"Uptime", "Since the process was started.", "s", []query{
			{`time() - process_start_time_seconds{instance=~"$node",job="sluice"}`, "{{instance}}"},
		}},
		{"Versions and configuration", "Nodes of each version, and reloads of the configuration in the last hour.", "short", []query{
			{`count by (version) (sluice_build_info{instance=~"$node"})`, "version {{version}}"},
			{`sum by (outcome) (increase(sluice_config_reloads_total{instance=~"$node"}[1h]))`, "reload {{outcome}}"},
		}},
	}},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboard file")
		os.Exit(2)
	}
	text, err := dashboard()
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// object is a JSON object. encoding/json writes its keys sorted, so the file is the same every time.
type object map[string]any

// The size of panels on Grafana's grid, which is 24 wide.
const (
	width, height = 8, 8
	wide          = 24
)

// dashboard returns the file.
func dashboard() ([]byte, error) {
	source := object{"type": "prometheus", "uid": "${source}"}
	var panels []object
	y := 0
	for _, r := range rows {
		panels = append(panels, object{"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": wide, "h": 1}})
		y++
		for i, p := range r.panels {
			if i > 0 && i*width%wide == 0 {
				y += height
			}
			panels = append(panels, p.json(len(panels)+1, i*width%wide, y, source))
		}
		y += height
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // so that a query reads like one
	enc.SetIndent("", "  ")
	err := enc.Encode(object{
		"uid": "sluice", "title": "Sluice", "description": "Generated by tools/dashboard; change it there.", "tags": []string{"sluice"},
		"schemaVersion": 39, "version": 1, "editable": true, "refresh": "30s", "timezone": "browser", "graphTooltip": 1,
		"time":        object{"from": "now-3h", "to": "now"},
		"annotations": object{"list": []object{{"name": "Restarts", "enable": true, "iconColor": "orange", "datasource": source, "expr": `changes(process_start_time_seconds{job="sluice"}[1m]) > 0`, "titleFormat": "{{instance}} was restarted"}}},
		"templating": object{"list": []object{
			{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
			{"name": "node", "label": "Node", "type": "query", "datasource": source, "query": "label_values(sluice_build_info, instance)", "refresh": 2, "includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"}},
		}},
		"panels": panels,
	})
	return out.Bytes(), err
}

// json returns the panel in Grafana's format, at a place on the grid.
func (p panel) json(id, x, y int, source object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend})
	}
	return object{
		"id": id, "type": "timeseries", "title": p.title, "description": p.text, "datasource": source, "targets": targets,
		"gridPos":     object{"x": x, "y": y, "w": width, "h": height},
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
