// Tools of a chat: functions, from examples and those that were saved, and MCP servers.
(() => {
  "use strict";

  const play = window.sluicePlay ||= {};
  const { make } = window.sluiceText;
  const by = (id) => document.getElementById(id);
  const mostFunctions = 50, mostServers = 8;

  const object = (properties, ...required) => ({ type: "object", properties, required });
  const text = (description) => ({ type: "string", description });
  // What is there without being saved. A result is what the field for it suggests.
  const examples = [
    { name: "get_weather", description: "The weather in a city now", parameters: object({ city: text("The name of the city") }, "city"), result: '{"sky": "clear", "celsius": 21}' },
    { name: "search_documents", description: "Searches the documents of the company and returns the best passages", parameters: object({ query: text("What to search for"), limit: { type: "integer", description: "How many passages" } }, "query"), result: '[{"title": "Returns", "text": "Goods can be returned within 30 days."}]' },
    { name: "look_up_order", description: "The state of a customer's order", parameters: object({ order: text("The number of the order") }, "order"), result: '{"state": "shipped", "arrives": "tomorrow"}' },
    { name: "run_query", description: "Runs a query on the sales database and returns its rows", parameters: object({ sql: text("One SELECT statement") }, "sql"), result: '[{"month": "May", "sales": 1200}]' },
  ];
  const types = ["string", "number", "integer", "boolean"];

  // plain returns the parameters of a schema as rows of a form, or null if it says more than rows can.
  function plain(schema) {
    const rows = [];
    for (const [key, value] of Object.entries(schema || {})) {
      if (!["type", "properties", "required"].includes(key) || key === "type" && value !== "object") return null;
    }
    for (const [name, p] of Object.entries(schema?.properties || {})) {
      if (!types.includes(p.type) || Object.keys(p).some((key) => !["type", "description"].includes(key))) return null;
      rows.push({ name, type: p.type, description: p.description || "", required: !!schema.required?.includes(name) });
    }
    return rows;
  }

  // openTools shows the tools and returns what reads them. kept is what they are saved in; changed is called after a
  // change by the reader.
  play.openTools = async (kept, changed) => {
    let saved = await kept.thing("functions", []), servers = await kept.thing("servers", []);
    let chosen = { functions: [], servers: [] };
    const secrets = new Map(); // Authorization by URL, for as long as the page is open
    let editing = null; // the name of the function, or the URL of the server, that a form changes

    const functions = () => [...saved, ...examples.filter((e) => !saved.some((f) => f.name === e.name))];

    function choose(kind, id, on) {
      chosen[kind] = chosen[kind].filter((x) => x !== id);
      if (on) chosen[kind].push(id);
      paint();
      changed();
    }

    // row is one tool that can be ticked, changed and, if it was saved, deleted.
    function row(kind, id, name, about, change, remove) {
      const el = make("div", "tool");
      const label = el.appendChild(make("label", "check")), box = make("input");
      box.type = "checkbox";
      box.checked = chosen[kind].includes(id);
      box.addEventListener("change", () => choose(kind, id, box.checked));
      const what = make("span");
      what.append(make("code", "", name), make("span", "small muted", about));
      label.append(box, what);
      const edit = play.button("Edit", "Edit " + name, change);
      el.append(edit);
      if (remove) el.append(play.button("✕", "Delete " + name, remove));
      return el;
    }

    function paint() {
      const list = functions();
      by("functions").replaceChildren(...list.map((f) => row("functions", f.name, f.name, f.description, () => editFunction(f), saved.includes(f) && (async () => {
        saved = saved.filter((x) => x !== f);
        await kept.keep("functions", saved);
        choose("functions", f.name, false);
      }))));
      by("servers").replaceChildren(...servers.map((s) => row("servers", s.url, s.label, s.url, () => editServer(s), async () => {
        servers = servers.filter((x) => x !== s);
        secrets.delete(s.url);
        await kept.keep("servers", servers);
        choose("servers", s.url, false);
      })));
      const n = chosen.functions.length + chosen.servers.length;
      by("tools-count").textContent = n || "";
    }

    // ---- the form of a function ----

    const form = by("function-form"), field = (name) => form.elements[name];

    function parameterRow(p = { name: "", type: "string", description: "", required: false }) {
      const el = make("div", "parameter");
      const input = (name, label, value) => Object.assign(make("input"), { name, value, autocomplete: "off", ariaLabel: label, placeholder: label });
      const select = make("select");
      select.name = "ptype";
      select.ariaLabel = "Type";
      select.append(...types.map((t) => new Option(t, t, false, t === p.type)));
      const label = make("label", "check"), box = make("input");
      box.type = "checkbox";
      box.name = "prequired";
      box.checked = p.required;
      label.append(box, "Required");
      el.append(input("pname", "Name", p.name), select, input("pabout", "Description", p.description), label, play.button("✕", "Remove this parameter", () => el.remove()));
      return el;
    }

    function editFunction(f) {
      editing = f?.name || null;
      by("function-title").textContent = f ? "Edit function" : "New function";
      field("name").value = f?.name || "";
      field("description").value = f?.description || "";
      const rows = plain(f?.parameters);
      field("schema").value = rows ? "" : JSON.stringify(f.parameters, null, 2);
      by("parameters").replaceChildren(...(rows || []).map(parameterRow));
      if (!f) by("parameters").append(parameterRow());
      form.querySelector("details").open = !rows;
      complain(form, "");
      by("function-dialog").showModal();
    }

    const complain = (of, what) => { const el = of.querySelector(".wrong"); el.textContent = what; el.hidden = !what; };

    // schemaOf returns the schema that the form says. It throws what is wrong.
    function schemaOf() {
      const schema = field("schema").value.trim();
      if (schema) {
        let value;
        try { value = JSON.parse(schema); } catch (error) { throw new Error("The JSON Schema is not valid JSON: " + error.message); }
        // A whole definition may be pasted, as it stands in a program.
        const whole = value.function || (value.parameters && value);
        if (whole?.name) { field("name").value ||= whole.name; field("description").value ||= whole.description || ""; }
        return whole ? whole.parameters || object({}) : value;
      }
      const properties = {}, required = [];
      for (const el of by("parameters").children) {
        const of = (name) => el.querySelector(`[name=${name}]`);
        const name = of("pname").value.trim();
        if (!name) continue;
        properties[name] = { type: of("ptype").value, ...(of("pabout").value.trim() && { description: of("pabout").value.trim() }) };
        if (of("prequired").checked) required.push(name);
      }
      return object(properties, ...required);
    }

    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const parameters = schemaOf(), name = field("name").value.trim(), result = functions().find((f) => f.name === editing)?.result;
        if (!/^[\w-]{1,64}$/.test(name)) throw new Error("Use 1 to 64 letters, digits, _ and - in a name.");
        if (name !== editing && saved.some((f) => f.name === name)) throw new Error("There is already a function with this name.");
        const f = { name, description: field("description").value.trim(), parameters, ...(result && { result }) };
        saved = [f, ...saved.filter((x) => x.name !== name && x.name !== editing)].slice(0, mostFunctions);
        await kept.keep("functions", saved);
        by("function-dialog").close();
        chosen.functions = chosen.functions.filter((x) => x !== editing);
        choose("functions", name, true);
      } catch (error) { complain(form, error.message); }
    });
    by("add-parameter").addEventListener("click", () => { by("parameters").append(parameterRow()); by("parameters").lastChild.querySelector("input").focus(); });
    by("new-function").addEventListener("click", () => editFunction(null));

    // ---- the form of a server ----

    const serverForm = by("server-form");

    function editServer(s) {
      editing = s?.url || null;
      by("server-title").textContent = s ? "Edit MCP server" : "New MCP server";
      for (const [name, value] of [["label", s?.label], ["url", s?.url], ["auth", s && secrets.get(s.url)]]) serverForm.elements[name].value = value || "";
      complain(serverForm, "");
      by("server-dialog").showModal();
    }
    serverForm.addEventListener("submit", async (event) => {
      event.preventDefault();
      const of = (name) => serverForm.elements[name].value.trim();
      const url = of("url");
      const s = { url, label: of("label") || URL.parse?.(url)?.hostname || "tools" };
      const others = servers.filter((x) => x.url !== url && x.url !== editing);
      if (!/^https?:\/\/\S+$/.test(url)) return complain(serverForm, "Enter an address that begins with https:// or http://.");
      if (others.some((x) => x.label === s.label)) return complain(serverForm, "There is already a server with this name.");
      if (others.length >= mostServers) return complain(serverForm, `There can be at most ${mostServers} servers. Delete one first.`);
      if (of("auth")) secrets.set(url, of("auth")); else secrets.delete(url);
      servers = [...others, s];
      await kept.keep("servers", servers);
      by("server-dialog").close();
      chosen.servers = chosen.servers.filter((x) => x !== editing);
      choose("servers", url, true);
    });
    by("new-server").addEventListener("click", () => editServer(null));

    return {
      // reload reads what another window has saved.
      async reload() {
        [saved, servers] = [await kept.thing("functions", []), await kept.thing("servers", [])];
        paint();
      },
      // chosen returns what is ticked, by name, and use ticks that of another chat.
      chosen: () => structuredClone(chosen),
      use(next) {
        chosen = { functions: next?.functions || [], servers: next?.servers || [] };
        paint();
      },
      functions: () => functions().filter((f) => chosen.functions.includes(f.name)),
      servers: () => servers.filter((s) => chosen.servers.includes(s.url)).map((s) => ({ ...s, auth: secrets.get(s.url) || "" })),
      resultFor: (name) => functions().find((f) => f.name === name)?.result || '{"ok": true}',
    };
  };
})();
