package mcpclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Result is the output of a tool call.
type Result struct {
	Text    string
	Images  []Image
	IsError bool // the tool reports that it failed; Text is then its error message
}

// Image is an image that a tool returned.
type Image struct {
	MIMEType string
	Data     []byte
}

// newResult converts the content that a tool returned to text and images. Content that is neither
// is replaced by a short description in brackets. Structured content takes the place of the text: servers
// repeat it there for clients that know nothing of it, as JSON or in their own words.
func newResult(answer *mcp.CallToolResult) *Result {
	r := &Result{IsError: answer.IsError}
	var texts []string
	structured := structuredText(answer)
	for _, content := range answer.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			if structured == "" {
				texts = append(texts, c.Text)
			}
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
	if structured != "" {
		texts = append(texts, structured)
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// structuredText returns the structured content as JSON, or "" if there is none. The text of an error, which is
// written for readers, is preferred.
func structuredText(answer *mcp.CallToolResult) string {
	if answer.StructuredContent == nil {
		return ""
	}
	raw, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		return ""
	}
	hasText := slices.ContainsFunc(answer.Content, func(c mcp.Content) bool {
		text, ok := c.(*mcp.TextContent)
		return ok && text.Text != ""
	})
	if answer.IsError && hasText {
		return ""
	}
	return string(raw)
}

// resource returns the text of an embedded resource. An image is added to the others instead.
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
