package front

import "strings"

// Snippet is an example in one language. ID is part of element ids.
type Snippet struct{ ID, Name, Text string }

// Snippets returns a chat completion in each language. The programs run as they are once
// SLUICE_KEY is set; only the server's origin and the model are filled in.
func Snippets(origin, model string) []Snippet {
	return filled(origin, model, []Snippet{
		{"curl", "curl", `curl {origin}/v1/chat/completions \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "{model}",
    "messages": [{"role": "user", "content": "Hello!"}]
  }'`},
		{"python", "Python", `# pip install openai
import os
from openai import OpenAI

client = OpenAI(base_url="{origin}/v1", api_key=os.environ["SLUICE_KEY"])
reply = client.chat.completions.create(
    model="{model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(reply.choices[0].message.content)`},
		{"typescript", "TypeScript", `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{origin}/v1", apiKey: process.env.SLUICE_KEY });
const reply = await client.chat.completions.create({
  model: "{model}",
  messages: [{ role: "user", content: "Hello!" }],
});
console.log(reply.choices[0].message.content);`},
		{"go", "Go", `// go get github.com/openai/openai-go/v3
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func main() {
	client := openai.NewClient(option.WithBaseURL("{origin}/v1"), option.WithAPIKey(os.Getenv("SLUICE_KEY")))
	reply, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:    "{model}",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello!")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.Choices[0].Message.Content)
}`},
	})
}

func embeddingSnippets(origin, model string) []Snippet {
	return filled(origin, model, []Snippet{
		{"curl", "curl", `curl {origin}/v1/embeddings \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{"model": "{model}", "input": ["A text to compare"]}'`},
		{"python", "Python", `# pip install openai
import os
from openai import OpenAI

client = OpenAI(base_url="{origin}/v1", api_key=os.environ["SLUICE_KEY"])
reply = client.embeddings.create(model="{model}", input=["A text to compare"])
print(len(reply.data[0].embedding))`},
	})
}

func videoSnippets(origin, model string) []Snippet {
	return filled(origin, model, []Snippet{
		{"curl", "curl", `curl {origin}/v1/video/generations/jobs \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "{model}", "prompt": "A paper boat on a river",
    "width": 854, "height": 480, "n_seconds": 5
  }'`},
	})
}

// filled puts the origin and the model into snippets. A text/template would need escaping: they are full of braces.
func filled(origin, model string, list []Snippet) []Snippet {
	fill := strings.NewReplacer("{origin}", origin, "{model}", model)
	for i := range list {
		list[i].Text = fill.Replace(list[i].Text)
	}
	return list
}
