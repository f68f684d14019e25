package responses_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/api/messages"
	"sluice/internal/api/responses"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// talk is the same conversation in the words of the three doors.
type talk struct{ chat, responses, messages string }

// person is what somebody sends on the second turn.
func person() talk {
	const system, first, reply, second = "You are a helpful assistant. Answer briefly and say so when you do not know.", "What does a sluice do in a canal, and who operates it?",
		`It lets water pass in a controlled way.\nA lock keeper, or a motor, opens and closes it.`, "And what happens when the water outside is higher than inside? Please explain it in two or three sentences."
	turns := fmt.Sprintf(`{"role":"user","content":"%s"},{"role":"assistant","content":"%s"},{"role":"user","content":"%s"}]`, first, reply, second)
	const more = `,"temperature":0.7,"top_p":1,"stream":true`
	return talk{
		chat:      `{"model":"service/auto","max_tokens":512,"messages":[{"role":"system","content":"` + system + `"},` + turns + more + `,"user":"user-1234"}`,
		responses: `{"model":"service/auto","max_output_tokens":512,"instructions":"` + system + `","input":[` + turns + more + `,"user":"user-1234"}`,
		messages:  `{"model":"service/auto","max_tokens":512,"system":"` + system + `","messages":[` + turns + more + `,"metadata":{"user_id":"user-1234"}}`,
	}
}

// agent is a long conversation with tools: rounds of calls and their results.
func agent(rounds int) talk {
	instructions := strings.Repeat("Do this, and then do that. ", 300)
	const schema = `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},"timeout":{"type":"integer"}},"required":["command"]}`
	output := strings.Repeat(`line of output, as a shell \"writes\" it\n`, 20)
	var c, r, m strings.Builder
	for i := range rounds {
		arguments := fmt.Sprintf(`{"command":["ls","-l","dir%d"],"timeout":10}`, i)
		quoted, _ := json.Marshal(arguments)
		fmt.Fprintf(&c, `,{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"shell","arguments":%s}}]},{"role":"tool","tool_call_id":"call_%d","content":"%s"}`, i, quoted, i, output)
		fmt.Fprintf(&r, `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me look."}]},{"type":"function_call","call_id":"call_%d","name":"shell","arguments":%s},{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i, quoted, i, output)
		fmt.Fprintf(&m, `,{"role":"assistant","content":[{"type":"text","text":"Let me look."},{"type":"tool_use","id":"call_%d","name":"shell","input":%s}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_%d","content":"%s"}]}`, i, arguments, i, output)
	}
	const said = `{"role":"user","content":"Find out what is in there."}`
	return talk{
		chat: `{"model":"service/auto","max_tokens":4096,"stream":true,"tools":[{"type":"function","function":{"name":"shell","description":"Runs a command","parameters":` + schema + `}}],"messages":[{"role":"system","content":"` +
			instructions + `"},` + said + c.String() + `]}`,
		responses: `{"model":"service/auto","max_output_tokens":4096,"stream":true,"tools":[{"type":"function","name":"shell","description":"Runs a command","parameters":` + schema + `}],"instructions":"` +
			instructions + `","input":[` + said + r.String() + `]}`,
		messages: `{"model":"service/auto","max_tokens":4096,"stream":true,"tools":[{"name":"shell","description":"Runs a command","input_schema":` + schema + `}],"system":"` +
			instructions + `","messages":[` + said + m.String() + `]}`,
	}
}

// BenchmarkDoors is what it costs to read the same conversation through the three doors.
func BenchmarkDoors(b *testing.B) {
	for _, bb := range []struct {
		name string
		talk talk
	}{{"person", person()}, {"agent", agent(20)}, {"long", agent(400)}} {
		run := func(door, body string, read func([]byte) error) {
			b.Run(bb.name+"/"+door, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := read([]byte(body)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("chat", bb.talk.chat, func(body []byte) error {
			_, err := chat.Parse(body)
			return err
		})
		run("responses", bb.talk.responses, func(body []byte) error {
			req, err := responses.Parse(body)
			if err != nil {
				return err
			}
			_, err = req.Compose(nil)
			return err
		})
		run("messages", bb.talk.messages, func(body []byte) error {
			_, err := messages.Parse(body)
			return err
		})
	}
}

// BenchmarkCalls is what the three doors cost beside everything that they have in common: reading a short request, and writing
// its reply, in one piece and as a stream of 50 chunks.
func BenchmarkCalls(b *testing.B) {
	const system, user, more = "You are a helpful assistant. Answer briefly, and say so where you do not know.", "Explain in a few sentences how a gateway hands a streamed reply on, and what it must not hold back.", `"temperature":0.7,"stream":`
	doors := []struct {
		name, body string
		read       func(body []byte) (relay.Dialect, error)
	}{
		{"chat", `{"model":"lab/large","messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + user + `"}],"max_tokens":256,` + more, func(body []byte) (relay.Dialect, error) {
			_, err := chat.Parse(body)
			return nil, err
		}},
		{"messages", `{"model":"lab/large","system":"` + system + `","messages":[{"role":"user","content":"` + user + `"}],"max_tokens":256,` + more, func(body []byte) (relay.Dialect, error) {
			req, err := messages.Parse(body)
			if err != nil {
				return nil, err
			}
			return messages.NewWriter(req, "id"), nil
		}},
		{"responses", `{"model":"lab/large","instructions":"` + system + `","input":"` + user + `","max_output_tokens":256,"store":false,` + more, func(body []byte) (relay.Dialect, error) {
			req, err := responses.Parse(body)
			if err != nil {
				return nil, err
			}
			_, err = req.Compose(nil)
			return responses.NewWriter(req, relay.Head{}, nil), err
		}},
	}
	const usage = `"usage":{"prompt_tokens":40,"completion_tokens":50,"total_tokens":90}`
	chunk := func(delta, finish string) provider.Event {
		return provider.Event{Kind: provider.Chunk, Raw: fmt.Appendf(nil, `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`, delta, finish)}
	}
	stream := []provider.Event{chunk(`"role":"assistant","content":""`, "null")}
	for i := range 50 {
		stream = append(stream, chunk(fmt.Sprintf(`"content":" word%d"`, i), "null"))
	}
	stream = append(stream, chunk("", `"stop"`), provider.Event{Kind: provider.Chunk, Raw: []byte(`{"choices":[],` + usage + `}`)})
	text := strings.Repeat(" a word and another", 15)
	whole := []provider.Event{{Kind: provider.Whole, Raw: []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],` + usage + `}`)}}
	for form, events := range map[bool][]provider.Event{true: stream, false: whole} {
		for _, d := range doors {
			b.Run(fmt.Sprintf("%s/stream=%t", d.name, form), func(b *testing.B) {
				b.ReportAllocs()
				body := fmt.Appendf(nil, "%s%t}", d.body, form)
				w := &nobody{http.Header{}}
				for b.Loop() {
					dialect, err := d.read(body)
					if err != nil {
						b.Fatal(err)
					}
					out := relay.New(w, relay.Head{RequestID: "0123456789abcdef0123456789abcdef", Created: 1700000000, Model: "lab/large"}, relay.Options{Stream: form, Dialect: dialect})
					out.Relay(b.Context(), &played{events: events})
					if err := out.Finish(); err != nil {
						b.Fatal(err)
					}
					out.Close()
				}
			})
		}
	}
}

// nobody reads everything at once.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n *nobody) WriteHeader(int)             {}
func (n *nobody) Flush()                      {}

// played is an upstream's reply, whose events arrive together.
type played struct {
	events []provider.Event
	next   int
}

func (p *played) Next() (*provider.Event, error) {
	if p.next == len(p.events) {
		return nil, io.EOF
	}
	p.next++
	return &p.events[p.next-1], nil
}

func (p *played) Ready() bool  { return p.next < len(p.events) }
func (p *played) Close() error { return nil }
