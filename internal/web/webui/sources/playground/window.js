// The window of the playground: which chat it shows, and what its buttons do.
(async () => {
  "use strict";

  const box = document.getElementById("playground");
  if (!box) return;
  const play = window.sluicePlay;
  const { make, highlight } = window.sluiceText;
  const by = (id) => document.getElementById(id);
  const models = JSON.parse(box.dataset.models);
  const prompt = by("prompt"), shareForm = by("share-form"), fields = [...box.querySelectorAll("[data-setting]")]; // no shareForm: the operator has turned sharing off
  const mostLanes = 4, mostPresets = 20, pageTitle = document.title;
  const kept = await play.openChats(box.dataset.account);
  let chat, parts = []; // the chat that is shown, and the files of the message that is being written
  const replies = new Map(); // by the id of their chat: a set of those under way, which go on while another chat is shown
  const undone = { gone: null, timer: 0 };

  if (kept.fleeting) by("where").textContent = "This browser does not store data for this page. Your chats are lost when you leave it.";

  // ---- chats ----

  const fresh = (settings = {}, lanes = [{ model: "" }]) => ({ id: crypto.randomUUID?.() || String(Math.random()), title: "", lanes: lanes.map((l) => ({ model: l.model, messages: [] })), settings, draft: "" });
  const underWay = (c = chat) => [...replies.get(c.id) || []];
  const empty = (c) => !c.lanes.some((l) => l.messages.length);

  function settings() {
    const all = {};
    for (const f of fields) all[f.id] = f.type === "checkbox" ? f.checked : f.value;
    return { ...all, ...tools.chosen() };
  }

  function apply(all = {}) {
    for (const f of fields) {
      if (!(f.id in all)) continue;
      if (f.type === "checkbox") f.checked = all[f.id];
      else if (f.tagName !== "SELECT" || [...f.options].some((o) => o.value === all[f.id])) f.value = all[f.id];
    }
    tools.use(all);
  }

  // save keeps a chat. What was kept of the one that is shown includes its settings and its draft.
  let failing = false;
  async function save(c = chat) {
    if (c === chat) {
      clearTimeout(waiting);
      waiting = 0;
      c.settings = settings();
      c.draft = prompt.value;
    }
    if (empty(c) && !c.draft && !c.kept) return;
    c.at = Date.now();
    try {
      const was = c.kept;
      await kept.save(c);
      if (!was && c === chat) address("replaceState");
      await listChats();
      failing = false;
    } catch {
      if (!failing) say("This browser could not save the chat. Its storage may be full: delete chats that you no longer need.");
      failing = true;
    }
  }
  let waiting;
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(() => save(), 400); };

  // address makes the address of the window that of the chat, so that Back, links and a reload lead to it.
  const address = (how) => history[how]({ chat: chat.id }, "", chat.kept ? "?chat=" + encodeURIComponent(chat.id) : location.pathname);

  // show shows a chat. How says what becomes of the address.
  function show(c, how) {
    chat = c;
    apply(c.settings);
    prompt.value = c.draft || "";
    parts = [];
    say("");
    if (how) address(how);
    kept.keep("current", c.id);
    paint();
    listChats();
    for (const [lane, l] of c.lanes.entries()) if (l.messages.at(-1)?.live && !underWay(c).some((r) => r.lane === lane)) resume(c, lane);
  }

  // open shows a chat by its id, and reports whether it is there.
  async function open(id, how) {
    if (id === chat?.id) return true;
    if (waiting) await save();
    const next = underWay({ id })[0]?.chat || await kept.load(id);
    if (!next) return false;
    show(next, how);
    return true;
  }

  async function begin(next = fresh(settings(), chat.lanes)) {
    if (waiting) await save();
    show(next, "pushState");
    uncover("chats");
    prompt.focus();
  }

  const day = 86_400_000;
  function period(head) {
    if (head.pinned) return "Pinned";
    const days = Math.floor((new Date().setHours(24, 0, 0, 0) - head.at) / day);
    return days < 1 ? "Today" : days < 2 ? "Yesterday" : days < 8 ? "Last 7 days" : days < 31 ? "Last 30 days" : "Older";
  }

  let listing = 0;
  async function listChats() {
    const mine = ++listing;
    const heads = await kept.list();
    if (mine !== listing || by("chats").querySelector("form")) return; // a later list is on its way, or a chat is being renamed
    const wanted = by("find").value.trim().toLowerCase().split(/\s+/);
    const found = heads.filter((h) => wanted.every((word) => h.words.includes(word)));
    const open = by("chats").querySelector("details[open]")?.dataset.id, rows = [];
    let last = "";
    for (const head of found) {
      if (period(head) !== last) rows.push(make("h2", "label", last = period(head)));
      rows.push(chatRow(head, head.id === open));
    }
    if (!found.length) rows.push(make("p", "small muted", heads.length ? "No chats match." : "Your chats appear here."));
    by("chats").replaceChildren(...rows);
    by("delete-all").hidden = !heads.length;
    const here = heads.find((h) => h.id === chat.id);
    const title = here?.title || chat.title;
    by("title").textContent = title || (chat.kept ? "Untitled" : "New chat");
    document.title = title ? title + " · " + pageTitle : pageTitle;
    const presets = await kept.thing("presets", []), chosen = by("presets").value;
    by("presets").replaceChildren(new Option("Choose a preset", ""), ...presets.map((p) => new Option(p.name, p.name)));
    if (presets.some((p) => p.name === chosen)) by("presets").value = chosen;
  }

  function chatRow(head, opened) {
    const el = make("div", "chat-row"), name = head.title || "Untitled";
    const link = el.appendChild(make("a", "", name));
    link.href = "?chat=" + encodeURIComponent(head.id);
    link.title = name;
    if (head.id === chat.id) link.setAttribute("aria-current", "page");
    if (underWay(head).length) link.append(make("span", "busy"), make("span", "sr", " is being answered"));
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(head.id, "pushState");
      uncover("chats");
    });
    const menu = el.appendChild(make("details"));
    menu.dataset.id = head.id;
    menu.open = opened;
    const dots = menu.appendChild(make("summary", "", "⋯"));
    dots.setAttribute("aria-label", "Actions for " + name);
    const row = menu.appendChild(make("div", "row nowrap"));
    row.append(
      play.button("Rename", "", () => rename(el, head)),
      play.button(head.pinned ? "Unpin" : "Pin", "", async () => { await kept.change(head.id, { pinned: !head.pinned }); if (head.id === chat.id) chat.pinned = !head.pinned; menu.open = false; listChats(); }),
      play.button("Delete", "", () => remove([head.id]), "plain small danger"),
    );
    return el;
  }

  function rename(el, head) {
    const form = make("form"), input = form.appendChild(make("input"));
    input.value = head.title;
    input.maxLength = 100;
    input.setAttribute("aria-label", "Name of the chat");
    const end = async (title) => {
      form.remove();
      if (title && title !== head.title) await kept.change(head.id, { title, named: true });
      if (title && head.id === chat.id) chat.title = title;
      listChats();
    };
    form.addEventListener("submit", (event) => { event.preventDefault(); end(input.value.trim()); });
    input.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.stopPropagation(); end(""); } });
    el.replaceChildren(form);
    input.select();
  }

  // remove deletes chats. For some seconds they can be put back.
  async function remove(ids) {
    for (const id of ids) for (const r of underWay({ id })) r.stop();
    if (ids.includes(chat.id)) { clearTimeout(waiting); waiting = 0; show(fresh(settings(), chat.lanes), "pushState"); }
    undone.gone = await kept.remove(ids);
    clearTimeout(undone.timer);
    const name = undone.gone.length === 1 ? `“${undone.gone[0].chat.title || "Untitled"}”` : undone.gone.length + " chats";
    by("undo").replaceChildren(make("span", "", "Deleted " + name), play.button("Undo", "", async () => {
      await kept.restore(undone.gone);
      by("undo").replaceChildren();
      listChats();
    }, "small"));
    undone.timer = setTimeout(() => by("undo").replaceChildren(), 12_000);
    listChats();
  }

  // ---- what is shown ----

  const laneOf = (i) => by("lanes").children[i];
  const talkOf = (i) => laneOf(i)?.querySelector(".talk");
  const say = (text) => { by("said").textContent = text; };

  // paint shows the chat from its messages.
  function paint() {
    const template = by("lane").content.firstElementChild;
    while (by("lanes").children.length > chat.lanes.length) by("lanes").lastChild.remove();
    while (by("lanes").children.length < chat.lanes.length) by("lanes").append(template.cloneNode(true));
    by("lanes").className = "lanes of-" + chat.lanes.length;
    const several = chat.lanes.length > 1;
    chat.lanes.forEach((l, i) => {
      const el = laneOf(i), select = el.querySelector("[data-model]"), talk = talkOf(i);
      select.id = i ? "model-" + (i + 1) : "model";
      const label = several ? "Model " + (i + 1) : "Model";
      select.setAttribute("aria-label", label);
      talk.setAttribute("aria-label", "Messages, " + label);
      if (models[l.model]) select.value = l.model;
      l.model = select.value;
      el.querySelector(".lane-facts").textContent = aboutModel(l.model);
      el.querySelector("[data-remove]").hidden = !several;
      paintLane(i);
      talk.scrollTop = talk.scrollHeight;
    });
    by("add-model").disabled = chat.lanes.length >= mostLanes || underWay().length > 0;
    const busy = underWay().length > 0;
    by("send").hidden = busy;
    by("stop").hidden = !busy;
    if (shareForm) by("show-share").disabled = empty(chat) || busy;
    thumbs();
    showCode();
  }

  // aboutModel says what helps to choose a model. Prices are in millionths of a dollar for a million tokens.
  function aboutModel(id) {
    const m = models[id] || {}, dollars = (n) => "$" + (n / 1e6).toFixed(2);
    return [
      m.context && (m.context >= 1e6 ? (m.context / 1e6).toFixed(1).replace(".0", "") + "M" : Math.round(m.context / 1000) + "K") + " context",
      m.price && `${dollars(m.price.input)} in, ${dollars(m.price.output)} out per million tokens`, m.images && "images",
    ].filter(Boolean).join(" · ");
  }

  function paintLane(i) {
    const list = chat.lanes[i].messages, talk = talkOf(i);
    talk.replaceChildren(...list.flatMap((m, at) => m.role === "tool" ? [] : [turnOf(i, m, at)]));
    if (!list.length) talk.append(i ? make("p", "empty", "The same messages, answered by another model.") : suggestions());
  }

  const ideas = [
    ["Explain a regular expression", "Explain this regular expression step by step, and give two strings that match and two that do not: ^(?!.*\\.\\.)[\\w.+-]+@[\\w-]+\\.[a-z]{2,}$"],
    ["Turn text into JSON", "Extract name, date and amount from this text as a JSON object with those three keys:\n\nOn 3 May Ana Silva paid us 120 euros for the spring course."],
    ["Plan a migration", "We move a table of 200 million rows to another database without downtime. List the steps, and what can go wrong at each."],
    ["Write a query", "Write a SQL query for the three best-selling products of each month of this year, from the tables orders(id, created_at) and items(order_id, product, quantity). Show the result as a table with example rows."],
  ];
  function suggestions() {
    const el = make("div", "start");
    el.append(make("h2", "", "What would you like to try?"), make("p", "muted", "Calls from here count like those of your programs: the same models, limits and prices."));
    const list = el.appendChild(make("div", "ideas"));
    for (const [title, text] of ideas) {
      const b = list.appendChild(make("button", "idea"));
      b.type = "button";
      b.append(make("strong", "", title), make("span", "small muted", text));
      b.addEventListener("click", () => { prompt.value = text; prompt.focus(); soon(); });
    }
    return el;
  }

  // turnOf is one message with its buttons.
  function turnOf(lane, m, at) {
    const list = chat.lanes[lane].messages;
    const view = {
      model: chat.lanes[lane].model, prices: models, busy: underWay().length > 0, last: at === list.length - 1,
      others: Object.keys(models).filter((id) => id !== (m.facts?.model || m.model)),
      results: new Map(list.slice(at + 1).filter((x) => x.role === "tool").map((x) => [x.tool_call_id, x.content])),
    };
    return play.turn(m, view, {
      paint, resultFor: tools.resultFor,
      edit: (text) => edit(lane, at, text),
      retry: (model) => retry(lane, model),
      fork: () => fork(lane, at),
      fresh: () => begin(),
      trim: () => trim(lane),
      results: (all) => { if (!underWay().length) { list.push(...all); ask([lane]); } },
      version(i) {
        list[at] = { ...structuredClone(m.versions[i]), versions: m.versions, version: i };
        paint();
        save();
      },
    });
  }

  // ---- asking ----

  const requestOf = (c, lane, messages, model) => play.request(model, messages, c === chat ? settings() : c.settings, tools.functions(), tools.servers());

  const host = {
    save,
    // painted shows what has arrived of a reply.
    painted(reply) {
      if (reply.chat !== chat || !reply.el?.isConnected) return;
      play.follow(talkOf(reply.lane), () => {
        const list = chat.lanes[reply.lane].messages, next = turnOf(reply.lane, reply.message, list.indexOf(reply.message));
        // What the reader has folded or unfolded stays so.
        const now = next.querySelectorAll("details");
        reply.el.querySelectorAll("details").forEach((d, i) => { if (now[i] && d.dataset.touched) { now[i].open = d.open; now[i].dataset.touched = "yes"; } });
        reply.el.replaceWith(next);
        reply.el = next;
        next.addEventListener("click", (event) => { const d = event.target.closest("summary")?.parentElement; if (d) d.dataset.touched = "yes"; });
      });
    },
  };

  // run lets replies of a chat come in, and shows and keeps them at the end.
  async function run(c, all, work) {
    replies.set(c.id, new Set([...underWay(c), ...all]));
    if (c === chat) {
      say("");
      paint();
      for (const r of all) r.el = talkOf(r.lane)?.lastElementChild;
      by("announce").textContent = "The reply is being written.";
    }
    listChats();
    await Promise.all(all.map(async (r) => {
      await work(r);
      replies.get(c.id)?.delete(r);
    }));
    if (!underWay(c).length) replies.delete(c.id);
    if (c === chat) {
      const scrolled = c.lanes.map((_, i) => { const t = talkOf(i); return t.scrollHeight - t.scrollTop - t.clientHeight < 48 ? null : t.scrollTop; });
      paint();
      c.lanes.forEach((_, i) => { if (scrolled[i] !== null) talkOf(i).scrollTop = scrolled[i]; });
      say(all.map((r) => r.failed).filter(Boolean).join(" "));
      // Who hears the page gets each reply once, when it is whole.
      by("announce").textContent = all.map((r) => r.message.facts ? `${r.message.facts.model} replied: ${r.message.content || "a call of a tool"}`.slice(0, 1500) : "There is no reply: " + (r.failed || c.lanes[r.lane].messages.at(-1)?.error)).join("\n");
    }
    await save(c);
    return true;
  }

  // ask sends the conversation of each lane and shows the replies. model, if given, answers in place of the lane's own,
  // and key is that of an earlier try.
  async function ask(which, model, versions, key) {
    const asked = new Map(), all = which.map((lane) => {
      const list = chat.lanes[lane].messages, asks = model || chat.lanes[lane].model;
      const message = { role: "assistant", content: "", model: asks, live: { key: key || crypto.randomUUID?.() || Date.now() + "-" + Math.random() }, ...(versions && { versions: [...versions, {}], version: versions.length }) };
      const r = new play.Reply(chat, lane, message, host);
      asked.set(r, requestOf(chat, lane, list, asks));
      list.push(message);
      return r;
    });
    const mine = chat;
    await run(mine, all, (r) => holding(r.message.live.key, {}, () => r.ask(asked.get(r))));
    if (mine === chat && !document.querySelector("dialog[open]")) prompt.focus();
  }

  // holding does work while no other window has the reply with a key.
  const holding = (key, options, work) => navigator.locks ? navigator.locks.request("sluice.reply." + key, options, work) : work(true); // there are none in an insecure context

  // resume goes on with a reply that the page was left in the middle of. If another window has it, this one waits.
  async function resume(c, lane) {
    const list = c.lanes[lane].messages, message = list.at(-1), { key } = message.live;
    await holding(key, { ifAvailable: true }, async (free) => {
      if (free) return run(c, [new play.Reply(c, lane, message, host)], (r) => r.resume(requestOf(c, lane, list.slice(0, list.indexOf(message)), message.model)));
      holding(key, {}, async () => { const now = await kept.load(c.id); if (now && chat === c) show(now); });
    });
  }

  // clean drops what did not succeed from the end of a lane, and answers calls that nobody has answered: the API rejects
  // a conversation in which a call has no result.
  function clean(list) {
    while (list.at(-1)?.error) list.pop();
    const last = list.at(-1);
    if (last?.tool_calls) for (const call of last.tool_calls) list.push({ role: "tool", tool_call_id: call.id, content: "no result" });
  }

  const content = (text) => parts.length ? [...(text ? [{ type: "text", text }] : []), ...parts] : text;

  async function send() {
    const text = prompt.value.trim();
    if ((!text && !parts.length) || underWay().length) return;
    for (const lane of chat.lanes) {
      clean(lane.messages);
      lane.messages.push({ role: "user", content: content(text) });
    }
    chat.title ||= (text || play.nameOf(parts[0]) || "A picture").slice(0, 60).replace(/\s+/g, " ");
    if (chat.kept && !(await kept.load(chat.id))) { chat.id = fresh().id; chat.kept = false; } // who goes on with a deleted chat wants one
    prompt.value = "";
    parts = [];
    await ask(chat.lanes.map((_, i) => i));
  }

  // edit changes a message, in every lane, and asks again from there.
  function edit(lane, at, text) {
    if (underWay().length) return;
    const list = chat.lanes[lane].messages, m = list[at];
    const files = play.partsOf(m.content).filter((p) => p.type !== "text" || p.name);
    if (!text && !files.length) return;
    const nth = list.slice(0, at).filter((x) => x.role === "user").length, which = [];
    for (const [i, l] of chat.lanes.entries()) {
      let seen = 0;
      const cut = l.messages.findIndex((x) => x.role === "user" && seen++ === nth);
      if (cut < 0) continue;
      l.messages.splice(cut);
      l.messages.push({ role: "user", content: files.length ? [...(text ? [{ type: "text", text }] : []), ...files] : text });
      which.push(i);
    }
    ask(which);
  }

  // retry asks again: for another reply, beside those before it, or after a failure.
  function retry(lane, model) {
    if (underWay().length) return;
    const list = chat.lanes[lane].messages;
    let versions;
    if (list.at(-1)?.role === "assistant") {
      const { versions: before, version, ...own } = list.pop();
      versions = before || [own];
    }
    const last = list.at(-1), key = last?.why?.key;
    if (last) { delete last.error; delete last.why; }
    if (last?.role === "user" && last.content === "") list.pop();
    ask([lane], model, versions, model ? "" : key);
  }

  // fork begins a chat with what was said in a lane until a message.
  async function fork(lane, at) {
    const { model, messages } = chat.lanes[lane];
    const next = fresh(settings(), [{ model }]);
    next.lanes[0].messages = structuredClone(messages.slice(0, at + 1));
    next.title = "Fork of " + (chat.title || "a chat");
    if (messages[at].role === "user") { // it is there to be changed and sent
      const parts = play.partsOf(next.lanes[0].messages.pop().content);
      next.draft = parts.filter((p) => p.type === "text" && !p.name).map((p) => p.text).join("\n");
    }
    await begin(next);
    await save();
  }

  // trim drops the older half of a conversation that is too long, and asks again.
  function trim(lane) {
    const list = chat.lanes[lane].messages;
    const starts = list.flatMap((m, i) => m.role === "user" ? [i] : []);
    if (starts.length < 2) return say("This message alone is too long for the model. Edit it, or choose a model with a larger context.");
    list.splice(0, starts[Math.ceil(starts.length / 2)]);
    retry(lane);
  }

  // ---- files ----

  const takesPictures = () => chat.lanes.every((l) => models[l.model]?.images);

  async function attach(files) {
    say(await play.attach(files, parts, takesPictures()));
    thumbs();
    showCode();
    prompt.focus();
  }

  const thumbs = () => by("thumbs").replaceChildren(...parts.map((p, i) => play.chip(p, i + 1, () => { parts.splice(i, 1); thumbs(); showCode(); prompt.focus(); })));

  // ---- code ----

  // bodyOf returns the request that the next message would be. Credentials of MCP servers become a placeholder.
  function bodyOf() {
    const messages = [...chat.lanes[0].messages.filter((m) => !m.live)], text = prompt.value.trim();
    clean(messages);
    if (text || parts.length || !messages.length) messages.push({ role: "user", content: content(text || (parts.length ? "" : "Hello!")) });
    else while (messages.length > 1 && messages.at(-1).role === "assistant") messages.pop(); // the call that was made last
    const asked = requestOf(chat, 0, messages, chat.lanes[0].model);
    for (const tool of asked.body.tools || []) if (tool.headers) tool.headers = { Authorization: "Bearer $MCP_TOKEN" };
    return asked;
  }

  function showCode() {
    if (!by("code-dialog").open) return;
    const asked = bodyOf();
    let short = false;
    const body = JSON.parse(JSON.stringify(asked.body, (key, value) => {
      if (typeof value !== "string" || value.length < 400 || !(value.startsWith("data:") || key === "data")) return value;
      short = true;
      return value.slice(0, 40) + "…";
    }));
    for (const [language, program] of Object.entries(window.sluiceSnippets(box.dataset.origin, asked.path, asked.door, body))) highlight(by("code-" + language), program, language);
    by("shortened").hidden = !short;
  }

  // ---- sharing ----

  // shared returns what is shared of the chat.
  function shared(show) {
    const lanes = chat.lanes.map((l) => {
      const results = new Map(l.messages.filter((m) => m.role === "tool").map((m) => [m.tool_call_id, m.content]));
      const messages = l.messages.filter((m) => m.role !== "tool" && !m.error).map((m) => {
        const all = play.partsOf(m.content);
        const pictures = show.pictures ? all.filter((p) => p.type === "image_url" && p.image_url.url.startsWith("data:")).map((p) => p.image_url.url) : [];
        const calls = show.tools ? [
          ...(m.mcp || []).map((c) => ({ name: c.server + " / " + c.name, arguments: c.arguments || "", result: String((c.error?.message ?? c.error) || c.output || "") })),
          ...(m.tool_calls || []).map((c) => ({ name: c.function.name, arguments: c.function.arguments, result: results.get(c.id) || "" })),
        ] : [];
        return {
          role: m.role, text: all.filter((p) => p.type === "text" && !p.name).map((p) => p.text).join("\n"), pictures, calls, files: all.map(play.nameOf).filter(Boolean),
          ...(m.role === "assistant" && { model: m.facts?.model || m.model || l.model }), ...(show.tools && m.reasoning && { thinking: m.reasoning }),
        };
      }).filter((m) => m.text || m.pictures.length || m.files.length || m.calls.length || m.thinking);
      return { model: l.model, messages };
    });
    return { title: chat.title, lanes, ...(show.system && by("system").value.trim() && { system: by("system").value.trim() }) };
  }

  shareForm?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const of = (name) => shareForm.elements[name], wrong = shareForm.querySelector(".wrong");
    const complain = (text) => { wrong.textContent = text; wrong.hidden = !text; };
    complain("");
    event.submitter.disabled = true;
    try {
      const response = await fetch("/dashboard/playground/shares?days=" + of("days").value, {
        method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify(shared({ pictures: of("pictures").checked, tools: of("tools").checked, system: of("system").checked })),
      });
      if (response.redirected) throw new Error("Your session has ended. Sign in again in another tab, then try again.");
      const made = await response.json();
      if (!response.ok) throw new Error(made.error.message);
      by("share-link").textContent = made.url;
      by("share-made").hidden = false;
    } catch (error) { complain(error.message === "Failed to fetch" ? "The server cannot be reached. Check your connection and try again." : error.message); }
    event.submitter.disabled = false;
  });

  // ---- the page ----

  // The panels beside the conversation. Each remembers whether it is open; on a narrow window they lie over the
  // conversation and are closed at first.
  const wide = { chats: matchMedia("(min-width: 1100px)"), settings: matchMedia("(min-width: 1400px)") };
  function fold(name, open) {
    box.classList.toggle("with-" + name, open);
    for (const b of box.querySelectorAll(`[data-fold=${name}]`)) if (b.hasAttribute("aria-controls")) b.setAttribute("aria-expanded", String(open));
  }
  // uncover closes a panel if it lies over the conversation.
  const over = { chats: matchMedia("(max-width: 1099px)"), settings: matchMedia("(max-width: 860px)") };
  function uncover(name) { if (over[name].matches) fold(name, false); }
  function layOut(name) {
    const before = localStorage.getItem("sluice.play." + name) || (name === "chats" || innerWidth >= 1700 ? "open" : "closed");
    fold(name, wide[name].matches && before === "open");
  }
  for (const name of ["chats", "settings"]) {
    layOut(name);
    wide[name].addEventListener("change", () => layOut(name));
    for (const b of box.querySelectorAll(`[data-fold=${name}]`)) {
      b.addEventListener("click", () => {
        const open = !box.classList.contains("with-" + name);
        if (open && innerWidth < 1280) fold(name === "chats" ? "settings" : "chats", false);
        fold(name, open);
        if (wide[name].matches) localStorage.setItem("sluice.play." + name, open ? "open" : "closed");
        (open ? by(name === "chats" ? "find" : "system") : by("show-" + name)).focus();
      });
    }
  }

  box.querySelector(".conversation").addEventListener("click", (event) => {
    if (innerWidth <= 860 && !event.target.closest("[data-fold]")) for (const name of ["chats", "settings"]) uncover(name);
  });

  const tools = await play.openTools(kept, () => { soon(); showCode(); });

  by("ask").addEventListener("submit", (event) => { event.preventDefault(); send(); });
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); by("ask").requestSubmit(); }
  });
  const stop = () => { for (const r of underWay()) r.stop(); };
  by("stop").addEventListener("click", stop);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      const open = ["chats", "settings"].find((name) => box.classList.contains("with-" + name) && over[name].matches);
      if (open) { fold(open, false); by("show-" + open).focus(); } else stop();
    }
    if (event.key.toLowerCase() === "o" && event.ctrlKey && event.shiftKey) { event.preventDefault(); begin(); }
  });
  by("new-chat").addEventListener("click", () => begin());
  by("find").addEventListener("input", listChats);
  by("delete-all").addEventListener("submit", async (event) => {
    event.preventDefault();
    delete event.target.dataset.confirmed;
    remove((await kept.list()).map((h) => h.id));
  });
  by("show-code").addEventListener("click", () => { by("code-dialog").showModal(); showCode(); });
  by("copy-body").addEventListener("click", (event) => play.copy(JSON.stringify(bodyOf().body), event.target));
  by("show-share")?.addEventListener("click", () => { by("share-made").hidden = true; shareForm.querySelector(".wrong").hidden = true; by("share-dialog").showModal(); });

  // Lanes.
  by("add-model").addEventListener("click", () => {
    if (chat.lanes.length >= mostLanes || underWay().length) return;
    const used = chat.lanes.map((l) => l.model);
    // What was said before is the same for both.
    chat.lanes.push({ model: Object.keys(models).find((id) => !used.includes(id)) || used[0], messages: structuredClone(chat.lanes[0].messages) });
    paint();
    soon();
    laneOf(chat.lanes.length - 1).querySelector("[data-model]").focus();
  });
  by("lanes").addEventListener("click", (event) => {
    if (!event.target.closest("[data-remove]") || underWay().length) return;
    const at = [...by("lanes").children].indexOf(event.target.closest(".lane"));
    chat.lanes.splice(at, 1);
    paint();
    soon();
    by("add-model").focus();
  });
  // A way to the end of a long talk, while that is out of sight.
  by("lanes").addEventListener("scroll", ({ target }) => {
    if (target.matches(".talk")) target.parentElement.querySelector("[data-down]").hidden = target.scrollHeight - target.scrollTop - target.clientHeight < 200;
  }, true);
  by("lanes").addEventListener("click", (event) => {
    const talk = event.target.closest("[data-down]")?.parentElement.querySelector(".talk");
    if (talk) { talk.scrollTop = talk.scrollHeight; talk.focus(); }
  });
  by("lanes").addEventListener("change", (event) => {
    if (!event.target.matches("[data-model]")) return;
    const el = event.target.closest(".lane");
    chat.lanes[[...by("lanes").children].indexOf(el)].model = event.target.value;
    el.querySelector(".lane-facts").textContent = aboutModel(event.target.value);
    showCode();
    soon();
  });

  // Files.
  by("attach").addEventListener("click", () => by("file").click());
  by("file").addEventListener("change", () => { attach([...by("file").files]); by("file").value = ""; });
  prompt.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { event.preventDefault(); attach([...event.clipboardData.files]); } });
  let within = 0;
  const hasFiles = (event) => [...event.dataTransfer?.types || []].includes("Files");
  box.addEventListener("dragenter", (event) => { if (hasFiles(event)) { within++; box.classList.add("dropping"); } });
  box.addEventListener("dragleave", (event) => { if (hasFiles(event) && --within <= 0) { within = 0; box.classList.remove("dropping"); } });
  box.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  box.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    within = 0;
    box.classList.remove("dropping");
    attach([...event.dataTransfer.files]);
  });

  // Presets.
  by("presets").addEventListener("change", async () => {
    const preset = (await kept.thing("presets", [])).find((p) => p.name === by("presets").value);
    if (!preset) return;
    apply(preset.settings);
    if (models[preset.settings.model]) chat.lanes[0].model = preset.settings.model;
    by("preset-name").value = preset.name;
    paint();
    soon();
  });
  by("save-preset").addEventListener("click", async () => {
    const name = by("preset-name").value.trim();
    if (!name) { by("preset-name").focus(); return; }
    const others = (await kept.thing("presets", [])).filter((p) => p.name !== name);
    await kept.keep("presets", [{ name, settings: { ...settings(), model: chat.lanes[0].model } }, ...others].slice(0, mostPresets));
    await listChats();
    by("presets").value = name;
  });
  by("delete-preset").addEventListener("click", async () => {
    await kept.keep("presets", (await kept.thing("presets", [])).filter((p) => p.name !== by("presets").value));
    listChats();
  });

  box.addEventListener("input", (event) => {
    if (!event.target.matches("[data-setting], #prompt")) return;
    showCode();
    soon();
  });
  addEventListener("pagehide", () => { if (waiting) save(); });
  addEventListener("popstate", (event) => { if (event.state?.chat) open(event.state.chat).then((there) => there || show(fresh(settings(), chat.lanes))); });
  kept.changed(async () => {
    listChats();
    tools.reload();
    // What another window has added to this chat is shown here, too, once it is whole.
    const now = await kept.load(chat.id);
    const idle = !waiting && !parts.length && !underWay().length && !box.querySelector(".edit");
    if (idle && now?.at > (chat.at || 0) && !now.lanes.some((l) => l.messages.at(-1)?.live)) show(now);
  });

  // The chat of the address, else that of before, unless the address asks for a model.
  const query = new URLSearchParams(location.search);
  const id = query.get("chat") || !query.get("model") && await kept.thing("current", "");
  const first = id && await kept.load(id);
  if (query.get("model")) show(fresh({}, [{ model: query.get("model") }]), "replaceState");
  else show(first || fresh(), "replaceState");
  box.classList.add("ready");
})();
