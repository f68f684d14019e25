package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/bench/process"
	"sluice/bench/upstream"
)

// tools measures what it takes to call a tool of an MCP server between two calls of the model.
func (p plan) tools(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	addr, err := process.FreeAddress()
	if err != nil {
		return err
	}
	server, err := process.Start(ctx, nil, self, "tools", addr)
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := (&target{name: "the tool server", addr: addr, Process: server}).listens(ctx); err != nil {
		return err
	}
	plain := doorsOf()[0]
	plain.name = "a model call"
	tool := *plain
	tool.name = "two and a tool between them"
	tool.members = fmt.Sprintf(`"messages":[{"role":"system","content":%q},{"role":"user","content":"%s %s"}],"temperature":0.7,"max_tokens":256,"tools":[{"type":"mcp","server_url":"http://%s/mcp","require_approval":"never"}]`,
		doorSystem, upstream.Call, doorUser, addr)
	loads := []workload{one, some}
	medians, err := p.through(ctx, self, bin, scratch, []*door{plain, &tool}, loads, out)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i, w := range loads {
		fmt.Fprintf(out, "median of the time that a tool adds to two model calls, %s: %.0f µs\n", w.name, medians[2*i+1]-2*medians[2*i])
	}
	return nil
}

// serveTools is an MCP server with one tool that does nothing, by the official SDK.
func serveTools(l net.Listener, args []string) error {
	if len(args) > 0 {
		return errors.New("the tool server takes no arguments")
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "look_up", Description: "Looks a word up."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "A gateway stands between callers and models."}}}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	return http.Serve(l, handler) //nolint:gosec // its only client is the gateway
}
