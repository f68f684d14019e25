// A request as a program: curl, Python, TypeScript and Go.
window.sluiceSnippets = (() => {
  "use strict";

  // python writes a value as Python does.
  function python(v, indent = "") {
    if (v === null) return "None";
    if (v === true) return "True";
    if (v === false) return "False";
    if (typeof v !== "object") return JSON.stringify(v);
    const inner = indent + "    ";
    const items = Array.isArray(v) ? v.map((x) => inner + python(x, inner)) : Object.entries(v).map(([k, x]) => inner + JSON.stringify(k) + ": " + python(x, inner));
    const [open, close] = Array.isArray(v) ? "[]" : "{}";
    const line = open + items.map((x) => x.trim()).join(", ") + close;
    return line.length < 60 && !line.includes("\n") ? line : open + "\n" + items.join(",\n") + ",\n" + indent + close;
  }

  const json = (v) => JSON.stringify(v, null, 2);

  // write returns the programs that send a body to a path, by language. door is chat.completions or responses.
  return function write(origin, path, door, body) {
    const text = json(body), responses = door === "responses";
    const shown = responses ? "output_text" : "choices[0].message.content";
    const piece = responses ? 'if event.type == "response.output_text.delta":\n        print(event.delta, end="")' : 'if event.choices and event.choices[0].delta.content:\n        print(event.choices[0].delta.content, end="")';
    const call = `client.${door}.create(\n` + Object.entries(body).map(([k, v]) => "    " + k + "=" + python(v, "    ")).join(",\n") + ",\n)";
    return {
      curl: `curl ${origin}${path} \\\n  -H "Authorization: Bearer $SLUICE_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '${text.replaceAll("'", "'\\''")}'`,
      python: `# pip install openai\nimport os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1", api_key=os.environ["SLUICE_KEY"])\n` +
        (body.stream ? `for event in ${call}:\n    ${piece}` : `reply = ${call}\nprint(reply.${shown})`),
      typescript: `// npm install openai\nimport OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${origin}/v1", apiKey: process.env.SLUICE_KEY });\n` +
        `const reply = await client.${door}.create(${text});\n` +
        (body.stream ? "for await (const event of reply) {\n  " + (responses ? 'if (event.type === "response.output_text.delta") process.stdout.write(event.delta);' : 'process.stdout.write(event.choices[0]?.delta?.content ?? "");') + "\n}" : `console.log(reply.${shown});`),
      go: `package main\n\nimport (\n\t"io"\n\t"net/http"\n\t"os"\n\t"strings"\n)\n\nconst body = \`${text.replaceAll("`", '` + "`" + `')}\`\n\nfunc main() {\n` +
        `\treq, err := http.NewRequest("POST", "${origin}${path}", strings.NewReader(body))\n\tif err != nil {\n\t\tpanic(err)\n\t}\n` +
        `\treq.Header.Set("Authorization", "Bearer "+os.Getenv("SLUICE_KEY"))\n\treq.Header.Set("Content-Type", "application/json")\n` +
        "\treply, err := http.DefaultClient.Do(req)\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer reply.Body.Close()\n\tio.Copy(os.Stdout, reply.Body)\n}",
    };
  };
})();
