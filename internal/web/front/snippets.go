package front

import "strings"

// Snippet is an example in one language. ID is part of element ids.
type Snippet struct{ ID, Name, Text string }

// Snippets returns a chat completion in each language. The programs run as they are once
// SLUICE_KEY is set; only the server's origin and the model are filled in.
func Snippets(origin, model string) []Snippet {
	return programs(origin, model, `curl {origin}/v1/chat/completions \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "{model}",
    "messages": [{"role": "user", "content": "Hello!"}]
  }'`,
		`reply = client.chat.completions.create(
    model="{model}",
    messages=[{"role": "user", "content": "Hello!"}],
)
print(reply.choices[0].message.content)`,
		`const reply = await client.chat.completions.create({
  model: "{model}",
  messages: [{ role: "user", content: "Hello!" }],
});
console.log(reply.choices[0].message.content);`,
		`reply, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:    "{model}",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello!")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.Choices[0].Message.Content)`)
}

// goProgram is a program in Go around a call.
const goProgram = `// go get github.com/openai/openai-go/v3
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
	{call}
}`

// pythonProgram and typescriptProgram are programs around a call.
const (
	pythonProgram = `# pip install openai
import os
from openai import OpenAI

client = OpenAI(base_url="{origin}/v1", api_key=os.environ["SLUICE_KEY"])
{call}`
	typescriptProgram = `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: "{origin}/v1", apiKey: process.env.SLUICE_KEY });
{call}`
)

func embeddingSnippets(origin, model string) []Snippet {
	return programs(origin, model, `curl {origin}/v1/embeddings \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{"model": "{model}", "input": ["A text to compare"]}'`,
		`reply = client.embeddings.create(model="{model}", input=["A text to compare"])
print(len(reply.data[0].embedding))`,
		`const reply = await client.embeddings.create({ model: "{model}", input: ["A text to compare"] });
console.log(reply.data[0].embedding.length);`,
		`reply, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{
		Model: "{model}",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"A text to compare"}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(len(reply.Data[0].Embedding))`)
}

func videoSnippets(origin, model string) []Snippet {
	return programs(origin, model, `curl {origin}/v1/videos \
  -H "Authorization: Bearer $SLUICE_KEY" \
  -H "Content-Type: application/json" \
  -d '{"model": "{model}", "prompt": "A paper boat on a river", "size": "1280x720", "seconds": "4"}'`,
		`job = client.videos.create_and_poll(model="{model}", prompt="A paper boat on a river", size="1280x720", seconds="4")
client.videos.download_content(job.id).write_to_file("boat.mp4")`,
		`const job = await client.videos.create({ model: "{model}", prompt: "A paper boat on a river", size: "1280x720", seconds: "4" });
console.log(job.id, job.status);`,
		`job, err := client.Videos.New(context.Background(), openai.VideoNewParams{
		Model:   "{model}",
		Prompt:  "A paper boat on a river",
		Size:    openai.VideoSize1280x720,
		Seconds: openai.VideoSeconds4,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(job.ID, job.Status)`)
}

// programs returns the examples of one call in all languages.
func programs(origin, model, curl, python, typescript, golang string) []Snippet {
	return filled(origin, model, []Snippet{
		{"curl", "curl", curl},
		{"python", "Python", strings.ReplaceAll(pythonProgram, "{call}", python)},
		{"typescript", "TypeScript", strings.ReplaceAll(typescriptProgram, "{call}", typescript)},
		{"go", "Go", strings.ReplaceAll(goProgram, "{call}", golang)},
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
