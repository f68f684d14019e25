// Calls of the API, through /dashboard/v1, where the session cookie replaces the key: what is sent, and how a stream
// continues after its connection broke or its page was loaded again.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};
  const numbers = ["temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens"];

  const parts = (content) => typeof content === "string" ? (content ? [{ type: "text", text: content }] : []) : content || [];
  play.partsOf = parts;

  // bare returns a message as the API takes it, without what only this page knows.
  function bare({ role, content, tool_calls, tool_call_id }) {
    if (Array.isArray(content)) content = content.map(({ name, ...p }) => p);
    return { role, content, ...(tool_calls && { tool_calls }), ...(tool_call_id && { tool_call_id }) };
  }

  // request returns path and body of a request. With MCP servers it is a response, which tells what the servers were
  // asked; otherwise a chat completion.
  play.request = (model, messages, s, functions, servers) => {
    const body = { model }, system = s.system.trim();
    if (!servers.length) {
      body.messages = messages.map(bare);
      if (system) body.messages.unshift({ role: "system", content: system });
      for (const id of numbers) if (s[id] !== "") body[id] = Number(s[id]);
      if (s.reasoning_effort) body.reasoning_effort = s.reasoning_effort;
      if (s.response_format) body.response_format = { type: s.response_format };
      if (functions.length) body.tools = functions.map((f) => ({ type: "function", function: { name: f.name, description: f.description, parameters: f.parameters } }));
      if (s.stream) { body.stream = true; body.stream_options = { include_usage: true }; }
      return { path: "/v1/chat/completions", door: "chat.completions", body };
    }
    if (system) body.instructions = system;
    body.input = messages.flatMap(items);
    body.tools = [
      ...functions.map((f) => ({ type: "function", name: f.name, description: f.description, parameters: f.parameters })),
      ...servers.map((m) => ({ type: "mcp", server_label: m.label, server_url: m.url, require_approval: "never", ...(m.auth && { headers: { Authorization: m.auth } }) })),
    ];
    for (const id of ["temperature", "top_p"]) if (s[id] !== "") body[id] = Number(s[id]);
    if (s.max_tokens !== "") body.max_output_tokens = Number(s.max_tokens);
    if (s.reasoning_effort) body.reasoning = { effort: s.reasoning_effort };
    if (s.response_format) body.text = { format: { type: s.response_format } };
    body.store = false;
    if (s.stream) body.stream = true;
    return { path: "/v1/responses", door: "responses", body };
  };

  // items returns a message as items of a response.
  function items(m) {
    if (m.role === "tool") return [{ type: "function_call_output", call_id: m.tool_call_id, output: m.content }];
    const own = m.role === "assistant";
    const content = parts(m.content).map((p) => {
      switch (p.type) {
        case "image_url": return { type: "input_image", image_url: p.image_url.url };
        case "file": return { type: "input_file", filename: p.file.filename, file_data: p.file.file_data };
        case "input_audio": return { type: "input_audio", input_audio: p.input_audio };
        default: return { type: own ? "output_text" : "input_text", text: p.text };
      }
    });
    return [
      ...(m.mcp || []).map((c) => ({ type: "mcp_call", id: c.id, server_label: c.server, name: c.name, arguments: c.arguments, output: c.output ?? null, error: c.error ?? null })),
      ...(content.length ? [{ role: m.role, content }] : []),
      ...(m.tool_calls || []).map((c) => ({ type: "function_call", call_id: c.id, name: c.function.name, arguments: c.function.arguments })),
    ];
  }

  // Refusal is why there is no reply: the message of the service, and what the page needs to offer a way on.
  class Refusal extends Error {
    constructor(status, error, wait) {
      super(error.message);
      this.status = status;
      this.type = error.type;
      this.long = error.code === "context_length_exceeded" || error.details?.error_code === "context_length_exceeded";
      this.wait = wait; // seconds
    }
  }
  const unreachable = () => new Refusal(0, { message: "The server cannot be reached. Check your connection and try again." });
  const cutOff = () => new Refusal(0, { message: "The response was cut off." });
  play.cutOff = cutOff;

  async function refusal(response) {
    const { error } = await response.json().catch(() => ({}));
    return new Refusal(response.status, error || { message: "The server replied with status " + response.status + "." }, Number(response.headers.get("Retry-After")) || 0);
  }

  const pause = (ms, signal) => new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });

  // post sends a request. The same key and body get the reply of the first request, so that it can be sent again.
  play.post = async (asked, key, signal) => {
    for (;;) {
      const response = await fetch("/dashboard" + asked.path, {
        method: "POST", headers: { "Content-Type": "application/json", "x-sluice-resume": "1", "Idempotency-Key": key }, body: JSON.stringify(asked.body), signal,
      }).catch((error) => { throw signal.aborted ? error : unreachable(); });
      if (response.ok) return response;
      if (response.status !== 409) throw await refusal(response);
      await pause(1000, signal); // the first request with this key still runs
    }
  };

  // rest asks for the rest of a stream, after the event with the id last or, if that is empty, from its beginning, until
  // the server can be reached again, for as long as it keeps the call.
  play.rest = async (at, last, signal) => {
    for (let wait = 100, until = Date.now() + 120_000; ; wait = Math.min(2 * wait, 5000)) {
      const response = await fetch("/dashboard" + at, { headers: last ? { "Last-Event-ID": last } : {}, signal }).catch((error) => { if (signal.aborted) throw error; });
      if (response?.ok) return response;
      if (response && response.status < 500 || Date.now() > until) throw cutOff();
      await pause(wait, signal);
    }
  };

  // end ends a call. One whose connection breaks goes on, so closing the connection is not enough.
  play.end = (at) => { if (at) fetch("/dashboard" + at, { method: "DELETE", keepalive: true }).catch(() => {}); };

  // events yields what the events of a stream say. If the connection breaks, it continues after the last event.
  play.events = async function* (response, at, signal) {
    let id = "", last = "";
    for (;;) {
      try {
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ;) {
          const { value, done } = await reader.read();
          if (done) break;
          const lines = (rest + value).split("\n");
          rest = lines.pop();
          for (const line of lines) {
            if (line.startsWith("id:")) id = line.slice(3).trim();
            if (line.startsWith("data:")) { last = id; yield line.slice(5).trim(); }
          }
        }
      } catch (error) {
        if (!at || signal.aborted) throw error;
      }
      if (!at) return;
      response = await play.rest(at, last, signal);
    }
  };

  // problemOf returns the error that an event of a stream brings, or nothing.
  play.problemOf = (chunk) => {
    const error = chunk.error || chunk.response?.error;
    return error && new Refusal(Number(error.code) || 0, error, 0);
  };
})();
