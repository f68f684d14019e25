// The playground: a chat with a model. It calls the public API through /dashboard/v1, where the session cookie
// replaces the API key.
(() => {
  "use strict";

  const box = document.getElementById("playground");
  if (!box) return;
  const by = (id) => document.getElementById(id);
  const talk = by("talk"), prompt = by("prompt");
  let messages = []; // the conversation so far, without the system prompt
  let running = null; // AbortController of the request in progress, or null

  // request returns the body of the next request. It throws if the functions are not valid JSON.
  function request() {
    const body = { model: by("model").value, messages: [...messages] };
    if (by("system").value.trim()) body.messages.unshift({ role: "system", content: by("system").value });
    for (const field of box.querySelectorAll("[data-number]")) {
      if (field.value !== "") body[field.id] = Number(field.value);
    }
    if (by("reasoning_effort").value) body.reasoning_effort = by("reasoning_effort").value;
    if (by("response_format").value) body.response_format = { type: by("response_format").value };
    const tools = functions();
    if (by("mcp-url").value) {
      const server = { type: "mcp", server_url: by("mcp-url").value };
      if (by("mcp-auth").value) server.headers = { Authorization: by("mcp-auth").value };
      tools.push(server);
    }
    if (tools.length) body.tools = tools;
    if (by("stream").checked) { body.stream = true; body.stream_options = { include_usage: true }; }
    return body;
  }

  // functions parses the functions field. It shows the error beside the field and throws if the text is invalid.
  // A bare function is wrapped into a tool object, so that both notations work.
  function functions() {
    const text = by("functions").value.trim(), wrong = by("functions-wrong");
    wrong.hidden = true;
    if (!text) return [];
    try {
      const list = JSON.parse(text);
      if (!Array.isArray(list)) throw new Error("functions must be an array: [ … ]");
      return list.map((item) => item.type ? item : { type: "function", function: item });
    } catch (error) {
      wrong.textContent = "Invalid JSON: " + error.message;
      wrong.hidden = false;
      throw error;
    }
  }

  // showCurl shows the request as a curl command. The Authorization header of the MCP server is replaced by a
  // placeholder, so that the command can be shared.
  function showCurl() {
    let body;
    try { body = request(); } catch { return; }
    if (!body.messages.some((m) => m.role === "user")) body.messages.push({ role: "user", content: prompt.value || "Hello!" });
    for (const tool of body.tools || []) if (tool.headers) tool.headers = { Authorization: "Bearer $MCP_TOKEN" };
    const text = JSON.stringify(body, null, 2).replaceAll("'", "'\\''");
    by("curl").textContent = "curl " + box.dataset.origin + "/v1/chat/completions \\\n" +
      '  -H "Authorization: Bearer $SLUICE_API_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d \'' + text + "'";
  }

  // turn adds a message to the conversation on the page. It returns the element, the element of the sender's name,
  // and a function that appends a part with a CSS class.
  function turn(kind, name) {
    by("talk-empty").hidden = true;
    const el = document.createElement("div");
    el.className = "turn " + kind;
    const who = el.appendChild(document.createElement("div"));
    who.className = "by";
    who.textContent = name;
    talk.append(el);
    const part = (className) => {
      const p = document.createElement("div");
      p.className = className;
      el.append(p);
      return p;
    };
    return { el, who, part };
  }

  const follow = () => { talk.scrollTop = talk.scrollHeight; };

  // Reply collects a response as it arrives and shows it.
  class Reply {
    constructor() {
      this.view = turn("assistant", by("model").value);
      this.content = "";
      this.reasoning = "";
      this.calls = [];
      this.began = performance.now();
    }
    // add appends one delta of a stream, or the whole message of a response that is not streamed.
    add(delta) {
      if (delta.reasoning_content) {
        this.reasoning += delta.reasoning_content;
        if (!this.thought) {
          const fold = this.view.el.appendChild(document.createElement("details"));
          fold.open = true;
          fold.appendChild(document.createElement("summary")).textContent = "Reasoning";
          this.thought = fold.appendChild(document.createElement("div"));
          this.thought.className = "thought";
        }
        this.thought.textContent = this.reasoning;
      }
      if (delta.content) {
        this.content += delta.content;
        this.text ||= this.view.part("text");
        this.text.textContent = this.content;
      }
      for (const [i, piece] of (delta.tool_calls || []).entries()) {
        const call = this.calls[piece.index ?? i] ||= { id: "", type: "function", function: { name: "", arguments: "" } };
        if (piece.id) call.id = piece.id;
        if (piece.function?.name) call.function.name = piece.function.name;
        call.function.arguments += piece.function?.arguments || "";
      }
      follow();
    }
    // finish ends the response, complete or aborted, and adds it to the conversation. All arguments are optional.
    finish(model, usage, requestID) {
      if (model) this.view.who.textContent = model;
      const message = { role: "assistant", content: this.content || (this.calls.length ? null : "") };
      if (this.calls.length) message.tool_calls = this.calls;
      messages.push(message);
      const seconds = ((performance.now() - this.began) / 1000).toFixed(1);
      const facts = this.view.part("small muted");
      facts.textContent = seconds + " s" + (usage ? ", " + usage.prompt_tokens + " input tokens, " + usage.completion_tokens + " output tokens" : "") + (requestID ? " · " + requestID : "");
      if (this.calls.length) this.askResults();
      follow();
    }
    // askResults shows each tool call with a field for its result.
    askResults() {
      const form = this.view.el.appendChild(document.createElement("form"));
      form.className = "stack";
      for (const call of this.calls) {
        const card = form.appendChild(document.createElement("div"));
        card.className = "call";
        card.appendChild(document.createElement("code")).textContent = call.function.name + "(" + call.function.arguments + ")";
        const label = card.appendChild(document.createElement("label"));
        label.textContent = "Result";
        const field = label.appendChild(document.createElement("textarea"));
        field.className = "code";
        field.name = call.id;
        field.value = '{"ok": true}';
      }
      const button = form.appendChild(document.createElement("button"));
      button.textContent = "Send results";
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        for (const call of this.calls) messages.push({ role: "tool", tool_call_id: call.id, content: form.elements[call.id].value });
        button.remove();
        ask();
      });
    }
  }

  function fail(message) {
    turn("error", "Error").part("text").textContent = message;
    follow();
  }

  // ask sends the conversation and shows the response.
  async function ask() {
    let body;
    try { body = request(); } catch { by("functions").focus(); return; }
    running = new AbortController();
    by("send").hidden = true;
    by("stop").hidden = false;
    showCurl();
    let reply;
    try {
      const response = await fetch("/dashboard/v1/chat/completions", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: running.signal,
      });
      const requestID = response.headers.get("x-request-id");
      if (!response.ok) {
        const error = (await response.json()).error;
        // Keys that are switched off are a 401, too; their message says what to do.
        if (error.type === "authentication_error") { location.assign("/signin?next=/dashboard/playground"); return; }
        throw new Error(error.message);
      }
      reply = new Reply();
      if (!body.stream) {
        const whole = await response.json();
        reply.add(whole.choices[0].message);
        reply.finish(whole.model, whole.usage, requestID);
        return;
      }
      let model, usage, complete = false;
      for await (const data of events(response.body)) {
        if (data === "[DONE]") { complete = true; break; }
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        model = chunk.model || model;
        usage = chunk.usage || usage;
        for (const choice of chunk.choices) reply.add(choice.delta);
      }
      if (!complete) throw new Error("The response was cut off.");
      reply.finish(model, usage, requestID);
    } catch (error) {
      if (error.name === "AbortError") {
        if (reply) reply.finish();
      } else {
        fail(error.message);
      }
    } finally {
      running = null;
      by("send").hidden = false;
      by("stop").hidden = true;
      showCurl();
      prompt.focus();
    }
  }

  // events yields the data of each server-sent event. The API sends one data line per event.
  async function* events(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
    }
  }

  by("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    if (!text || running) return;
    // The API rejects a conversation in which a tool call has no result.
    const last = messages.at(-1);
    if (last?.tool_calls) for (const call of last.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: "no result" });
    messages.push({ role: "user", content: text });
    turn("user", "You").part("text").textContent = text;
    prompt.value = "";
    follow();
    ask();
  });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); by("ask").requestSubmit(); }
  });
  by("stop").addEventListener("click", () => running?.abort());
  by("clear").addEventListener("click", () => {
    running?.abort();
    messages = [];
    for (const el of talk.querySelectorAll(".turn")) el.remove();
    by("talk-empty").hidden = false;
    showCurl();
  });
  by("sample").addEventListener("click", () => {
    by("functions").value = JSON.stringify([{
      name: "get_weather", description: "The weather in a city now",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    }], null, 2);
    showCurl();
  });
  box.addEventListener("input", (event) => { if (event.target.matches("[data-setting], #prompt")) showCurl(); });
  showCurl();
})();
