// A conversation as its reader sees it: messages, calls of tools, what a reply took, and what went wrong with what to do
// about it.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};
  const { markdown, highlight, make } = window.sluiceText;

  // follow keeps the end of a talk in view while it grows, unless its reader has scrolled away from it.
  play.follow = (talk, grow) => {
    const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 48;
    grow();
    if (atEnd) talk.scrollTop = talk.scrollHeight;
  };

  function fold(className, title, open, ...content) {
    const el = make("details", className);
    el.open = open;
    el.append(make("summary", "", title), ...content);
    return el;
  }

  // copy puts a text on the clipboard and says so on a button. Over plain HTTP there is no clipboard API.
  play.copy = async (text, b) => {
    try { await navigator.clipboard.writeText(text); } catch {
      const field = b.parentElement.appendChild(Object.assign(make("textarea", "sr"), { value: text }));
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    b.textContent = "Copied";
  };

  const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

  function codeOf(text, language) {
    const pre = make("pre", "small");
    pre.tabIndex = 0;
    highlight(pre.appendChild(make("code")), text, language);
    return pre;
  }

  // button makes a button. press may be an address, to which it then leads.
  function button(text, label, press, className = "plain small") {
    const b = make(typeof press === "string" ? "a" : "button", (typeof press === "string" ? "button " : "") + className, text);
    if (typeof press === "string") b.href = press;
    else { b.type = "button"; b.addEventListener("click", press); }
    if (label) b.setAttribute("aria-label", label);
    return b;
  }
  play.button = button;

  // turn is one message: of the reader, or of a model with what it thought, called and said. view says where it stands:
  // lane, at, last, model (of the lane), others (models to retry with) and busy; do has what its buttons do.
  play.turn = (m, view, act) => {
    const el = make("article", "turn " + m.role);
    const head = el.appendChild(make("div", "by", m.role === "user" ? "You" : m.facts?.model || m.model || view.model));
    const tools = make("span", "tools");
    if (m.role === "user") {
      const parts = play.partsOf(m.content);
      const said = parts.filter((p) => p.type === "text" && !p.name).map((p) => p.text).join("\n");
      const files = parts.filter((p) => p.type !== "text" || p.name);
      if (files.length) el.appendChild(make("div", "files")).append(...files.map((p, i) => play.chip(p, i + 1)));
      if (said) el.append(make("div", "text plain", said));
      if (m.error) el.append(problem(m, act));
      if (!view.busy) {
        tools.append(button("Edit", "Edit this message", () => edit(el, m, said, act)));
        if (!m.error) tools.append(button("Fork", "Fork: begin a new chat from here", act.fork));
      }
      head.append(tools);
      return el;
    }
    if (m.reasoning) el.append(fold("thought-box", m.live && !m.content ? "Thinking…" : "Thinking", !!m.live && !m.content, make("div", "thought", m.reasoning)));
    for (const c of m.mcp || []) el.append(served(c));
    if (m.content) el.appendChild(make("div", "text")).append(markdown(m.content));
    else if (m.live && !m.reasoning && !m.mcp) el.append(make("div", "waiting", m.again ? "Continuing the reply…" : "Waiting for the first word…"));
    if (m.tool_calls) el.append(calls(m, view, act));
    if (!m.facts) return el;
    if (m.versions?.length > 1 && view.last) {
      const n = m.versions.length;
      tools.append(button("‹", "Earlier reply", () => act.version((m.version + n - 1) % n)), make("span", "small muted", m.version + 1 + " / " + n), button("›", "Later reply", () => act.version((m.version + 1) % n)));
    }
    if (m.content) tools.append(button("Copy", "Copy this reply", (event) => play.copy(m.content, event.target)));
    if (!view.busy) {
      tools.append(button("Fork", "Fork: begin a new chat from here", act.fork));
      if (view.last) tools.append(button("Retry", "Retry: ask for another reply", () => act.retry()), retryWith(view, act));
    }
    el.append(factsOf(m, view.prices), tools);
    return el;
  };

  // retryWith asks another model for the reply.
  function retryWith(view, act) {
    const select = make("select", "retry-with");
    select.setAttribute("aria-label", "Retry with another model");
    select.append(new Option("Retry with…", ""), ...view.others.map((id) => new Option(id, id)));
    select.addEventListener("change", () => { if (select.value) act.retry(select.value); });
    return select;
  }

  // edit replaces a message by a field with its text.
  function edit(el, m, said, act) {
    const form = make("form", "edit"), field = make("textarea");
    field.value = said;
    field.setAttribute("aria-label", "Edit your message");
    const save = make("button", "primary small", "Send");
    const cancel = button("Cancel", "", () => act.paint(), "small");
    form.append(field, make("p", "small muted", "The replies after it are replaced. Fork first to keep them."), make("div", "row end"));
    form.lastChild.append(cancel, save);
    form.addEventListener("submit", (event) => { event.preventDefault(); act.edit(field.value.trim()); });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
      if (event.key === "Escape") { event.stopPropagation(); act.paint(); }
    });
    el.querySelector(".text")?.remove();
    el.querySelector(".tools").remove();
    el.append(form);
    field.focus();
  }

  // problem says why a message has no reply, and offers what helps.
  function problem(m, act) {
    const box = make("div", "problem");
    box.append(make("div", "wrong", m.error));
    const row = box.appendChild(make("div", "row"));
    const why = m.why || {};
    const retry = button("Retry", "Retry: send this message again", () => act.retry(), "small primary");
    const offer = (text, to) => row.append(button(text, "", to, "small"));
    if (why.status === 401 && why.type === "authentication_error") offer("Sign in", "/signin?next=/dashboard/playground");
    else if (why.status === 401) offer("Contact support", "/dashboard/messages/new?kind=restore");
    else if (why.status === 423) offer("Contact support", "/dashboard/messages/new");
    else if (why.type === "budget_exceeded") offer("Budgets", "/dashboard/budgets");
    else if (why.status === 402 || why.status === 403) offer("See plans", "/dashboard/plan");
    else if (why.status === 413) offer("New chat", act.fresh);
    if (why.long) {
      row.append(button("Drop the oldest messages", "", act.trim, "small primary"));
      offer("New chat", act.fresh);
    }
    if (why.status === 429) {
      countdown(retry, why.until);
      offer("See plans", "/dashboard/plan");
    }
    row.prepend(retry);
    return box;
  }

  // countdown keeps a button from being pressed before a time.
  function countdown(b, until) {
    const left = Math.ceil(((until || 0) - Date.now()) / 1000);
    b.disabled = left > 0;
    b.textContent = left > 0 ? `Retry in ${left} s` : "Retry";
    if (left > 0) setTimeout(() => { if (b.isConnected) countdown(b, until); }, 250);
  }

  // served shows a call of a tool on an MCP server.
  function served(c) {
    const state = c.error ? "failed" : c.output === undefined ? "running" : "done";
    const card = fold("call", "", false, make("div", "label", "Arguments"), codeOf(pretty(c.arguments || "{}"), "json"), make("div", "label", c.error ? "Error" : "Result"), codeOf(pretty(String((c.error?.message ?? c.error) || c.output || "…")), "json"));
    card.firstChild.append(make("span", "badge " + (c.error ? "bad" : state === "done" ? "good" : ""), state), " MCP ", make("code", "", c.server + " / " + c.name));
    return card;
  }

  // calls shows the calls of functions, each with its result or a field for it.
  function calls(m, view, act) {
    const form = make("form", "stack");
    let open = false;
    for (const call of m.tool_calls) {
      const card = form.appendChild(make("div", "call"));
      const head = card.appendChild(make("div", "row"));
      head.append(make("span", "badge accent", "function"), make("code", "", call.function.name));
      card.append(codeOf(pretty(call.function.arguments), "json"));
      if (view.results.has(call.id)) {
        card.append(make("div", "label", "Result"), codeOf(pretty(view.results.get(call.id)), "json"));
        continue;
      }
      if (!m.facts || view.busy) continue;
      open = true;
      const label = card.appendChild(make("label", "", "Result"));
      const field = label.appendChild(make("textarea", "code"));
      field.name = call.id;
      field.value = act.resultFor(call.function.name);
    }
    if (open) form.append(make("p", "small muted", "The model waits for what your function returns."), make("button", "", "Send results"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      act.results(m.tool_calls.filter((call) => form.elements[call.id]).map((call) => ({ role: "tool", tool_call_id: call.id, content: form.elements[call.id].value })));
    });
    return form;
  }

  const seconds = (ms) => ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(ms < 10_000 ? 2 : 1) + " s";

  // factsOf says what a reply took: time to the first token, speed, tokens and what they are worth.
  function factsOf(m, prices) {
    const f = m.facts, out = [], line = make("div", "small muted facts-line");
    if (f.first !== undefined) out.push("first token " + seconds(f.first));
    if (f.total !== undefined) out.push("total " + seconds(f.total));
    if (f.usage) {
      const u = f.usage, wrote = f.total - (f.first ?? 0);
      if (f.first !== undefined && wrote > 50 && u.output > 1) out.push(Math.round(u.output * 1000 / wrote) + " tokens/s");
      out.push(u.input.toLocaleString("en") + " in" + (u.cached ? ` (${u.cached.toLocaleString("en")} cached)` : ""), u.output.toLocaleString("en") + " out" + (u.reasoning ? ` (${u.reasoning.toLocaleString("en")} thinking)` : ""));
      const cost = worth(prices[f.model]?.price, u);
      out.push(u.cost !== undefined ? dollars(u.cost) : cost === null ? "no list price" : dollars(cost) + " at list price");
    }
    if (f.stopped) out.push("stopped");
    line.textContent = out.join(" · ");
    if (f.id) line.append(" · ", Object.assign(make("a", "", "request"), { href: "/dashboard/activity/requests/" + encodeURIComponent(f.id) }));
    return line;
  }

  const dollars = (n) => "$" + Number(n).toFixed(6).replace(/0{1,4}$/, "");

  // worth returns what tokens cost at a list price, in dollars; null if there is none. Prices are in millionths of a
  // dollar for a million tokens.
  function worth(p, u) {
    if (!p) return null;
    return ((u.input - u.cached) * p.input + u.cached * (p.cached ?? p.input) + (u.output - u.reasoning) * p.output + u.reasoning * (p.reasoning ?? p.output)) / 1e12;
  }
})();
