package responses_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/api/messages"
	"sluice/internal/api/responses"
	"sluice/internal/prompt/chat"
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
