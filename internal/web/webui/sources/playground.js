// The playground: chats with one model or two side by side. It calls the public API through /dashboard/v1, where the
// session cookie replaces the API key. Chats, presets and drafts are kept in this browser and nowhere else.
(() => {
  "use strict";

  const box = document.getElementById("playground");
  if (!box) return;
  const { markdown, highlight, make } = window.sluiceText;
  const by = (id) => document.getElementById(id);
  const models = JSON.parse(box.dataset.models);
  const prompt = by("prompt"), lanes = [...box.querySelectorAll(".lane")];
  const fields = [...box.querySelectorAll("[data-setting]")];

  // ---- what is kept ----

  const place = "sluice.play." + box.dataset.account;
  const mostChats = 40, mostPresets = 20;
  let chat, pictures = [], running = null;
  // ends has a function for each stream under way that ends its call. A call whose connection breaks goes on, so closing
  // the connection does not end it.
  const ends = new Set();
  function stop() {
    for (const end of ends) end();
    running?.abort();
  }

  function stored() {
    try {
      const all = JSON.parse(localStorage.getItem(place));
      if (Array.isArray(all?.chats) && Array.isArray(all?.presets)) return all;
    } catch { /* nothing is kept, or something else has written there */ }
    return { chats: [], presets: [], current: "" };
  }

  // change changes what is kept. Another window may have changed other chats meanwhile, so it is read first. If there is
  // no room, the oldest chats go.
  function change(how) {
    const all = stored();
    how(all);
    for (;;) {
      try { localStorage.setItem(place, JSON.stringify(all)); break; } catch {
        if (!all.chats.length) break;
        all.chats.pop();
      }
    }
    listChats(all);
  }

  // gone returns the ids of chats that were deleted. They are kept so that other windows know.
  const gone = (all) => all.gone || [];

  // forget deletes chats.
  function forget(all, ids) {
    all.chats = all.chats.filter((c) => !ids.includes(c.id));
    all.gone = [...ids, ...gone(all)].slice(0, 4 * mostChats);
    all.current = chat.id;
  }

  const save = () => change((all) => {
    chat.settings = settings();
    chat.draft = prompt.value;
    chat.compare = by("compare").checked;
    // A chat that another window has deleted does not come back because this one still shows it.
    if (!gone(all).includes(chat.id) && (chat.lanes.some((l) => l.messages.length) || chat.draft)) {
      chat.at = Date.now();
      all.chats = [chat, ...all.chats.filter((c) => c.id !== chat.id)].slice(0, mostChats);
    }
    all.current = chat.id;
  });

  const fresh = () => ({ id: crypto.randomUUID?.() || String(Math.random()), title: "", lanes: [{ messages: [] }, { messages: [] }], draft: "" });

  // settings returns what the fields say. Credentials are never kept.
  function settings() {
    const all = {};
    for (const f of fields) if (f.type !== "password") all[f.id] = f.type === "checkbox" ? f.checked : f.value;
    return all;
  }

  function apply(all = {}) {
    for (const f of fields) {
      if (!(f.id in all)) continue;
      if (f.type === "checkbox") f.checked = all[f.id];
      else if (f.tagName !== "SELECT" || [...f.options].some((o) => o.value === all[f.id])) f.value = all[f.id];
    }
  }

  function listChats(all = stored()) {
    by("chats").replaceChildren(...[["", chat.title ? "" : "New chat"], ...all.chats.map((c) => [c.id, c.title || "Untitled"])].filter(([, text]) => text).map(([id, text]) => new Option(text, id, false, id === chat.id)));
    by("presets").replaceChildren(new Option("Choose a preset", ""), ...all.presets.map((p) => new Option(p.name, p.name)));
    by("delete-chat").disabled = !all.chats.some((c) => c.id === chat.id);
  }

  function show(c) {
    stop();
    chat = c;
    apply(c.settings);
    by("compare").checked = !!c.compare;
    prompt.value = c.draft || "";
    pictures = [];
    paint();
    listChats();
  }

  // ---- what is asked ----

  const mcp = () => by("mcp-url").value.trim();
  const modelOf = (lane) => by(lane ? "model-b" : "model").value;
  const active = () => by("compare").checked ? [0, 1] : [0];

  // functions parses the functions field. It shows the error beside the field and throws if the text is invalid.
  function functions() {
    const text = by("functions").value.trim(), wrong = by("functions-wrong");
    wrong.hidden = true;
    if (!text) return [];
    try {
      const list = JSON.parse(text);
      if (!Array.isArray(list)) throw new Error("functions must be an array: [ … ]");
      // A bare function is wrapped into a tool object, so that both notations work.
      return list.map((item) => item.type ? item : { type: "function", function: item });
    } catch (error) {
      wrong.textContent = "Invalid JSON: " + error.message;
      wrong.hidden = false;
      throw error;
    }
  }

  // bare returns a message as the API takes it, without what only this page knows.
  const bare = ({ role, content, tool_calls, tool_call_id }) => ({ role, content, ...(tool_calls && { tool_calls }), ...(tool_call_id && { tool_call_id }) });

  // request returns path and body of the next request of a lane. With an MCP server it is a response, which tells what
  // the server was asked; otherwise a chat completion. It throws if the functions are not valid JSON.
  function request(lane, messages = chat.lanes[lane].messages) {
    const tools = functions();
    const body = { model: modelOf(lane) };
    const system = by("system").value.trim(), effort = by("reasoning_effort").value, format = by("response_format").value;
    const number = (id) => by(id).value === "" ? undefined : Number(by(id).value);
    if (!mcp()) {
      body.messages = messages.map(bare);
      if (system) body.messages.unshift({ role: "system", content: system });
      for (const id of ["temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens"]) if (number(id) !== undefined) body[id] = number(id);
      if (effort) body.reasoning_effort = effort;
      if (format) body.response_format = { type: format };
      if (tools.length) body.tools = tools;
      if (by("stream").checked) { body.stream = true; body.stream_options = { include_usage: true }; }
      return { path: "/v1/chat/completions", door: "chat.completions", body };
    }
    if (system) body.instructions = system;
    body.input = messages.flatMap(items);
    const server = { type: "mcp", server_label: "tools", server_url: mcp(), require_approval: "never" };
    if (by("mcp-auth").value) server.headers = { Authorization: by("mcp-auth").value };
    body.tools = [...tools.map((t) => t.function ? { type: "function", ...t.function } : t), server];
    for (const id of ["temperature", "top_p"]) if (number(id) !== undefined) body[id] = number(id);
    if (number("max_tokens") !== undefined) body.max_output_tokens = number("max_tokens");
    if (effort) body.reasoning = { effort };
    if (format) body.text = { format: { type: format } };
    body.store = false;
    if (by("stream").checked) body.stream = true;
    return { path: "/v1/responses", door: "responses", body };
  }

  // items returns a message as items of a response.
  function items(m) {
    if (m.role === "tool") return [{ type: "function_call_output", call_id: m.tool_call_id, output: m.content }];
    const parts = typeof m.content === "string" ? [{ type: "text", text: m.content }] : m.content || [];
    const own = m.role === "assistant";
    const content = parts.map((p) => p.type === "image_url" ? { type: "input_image", image_url: p.image_url.url } : { type: own ? "output_text" : "input_text", text: p.text });
    return [
      ...(m.mcp || []).map((c) => ({ type: "mcp_call", id: c.id, server_label: c.server, name: c.name, arguments: c.arguments, output: c.output ?? null, error: c.error ?? null })),
      ...(content.length && (content[0].text !== "" || !own) ? [{ role: m.role, content }] : []),
      ...(m.tool_calls || []).map((c) => ({ type: "function_call", call_id: c.id, name: c.function.name, arguments: c.function.arguments })),
    ];
  }

  // showCode shows the request as programs. Credentials of the MCP server become a placeholder, and pictures are cut, so
  // that the program can be shared.
  function showCode() {
    let asked;
    try {
      const messages = [...chat.lanes[0].messages];
      if (prompt.value || !messages.length) messages.push({ role: "user", content: content(prompt.value || "Hello!") });
      asked = request(0, messages);
    } catch { return; }
    const text = JSON.stringify(asked.body, (key, value) => typeof value === "string" && value.startsWith("data:image/") ? value.slice(0, 40) + "…" : value);
    const body = JSON.parse(text);
    for (const tool of body.tools || []) if (tool.headers) tool.headers = { Authorization: "Bearer $MCP_TOKEN" };
    for (const [language, program] of Object.entries(window.sluiceSnippets(box.dataset.origin, asked.path, asked.door, body))) highlight(by("code-" + language), program, language);
  }

  // ---- what is shown ----

  // follow keeps the end of a talk in view while it grows, unless its reader has scrolled away from it.
  function follow(talk, grow) {
    const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 48;
    grow();
    if (atEnd) talk.scrollTop = talk.scrollHeight;
  }

  // paint shows the chat from its messages.
  function paint() {
    box.classList.toggle("two", by("compare").checked);
    lanes.forEach((lane, i) => {
      lane.hidden = !active().includes(i);
      const talk = lane.querySelector(".talk");
      talk.replaceChildren();
      const list = chat.lanes[i].messages;
      if (!list.length) talk.append(make("p", "empty", i ? "The same messages, answered by another model." : "Send a message to start. Enter sends, Shift+Enter begins a new line."));
      list.forEach((m, at) => { if (m.role !== "tool") talk.append(turn(i, m, at, at === list.length - 1)); });
      talk.scrollTop = talk.scrollHeight;
    });
    thumbs();
    showCode();
  }

  function fold(className, title, open, ...content) {
    const el = make("details", className);
    el.open = open;
    el.append(make("summary", "", title), ...content);
    return el;
  }

  const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

  function codeOf(text, language) {
    const pre = make("pre", "small");
    pre.tabIndex = 0;
    highlight(pre.appendChild(make("code")), text, language);
    return pre;
  }

  function button(text, label, press) {
    const b = make("button", "plain small", text);
    b.type = "button";
    b.setAttribute("aria-label", label);
    b.addEventListener("click", press);
    return b;
  }

  // turn is one message: of the reader, or of a model with what it thought, called and said.
  function turn(lane, m, at, last) {
    const el = make("div", "turn " + m.role);
    const head = el.appendChild(make("div", "by", m.role === "user" ? "You" : m.facts?.model || m.model || modelOf(lane)));
    if (m.role === "user") {
      const parts = typeof m.content === "string" ? [{ type: "text", text: m.content }] : m.content;
      for (const p of parts) {
        if (p.type === "text" && p.text) el.append(make("div", "text plain", p.text));
        if (p.type === "image_url") el.append(Object.assign(make("img", "shot"), { src: p.image_url.url, alt: "A picture that you sent" }));
      }
      const tools = head.appendChild(make("span", "tools"));
      if (lane === 0 || m.error) tools.append(button("Edit", "Edit this message", () => edit(at)));
      if (m.error) {
        el.append(make("div", "wrong", m.error));
        if (m.signin) el.append(Object.assign(make("a", "button small", "Sign in"), { href: "/signin?next=/dashboard/playground" }));
        tools.append(button("Retry", "Retry: send this message again", () => retry(lane)));
      }
      return el;
    }
    if (m.reasoning) el.append(fold("thought-box", m.facts || !last ? "Thinking" : "Thinking…", !!m.live && !m.content, make("div", "thought", m.reasoning)));
    for (const c of m.mcp || []) {
      const state = c.error ? "failed" : c.output === undefined ? "running" : "done";
      const card = fold("call", "", false, make("div", "label", "Arguments"), codeOf(pretty(c.arguments || "{}"), "json"), make("div", "label", c.error ? "Error" : "Result"), codeOf(pretty(String((c.error?.message ?? c.error) || c.output || "…")), "json"));
      card.firstChild.append(make("span", "badge " + (c.error ? "bad" : state === "done" ? "good" : ""), state), " MCP ", make("code", "", c.server + " / " + c.name));
      el.append(card);
    }
    if (m.content) el.appendChild(make("div", "text")).append(markdown(m.content));
    if (m.tool_calls) el.append(calls(lane, m, at));
    if (m.facts) {
      const tools = head.appendChild(make("span", "tools"));
      el.append(make("div", "small muted facts-line", factsOf(m)));
      tools.append(button("Copy", "Copy this reply", (event) => { navigator.clipboard?.writeText(m.content || ""); event.target.textContent = "Copied"; }));
      if (last) tools.append(button("Retry", "Retry: ask for another reply", () => retry(lane)));
    }
    return el;
  }

  // calls shows the calls of functions, each with its result or a field for it.
  function calls(lane, m, at) {
    const form = make("form", "stack");
    const results = new Map(chat.lanes[lane].messages.slice(at + 1).filter((x) => x.role === "tool").map((x) => [x.tool_call_id, x.content]));
    let open = false;
    for (const call of m.tool_calls) {
      const card = form.appendChild(make("div", "call"));
      const head = card.appendChild(make("div", "row"));
      head.append(make("span", "badge accent", "function"), make("code", "", call.function.name));
      card.append(codeOf(pretty(call.function.arguments), "json"));
      if (results.has(call.id)) {
        card.append(make("div", "label", "Result"), codeOf(pretty(results.get(call.id)), "json"));
        continue;
      }
      if (!m.facts) continue;
      open = true;
      const label = card.appendChild(make("label", "", "Result"));
      const field = label.appendChild(make("textarea", "code"));
      field.name = call.id;
      field.value = '{"ok": true}';
    }
    if (open) form.append(make("button", "", "Send results"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (running) return;
      for (const call of m.tool_calls) if (form.elements[call.id]) chat.lanes[lane].messages.push({ role: "tool", tool_call_id: call.id, content: form.elements[call.id].value });
      ask([lane]);
    });
    return form;
  }

  const seconds = (ms) => ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(ms < 10_000 ? 2 : 1) + " s";

  // factsOf says what a reply took: time to the first token, speed, tokens and what they are worth.
  function factsOf(m) {
    const f = m.facts, out = [];
    if (f.first !== undefined) out.push("first token " + seconds(f.first));
    out.push("total " + seconds(f.total));
    if (f.usage) {
      const wrote = f.total - (f.first ?? 0);
      if (f.first !== undefined && wrote > 50 && f.usage.output > 1) out.push(Math.round(f.usage.output * 1000 / wrote) + " tokens/s");
      out.push(f.usage.input + " in", f.usage.output + " out" + (f.usage.reasoning ? " (" + f.usage.reasoning + " thinking)" : ""));
      const cost = worth(f.model, f.usage);
      out.push(cost === null ? "no list price" : "$" + cost.toFixed(6).replace(/0{1,4}$/, "") + " at list price");
    }
    if (f.stopped) out.push("stopped");
    if (f.id) out.push(f.id);
    return out.join(" · ");
  }

  // worth returns what tokens cost at the list price of a model, in dollars; null if it has none. Prices are in
  // millionths of a dollar for a million tokens.
  function worth(model, u) {
    const p = models[model]?.price;
    if (!p) return null;
    return ((u.input - u.cached) * p.input + u.cached * (p.cached ?? p.input) + (u.output - u.reasoning) * p.output + u.reasoning * (p.reasoning ?? p.output)) / 1e12;
  }

  // ---- asking ----

  // Reply collects a reply as it arrives and shows it, at most once a frame.
  class Reply {
    constructor(lane) {
      this.lane = lane;
      this.talk = lanes[lane].querySelector(".talk");
      this.message = { role: "assistant", content: "", live: true, model: modelOf(lane) };
      this.began = performance.now(); // before the request is sent
      chat.lanes[lane].messages.push(this.message);
      this.chat = chat;
      follow(this.talk, () => this.talk.append(this.el = turn(lane, this.message, -1, true)));
    }
    touch() {
      this.first ??= performance.now() - this.began;
      this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.paint(); });
    }
    paint() {
      if (this.chat !== chat || !this.el.isConnected) return;
      follow(this.talk, () => {
        const list = chat.lanes[this.lane].messages;
        const next = turn(this.lane, this.message, list.indexOf(this.message), list.at(-1) === this.message);
        // What the reader has folded or unfolded stays so.
        const now = next.querySelectorAll("details");
        this.el.querySelectorAll("details").forEach((d, i) => { if (now[i] && d.dataset.touched) { now[i].open = d.open; now[i].dataset.touched = "yes"; } });
        this.el.replaceWith(next);
        this.el = next;
        next.addEventListener("click", (event) => { const d = event.target.closest("summary")?.parentElement; if (d) d.dataset.touched = "yes"; });
      });
    }
    // add appends one delta of a chat completion, or the message of one that is not streamed.
    add(delta) {
      const m = this.message;
      if (delta.reasoning_content) m.reasoning = (m.reasoning || "") + delta.reasoning_content;
      if (delta.content) m.content += delta.content;
      for (const [i, piece] of (delta.tool_calls || []).entries()) {
        const call = (m.tool_calls ||= [])[piece.index ?? i] ||= { id: "", type: "function", function: { name: "", arguments: "" } };
        if (piece.id) call.id = piece.id;
        if (piece.function?.name) call.function.name = piece.function.name;
        call.function.arguments += piece.function?.arguments || "";
      }
      if (delta.reasoning_content || delta.content || delta.tool_calls) this.touch();
    }
    // event takes an event of a response.
    event(e) {
      const m = this.message;
      switch (e.type) {
        case "response.output_text.delta": case "response.refusal.delta": m.content += e.delta; break;
        case "response.reasoning_summary_text.delta": m.reasoning = (m.reasoning || "") + e.delta; break;
        case "response.output_item.added": case "response.output_item.done":
          if (!/_call$/.test(e.item.type)) return; // texts come as deltas
          this.item(e.item, e.type.endsWith("done"));
          break;
        default: return;
      }
      this.touch();
    }
    // item takes an item of a response: a call of the service or of the model.
    item(item, done) {
      const m = this.message;
      if (item.type === "mcp_call") {
        const list = m.mcp ||= [];
        const call = { id: item.id, server: item.server_label, name: item.name, arguments: item.arguments, ...(done && { output: item.output ?? "", error: item.error ?? undefined }) };
        const at = list.findIndex((c) => c.id === item.id);
        if (at < 0) list.push(call); else list[at] = call;
        if (m.content && !m.content.endsWith("\n\n")) m.content += "\n\n";
      } else if (item.type === "function_call" && done) {
        (m.tool_calls ||= []).push({ id: item.call_id, type: "function", function: { name: item.name, arguments: item.arguments } });
      }
    }
    // whole takes a response that is not streamed.
    whole(r) {
      for (const item of r.output) {
        if (item.type === "message") this.message.content += item.content.map((c) => c.text ?? c.refusal ?? "").join("");
        else if (item.type === "reasoning") this.message.reasoning = item.summary.map((s) => s.text).join("\n\n");
        else this.item(item, true);
      }
    }
    finish(model, usage, id, stopped) {
      const m = this.message;
      cancelAnimationFrame(this.frame);
      delete m.live;
      const u = usage && {
        input: usage.prompt_tokens ?? usage.input_tokens, output: usage.completion_tokens ?? usage.output_tokens,
        cached: (usage.prompt_tokens_details ?? usage.input_tokens_details)?.cached_tokens || 0,
        reasoning: (usage.completion_tokens_details ?? usage.output_tokens_details)?.reasoning_tokens || 0,
      };
      m.facts = { model: model || m.model, first: this.first, total: performance.now() - this.began, usage: u, id, stopped };
      if (stopped && !m.content && m.tool_calls) delete m.tool_calls; // arguments that were cut off cannot be answered
    }
    // fail takes the turn out of the conversation: the message that caused it is marked and not sent again by itself.
    fail(text, signin) {
      const list = this.chat.lanes[this.lane].messages;
      const at = list.indexOf(this.message);
      if (at >= 0) list.splice(at);
      const last = list.at(-1);
      if (last?.role === "user") { last.error = text; if (signin) last.signin = true; }
      else list.push({ role: "user", content: "", error: text });
    }
  }

  async function one(lane) {
    const asked = request(lane);
    const reply = new Reply(lane);
    const { signal } = running;
    let model, usage, id;
    try {
      const response = await fetch("/dashboard" + asked.path, {
        method: "POST", headers: { "Content-Type": "application/json", "x-sluice-resume": "1" }, body: JSON.stringify(asked.body), signal,
      });
      id = response.headers.get("x-request-id");
      if (!response.ok) {
        const { error } = await response.json().catch(() => ({ error: { message: "The server replied with status " + response.status + "." } }));
        reply.fail(error.message, response.status === 401 && error.type === "authentication_error");
        return;
      }
      if (!asked.body.stream) {
        const whole = await response.json();
        reply.touch();
        if (whole.output) reply.whole(whole); else reply.add(whole.choices[0].message);
        delete reply.first; // nothing is known of it
        reply.finish(whole.model, whole.usage, id);
        return;
      }
      let complete = false;
      for await (const data of events(response, signal)) {
        if (data === "[DONE]") { complete = true; break; }
        const chunk = JSON.parse(data);
        const problem = chunk.error || chunk.response?.error;
        if (problem) throw new Error(problem.message);
        if (chunk.type) {
          reply.event(chunk);
          if (["response.completed", "response.incomplete"].includes(chunk.type)) { complete = true; ({ model, usage } = chunk.response); break; }
          continue;
        }
        model = chunk.model || model;
        usage = chunk.usage || usage;
        for (const choice of chunk.choices) reply.add(choice.delta);
      }
      if (!complete) throw new Error("The response was cut off.");
      reply.finish(model, usage, id);
    } catch (error) {
      if (error.name === "AbortError" && reply.first !== undefined) reply.finish(model, usage, id, true);
      else reply.fail(error.name === "AbortError" ? "Stopped before the reply began." : error.message === "Failed to fetch" ? "The server cannot be reached. Check your connection and try again." : error.message);
    }
  }

  // ask sends the conversation of each lane and shows the replies.
  async function ask(which = active()) {
    try { functions(); } catch (error) {
      by("tools-fold").open = true;
      say("The functions are not valid JSON. Correct them under Tools, or empty the field.");
      by("functions").focus();
      return false;
    }
    say("");
    running = new AbortController();
    by("send").hidden = true;
    by("stop").hidden = false;
    paint();
    const mine = chat;
    await Promise.all(which.map(one));
    running = null;
    by("send").hidden = false;
    by("stop").hidden = true;
    if (mine !== chat) return true;
    const scrolled = lanes.map((l) => { const t = l.querySelector(".talk"); return t.scrollHeight - t.scrollTop - t.clientHeight < 48 ? null : t.scrollTop; });
    paint();
    lanes.forEach((l, i) => { if (scrolled[i] !== null) l.querySelector(".talk").scrollTop = scrolled[i]; });
    save();
    prompt.focus();
    return true;
  }

  const say = (text) => { by("said").textContent = text; };

  // events yields what the events of a stream say. If the connection breaks, it continues after the last event.
  async function* events(response, signal) {
    const at = response.headers.get("x-sluice-resume");
    let id = "", last = "";
    const end = () => { fetch("/dashboard" + at, { method: "DELETE", headers: { "Last-Event-ID": last }, keepalive: true }).catch(() => {}); };
    if (at) ends.add(end);
    try {
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
        response = await rest(at, last, signal);
      }
    } finally {
      ends.delete(end);
    }
  }

  // rest asks for the rest of a stream until the server can be reached again, for as long as it keeps the call.
  async function rest(at, last, signal) {
    for (let pause = 100, until = Date.now() + 120_000; ; pause = Math.min(2 * pause, 5000)) {
      const response = await fetch("/dashboard" + at, { headers: { "Last-Event-ID": last }, signal }).catch((error) => { if (signal.aborted) throw error; });
      if (response?.ok) return response;
      if (response && response.status < 500 || Date.now() > until) throw new Error("The response was cut off.");
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  const content = (text) => pictures.length ? [...(text ? [{ type: "text", text }] : []), ...pictures.map((url) => ({ type: "image_url", image_url: { url } }))] : text;

  // clean drops what did not succeed from the end of a lane, and answers calls that nobody has answered: the API rejects
  // a conversation in which a call has no result.
  function clean(list) {
    while (list.at(-1)?.error) list.pop();
    const last = list.at(-1);
    if (last?.tool_calls) for (const call of last.tool_calls) list.push({ role: "tool", tool_call_id: call.id, content: "no result" });
  }

  async function send() {
    const text = prompt.value.trim();
    if ((!text && !pictures.length) || running) return;
    try { functions(); } catch { await ask(); return; } // it says what is wrong; nothing is lost
    for (const lane of active()) {
      const list = chat.lanes[lane].messages;
      clean(list);
      list.push({ role: "user", content: content(text) });
    }
    chat.title ||= text.slice(0, 60) || "A picture";
    if (gone(stored()).includes(chat.id)) chat.id = fresh().id; // whoever goes on with a deleted chat wants one
    prompt.value = "";
    pictures = [];
    for (const l of lanes) { const t = l.querySelector(".talk"); t.scrollTop = t.scrollHeight; }
    save();
    await ask();
  }

  // edit takes a message and all that follows out of the conversation and puts its text into the field.
  function edit(at) {
    if (running) return;
    const m = chat.lanes[0].messages[at] || chat.lanes[1].messages[at];
    const nth = chat.lanes[0].messages.slice(0, at).filter((x) => x.role === "user").length;
    for (const lane of chat.lanes) {
      let seen = 0;
      const cut = lane.messages.findIndex((x) => x.role === "user" && seen++ === nth);
      if (cut >= 0) lane.messages.splice(cut);
    }
    const parts = typeof m.content === "string" ? [{ type: "text", text: m.content }] : m.content;
    prompt.value = parts.filter((p) => p.type === "text").map((p) => p.text).join("\n");
    pictures = parts.filter((p) => p.type === "image_url").map((p) => p.image_url.url);
    paint();
    save();
    prompt.focus();
  }

  // retry asks again: for another reply, or after a failure.
  function retry(lane) {
    if (running) return;
    const list = chat.lanes[lane].messages;
    if (list.at(-1)?.role === "assistant") list.pop();
    const last = list.at(-1);
    if (last) { delete last.error; delete last.signin; }
    if (last?.role === "user" && last.content === "") list.pop();
    ask([lane]);
  }

  // ---- pictures ----

  const mostPixels = 1536, mostPictures = 6;

  // attach adds pictures, made smaller if they are large: the browser keeps them with the chat.
  async function attach(files) {
    for (const file of [...files].filter((f) => f.type.startsWith("image/")).slice(0, mostPictures - pictures.length)) {
      try {
        const map = await createImageBitmap(file);
        const scale = Math.min(1, mostPixels / Math.max(map.width, map.height));
        const canvas = make("canvas");
        canvas.width = Math.round(map.width * scale);
        canvas.height = Math.round(map.height * scale);
        canvas.getContext("2d").drawImage(map, 0, 0, canvas.width, canvas.height);
        pictures.push(canvas.toDataURL(file.type === "image/png" && file.size < 300_000 ? "image/png" : "image/jpeg", 0.85));
      } catch { say(file.name + " cannot be read as a picture."); }
    }
    thumbs();
    showCode();
  }

  function thumbs() {
    by("thumbs").replaceChildren(...pictures.map((url, i) => {
      const b = make("button", "thumb");
      b.type = "button";
      b.setAttribute("aria-label", "Remove picture " + (i + 1));
      b.append(Object.assign(make("img"), { src: url, alt: "" }));
      b.addEventListener("click", () => { pictures.splice(i, 1); thumbs(); showCode(); });
      return b;
    }));
    const can = active().every((l) => models[modelOf(l)]?.images);
    by("attach").disabled = !can;
    by("attach").title = can ? "Add pictures" : "This model takes no pictures";
  }

  // ---- the page ----

  by("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); by("ask").requestSubmit(); }
  });
  prompt.addEventListener("paste", (event) => { if (event.clipboardData.files.length && !by("attach").disabled) { event.preventDefault(); attach(event.clipboardData.files); } });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
  by("stop").addEventListener("click", stop);
  addEventListener("pagehide", stop);
  by("attach").addEventListener("click", () => by("file").click());
  by("file").addEventListener("change", () => { attach(by("file").files); by("file").value = ""; });
  by("clear").addEventListener("click", () => { save(); const settled = settings(), compare = by("compare").checked; show({ ...fresh(), settings: settled, compare }); change((all) => { all.current = chat.id; }); prompt.focus(); });
  by("chats").addEventListener("change", () => { const next = stored().chats.find((c) => c.id === by("chats").value); if (next) { save(); show(next); change((all) => { all.current = chat.id; }); } });
  by("delete-chat").addEventListener("click", () => { const id = chat.id; clearTimeout(waiting); waiting = 0; show(fresh()); change((all) => forget(all, [id])); });
  by("delete-all").addEventListener("click", () => { clearTimeout(waiting); waiting = 0; show(fresh()); change((all) => forget(all, all.chats.map((c) => c.id))); });
  by("presets").addEventListener("change", () => {
    const preset = stored().presets.find((p) => p.name === by("presets").value);
    if (preset) { apply(preset.settings); by("preset-name").value = preset.name; paint(); save(); by("presets").value = preset.name; }
  });
  by("save-preset").addEventListener("click", () => {
    const name = by("preset-name").value.trim();
    if (!name) { by("preset-name").focus(); return; }
    change((all) => { all.presets = [{ name, settings: settings() }, ...all.presets.filter((p) => p.name !== name)].slice(0, mostPresets); });
    by("presets").value = name;
  });
  by("delete-preset").addEventListener("click", () => change((all) => { all.presets = all.presets.filter((p) => p.name !== by("presets").value); }));
  by("sample").addEventListener("click", () => {
    by("functions").value = JSON.stringify([{
      name: "get_weather", description: "The weather in a city now",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    }], null, 2);
    showCode();
    save();
  });
  let waiting;
  box.addEventListener("input", (event) => {
    if (!event.target.matches("[data-setting], #prompt, #compare")) return;
    if (event.target.matches("#compare, #model, #model-b") && !running) paint(); else showCode();
    clearTimeout(waiting);
    waiting = setTimeout(() => { waiting = 0; save(); }, 400);
  });
  addEventListener("pagehide", () => { if (waiting) save(); });
  addEventListener("storage", (event) => { if (event.key === place) listChats(); });

  // The chat of before, unless the address asks for a model.
  const all = stored(), wanted = new URLSearchParams(location.search).get("model");
  show(wanted ? fresh() : all.chats.find((c) => c.id === all.current) || fresh());
})();
