package mcpclient

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Result is what a tool said.
type Result struct {
	Text    string
	Images  []Image
	IsError bool // the tool says that it failed
}

// Image is a picture that a tool returned.
type Image struct {
	MIMEType string
	Data     []byte
}

// newResult makes texts and images of what a tool returned. What is neither is named.
func newResult(answer *mcp.CallToolResult) *Result {
	r := &Result{IsError: answer.IsError}
	var texts []string
	structured := answer.StructuredContent != nil
	for _, content := range answer.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			if json.Valid([]byte(c.Text)) {
				structured = false // servers repeat it as a text for clients that do not know it
			}
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			r.Images = append(r.Images, Image{c.MIMEType, c.Data})
		case *mcp.AudioContent:
			texts = append(texts, fmt.Sprintf("[audio, %s, %d bytes]", clean(c.MIMEType), len(c.Data)))
		case *mcp.ResourceLink:
			texts = append(texts, strings.TrimSpace(fmt.Sprintf("[resource %s] %s %s", c.URI, c.Name, c.Description)))
		case *mcp.EmbeddedResource:
			texts = append(texts, r.resource(c.Resource))
		}
	}
	if structured {
		if raw, err := json.Marshal(answer.StructuredContent); err == nil {
			texts = append(texts, string(raw))
		}
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// resource is the text of an embedded resource; an image joins the others.
func (r *Result) resource(c *mcp.ResourceContents) string {
	switch {
	case c == nil:
		return ""
	case c.Text != "" || c.Blob == nil:
		return c.Text
	case strings.HasPrefix(c.MIMEType, "image/"):
		r.Images = append(r.Images, Image{c.MIMEType, c.Blob})
		return "[image " + c.URI + "]"
	}
	return fmt.Sprintf("[resource %s, %s, %d bytes]", c.URI, clean(c.MIMEType), len(c.Blob))
}
