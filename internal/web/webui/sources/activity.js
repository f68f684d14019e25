// The activity page and the overview: a request opens beside the list, new requests appear at its top, a drag across the chart
// chooses a time, filters are saved, and the first call is made from the page. Without this script a request is a page of its own,
// the list is that of when the page was loaded, and a time is chosen in fields.
(() => {
  "use strict";

  const added = (element) => document.dispatchEvent(new CustomEvent("contentadded", { detail: element }));
  // go shows an address of this page in place, as a link among the filters does.
  function go(address) {
    const link = document.createElement("a"), form = document.querySelector("form[data-auto]");
    link.href = address;
    form.append(link);
    if (window.htmx) htmx.process(form);
    link.click();
  }

  // A request opens in the drawer. With a key held down the link is a link, and so it is if anything fails: the page that
  // follows says what.
  document.addEventListener("click", async (event) => {
    const drawer = document.getElementById("drawer"); // after a filter it is another one
    if (event.target === drawer && drawer) drawer.close();
    const link = event.target.closest("a[data-drawer]");
    if (!link || !drawer || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    try {
      const response = await fetch(link.href, { headers: { "HX-Request": "true" }, redirect: "error" });
      if (!response.ok) throw new Error(response.statusText);
      const body = document.getElementById("drawer-body");
      body.innerHTML = await response.text();
      added(body);
      drawer.showModal();
      drawer.scrollTop = 0;
    } catch {
      location.assign(link.href);
    }
  });

  // New requests. The server is asked every few seconds for those that have ended since it was asked last, and gives some of
  // them again; rows are known by their ids. Nothing is asked while the page is hidden.
  const pause = 3000, mostNew = 200;
  let asking = false;
  const tail = () => document.querySelector("[data-tail]");
  const follows = () => localStorage.getItem("activity.live") !== "no";
  function showLive() {
    const button = tail();
    if (!button) return;
    button.hidden = false;
    button.setAttribute("aria-pressed", String(follows()));
  }
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-tail]")) return;
    localStorage.setItem("activity.live", follows() ? "no" : "yes");
    showLive();
    ask();
  });
  async function ask() {
    const button = tail();
    if (!button || asking || !follows() || document.hidden) return;
    asking = true;
    try {
      const address = new URL(button.dataset.tail, location);
      address.searchParams.set("since", button.dataset.since);
      const response = await fetch(address, { headers: { "HX-Request": "true" }, redirect: "error" });
      if (!response.ok) throw new Error(response.statusText);
      const text = await response.text();
      if (!button.isConnected) return; // the filters have changed
      button.dataset.since = response.headers.get("X-Since");
      add(text, button);
    } catch {
      // The next time it may work. A session that has ended is noticed by the next click.
    } finally {
      asking = false;
    }
  }
  function add(text, button) {
    const card = document.getElementById("requests"), body = card.querySelector("tbody"), box = document.createElement("template");
    box.innerHTML = text;
    const at = (row) => row.querySelector("time")?.dateTime || "";
    const fresh = [...box.content.querySelectorAll("tr[id]")].filter((row) => !document.getElementById(row.id));
    if (!fresh.length) return;
    const here = document.activeElement, top = here && here.closest("#requests tr") ? here.getBoundingClientRect().top : null;
    for (const row of fresh) {
      row.classList.add("fresh");
      body.insertBefore(row, [...body.rows].find((other) => at(other) < at(row)) || null);
    }
    card.querySelector(".scroll").hidden = false;
    card.querySelector("[data-none]")?.remove();
    added(body);
    if (top !== null) scrollBy(0, here.getBoundingClientRect().top - top); // what has the focus stays where it is
    // A list that has grown for long begins again, with its figures.
    button.dataset.count = Number(button.dataset.count || 0) + fresh.length;
    if (Number(button.dataset.count) >= mostNew) go(location.pathname + location.search);
  }
  setInterval(ask, pause);
  document.addEventListener("visibilitychange", ask);

  // A drag across the chart chooses a time. With the keyboard: Shift and the arrow keys choose, and Enter shows it.
  let brush; // the choice: the chart, and its first and last step
  const chartOf = (event) => event.target.closest?.("[data-brush] .area");
  const steps = (chart) => chart.querySelectorAll(".step");
  function stepAt(chart, event) {
    const { left, width } = chart.getBoundingClientRect(), n = steps(chart).length;
    return Math.max(0, Math.min(n - 1, Math.floor((event.clientX - left) / width * n)));
  }
  function paint() {
    for (const step of document.querySelectorAll(".step.picked")) step.classList.remove("picked");
    if (!brush) return;
    const [from, to] = [Math.min(brush.from, brush.to), Math.max(brush.from, brush.to)];
    steps(brush.chart).forEach((step, i) => step.classList.toggle("picked", i >= from && i <= to));
  }
  function zoom() {
    const { chart, from, to } = brush, { brush: length, from: start } = chart.closest("[data-brush]").dataset;
    const at = (step) => new Date(Date.parse(start) + step * length * 1000).toISOString().slice(0, 19) + "Z";
    const address = new URL(location);
    address.searchParams.delete("range");
    address.searchParams.delete("cursor");
    address.searchParams.set("from", at(Math.min(from, to)));
    address.searchParams.set("to", at(Math.max(from, to) + 1));
    brush = undefined;
    paint();
    go(address.pathname + address.search);
  }
  document.addEventListener("pointerdown", (event) => {
    const chart = chartOf(event);
    if (!chart || event.button !== 0) return;
    const from = stepAt(chart, event);
    brush = { chart, from, to: from, x: event.clientX };
  });
  document.addEventListener("pointermove", (event) => {
    if (!brush?.x || !(event.buttons & 1)) return;
    brush.to = stepAt(brush.chart, event);
    brush.moved ||= Math.abs(event.clientX - brush.x) > 6;
    if (brush.moved) paint();
  });
  document.addEventListener("pointerup", () => {
    if (brush?.moved) zoom();
    else if (brush?.x) brush = undefined;
  });
  document.addEventListener("pointercancel", () => { brush = undefined; paint(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { brush = undefined; paint(); }
    const chart = chartOf(event);
    if (!chart) return;
    const now = Number(chart.getAttribute("aria-valuenow")) - 1;
    if (event.key === "Enter") {
      brush ||= { chart, from: now, to: now };
      zoom();
    } else if (event.shiftKey && event.key.startsWith("Arrow")) {
      brush ||= { chart, from: now };
      setTimeout(() => { if (brush) { brush.to = Number(chart.getAttribute("aria-valuenow")) - 1; paint(); } }); // once app.js has moved
    }
  }, true);

  // The ends of a time are chosen together, so neither of them applies by itself as the other filters do.
  document.addEventListener("change", (event) => { if (event.target.type === "datetime-local") event.stopPropagation(); }, true);

  // Saved filters: names and addresses, in this browser, apart for each account.
  const mostSaved = 20;
  const savedBox = () => document.querySelector("[data-saved]");
  const savedKey = () => "activity.saved." + savedBox().dataset.saved;
  function saved() {
    try {
      const list = JSON.parse(localStorage.getItem(savedKey()));
      return Array.isArray(list) ? list.filter((one) => typeof one?.name === "string" && /^(\?|$)/.test(one.query)) : [];
    } catch {
      return [];
    }
  }
  function showSaved() {
    const box = savedBox();
    if (!box) return;
    box.hidden = false;
    box.querySelector("ul").replaceChildren(...saved().map(({ name, query }) => {
      const item = document.createElement("li"), link = document.createElement("a"), button = document.createElement("button");
      link.href = location.pathname + query;
      link.textContent = name;
      button.type = "button";
      button.className = "plain small";
      button.dataset.forget = name;
      button.setAttribute("aria-label", "Delete " + name);
      button.textContent = "✕";
      item.append(link, button);
      return item;
    }));
    if (window.htmx) htmx.process(box);
  }
  function keep(list, said) {
    localStorage.setItem(savedKey(), JSON.stringify(list));
    showSaved();
    savedBox().querySelector("[role=status]").textContent = said;
  }
  document.addEventListener("click", (event) => {
    const forget = event.target.closest("[data-forget]");
    if (forget) {
      event.stopImmediatePropagation(); // the button goes, and the menu stays open
      keep(saved().filter((one) => one.name !== forget.dataset.forget), "Deleted.");
      savedBox().querySelector("input").focus();
    }
    if (event.target.closest("[data-save]")) save();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.id === "save-name") { event.preventDefault(); save(); }
  });
  function save() {
    const field = document.getElementById("save-name"), name = field.value.trim();
    if (!name) { field.focus(); return; }
    const query = new URLSearchParams(location.search);
    query.delete("cursor");
    const others = saved().filter((one) => one.name !== name);
    if (others.length >= mostSaved) {
      savedBox().querySelector("[role=status]").textContent = `There are ${mostSaved} already. Delete one first.`;
      return;
    }
    field.value = "";
    keep([...others, { name, query: query.size ? "?" + query : "" }], `Saved as ${name}.`);
  }

  // The first call of a new account, made from the page.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-run]");
    if (!button) return;
    const answer = document.getElementById(button.getAttribute("aria-controls")), text = answer.querySelector("[data-text]"), note = answer.querySelector("[data-note]");
    button.disabled = true;
    answer.hidden = false;
    answer.classList.remove("bad");
    text.textContent = "Waiting for the answer…";
    note.textContent = "";
    const began = performance.now();
    try {
      const response = await fetch(button.dataset.run, { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: button.dataset.body });
      const reply = await response.json();
      if (!response.ok) throw new Error(reply.error?.message || response.statusText);
      text.textContent = reply.choices[0].message.content;
      const took = Math.round(performance.now() - began);
      note.textContent = `${reply.model} answered in ${took < 1000 ? took + " ms" : (took / 1000).toFixed(1) + " s"}. `;
      const link = document.createElement("a");
      link.href = "/dashboard/activity";
      link.textContent = "See it in Activity";
      note.append(link);
    } catch (error) {
      answer.classList.add("bad");
      text.textContent = error instanceof TypeError ? "The server could not be reached. Check your connection and try again." : error.message;
    } finally {
      button.disabled = false;
      button.textContent = "Run it again";
    }
  });

  // What is read aloud after a filter: the region has to be there before its text changes.
  const told = document.createElement("p");
  told.className = "sr";
  told.setAttribute("role", "status");
  document.body.append(told);
  function begin() {
    showLive();
    showSaved();
    for (const button of document.querySelectorAll("[data-run]")) button.hidden = false;
  }
  begin();
  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt.id !== "main") return;
    begin();
    told.textContent = document.getElementById("told")?.textContent || "";
  });
})();
