// Behaviour shared by all pages: theme, menu, copy buttons, tabs, confirmation dialogs, toasts, filters, charts, the search
// over everything, local times.
(() => {
  "use strict";

  const root = document.documentElement;
  root.classList.add("scripted");

  // One listener for all clicks, so that parts which htmx adds later work without registration.
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-copy], [data-theme-next], [data-menu], [role=tab], [data-close]");
    if (!target) return;
    if (target.matches("[data-copy]")) copy(target);
    if (target.matches("[data-theme-next]")) nextTheme(target);
    if (target.matches("[data-menu]")) toggleMenu(target);
    if (target.matches("[role=tab]")) selectTab(target);
    if (target.matches("[data-close]")) target.closest("dialog").close();
  });

  // copy copies the text of the element whose id is in data-copy.
  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const text = "value" in source ? source.value : source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // The clipboard API needs a secure context. Over plain HTTP, select the text and use the old command.
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  // nextTheme switches from system to light to dark and back. The server reads the cookie and renders the next page
  // in that theme, so that pages do not flash.
  function nextTheme(button) {
    const order = ["", "light", "dark"];
    const now = root.dataset.theme || "";
    const next = order[(order.indexOf(now) + 1) % order.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    document.cookie = "theme=" + next + "; path=/; max-age=31536000; samesite=lax";
    button.querySelector("[data-name]").textContent = next ? next[0].toUpperCase() + next.slice(1) : "System";
    document.dispatchEvent(new Event("themechange"));
  }

  function toggleMenu(button, to) {
    const open = document.querySelector(".side").classList.toggle("open", to);
    button.setAttribute("aria-expanded", String(open));
  }

  function selectTab(tab) {
    for (const other of tab.parentElement.querySelectorAll("[role=tab]")) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
  }

  // Esc closes the menu and a form that stands over the page; arrow keys switch tabs; "/" moves to the search field.
  document.addEventListener("keydown", (event) => {
    const form = document.querySelector("details.pop[open]:has(> form)");
    if (event.key === "Escape" && form) {
      form.open = false;
      form.querySelector("summary").focus();
      return;
    }
    const menu = document.querySelector("[data-menu][aria-expanded=true]");
    if (event.key === "Escape" && menu) {
      toggleMenu(menu, false);
      menu.focus();
      return;
    }
    const tab = event.target.closest && event.target.closest("[role=tab]");
    if (tab && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const all = [...tab.parentElement.querySelectorAll("[role=tab]")];
      const next = all[(all.indexOf(tab) + (event.key === "ArrowRight" ? 1 : all.length - 1)) % all.length];
      selectTab(next);
      next.focus();
      return;
    }
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      const search = document.querySelector("main [type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });

  // filled returns a text of a form with what was typed or chosen in place of {field|text if it is empty}.
  function filled(form, text) {
    return (text || "").replace(/\{(\w+)(?:\|([^}]*))?\}/g, (_, name, empty) => {
      const field = form.elements[name];
      const said = field?.matches?.("[data-when]") && field.closest("[data-when-field]").querySelector("[data-said]").textContent;
      const value = field && field.selectedOptions ? field.selectedOptions[0]?.textContent : said || field?.value;
      return (value || "").trim() || empty || "";
    });
  }

  // A form with data-confirm opens the dialog first. It is sent when the user confirms. The listener runs in the
  // capture phase, so that it stops the submit before htmx sees it.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.confirm || form.dataset.confirmed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const dialog = document.getElementById("confirm");
    dialog.querySelector("h2").textContent = filled(form, form.dataset.confirm);
    dialog.querySelector("p").textContent = filled(form, form.dataset.detail);
    dialog.querySelector("[data-close]").textContent = form.dataset.no || "Cancel";
    const yes = dialog.querySelector("[data-yes]");
    yes.textContent = form.dataset.yes || "Continue";
    yes.className = (event.submitter || form.querySelector("button"))?.classList.contains("danger") ? "danger solid" : "primary";
    yes.onclick = () => { form.dataset.confirmed = "yes"; dialog.close(); form.requestSubmit(event.submitter); };
    dialog.showModal();
  }, true);

  // A dialog that the server has opened becomes modal. Its page without it is what remains when it is closed.
  for (const dialog of document.querySelectorAll("dialog[data-modal]")) {
    dialog.close();
    dialog.showModal();
    dialog.addEventListener("close", () => history.replaceState(null, "", dialog.dataset.modal));
  }

  // A menu closes with Esc, and when the focus or a click goes elsewhere.
  const menus = () => [...document.querySelectorAll("details.pop[open]:not(:has(> form))")];
  for (const type of ["click", "focusin"]) {
    document.addEventListener(type, (event) => { for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false; });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of menus()) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  // A toast stays for some seconds, or until it is closed if it says what went wrong. While the pointer or the focus is on
  // it, it stays.
  function dressToast(toast) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain small";
    button.setAttribute("aria-label", "Dismiss");
    button.textContent = "✕";
    button.addEventListener("click", () => toast.remove());
    toast.append(button);
    if (toast.classList.contains("bad")) return;
    let timer;
    const start = () => { timer = setTimeout(() => toast.remove(), 10000); };
    const stop = () => clearTimeout(timer);
    for (const type of ["pointerenter", "focusin"]) toast.addEventListener(type, stop);
    for (const type of ["pointerleave", "focusout"]) toast.addEventListener(type, () => { stop(); start(); });
    start();
  }
  for (const toast of document.querySelectorAll(".toast")) dressToast(toast);
  document.addEventListener("toast", (event) => {
    const toast = document.createElement("div"), text = document.createElement("span");
    toast.className = ("note toast " + (event.detail.tone || "")).trim();
    text.textContent = event.detail.text;
    toast.append(text);
    let place = document.getElementById("toasts");
    if (!place) {
      place = Object.assign(document.createElement("div"), { id: "toasts", className: "toasts" });
      place.setAttribute("role", "status");
      document.body.append(place);
    }
    while (place.children.length > 2) place.firstElementChild.remove();
    place.append(toast);
    dressToast(toast);
  });

  // A form with data-auto applies its filters as they are chosen. htmx replaces the part of the page that it names; see Live
  // in package webui. Fields that are empty do not reach the address.
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form && event.target.type !== "search") form.requestSubmit();
  });
  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.target.matches("form[data-auto]")) return;
    for (const name of new Set(event.detail.formData.keys())) {
      if (event.detail.formData.getAll(name).every((value) => value === "")) event.detail.formData.delete(name);
    }
  });
  // After Back the menus show what the page shows, not what was chosen when it was left.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-auto]")) form.reset();
  });
  // What cannot be replaced is loaded as a page, which says why.
  for (const type of ["htmx:responseError", "htmx:sendError"]) {
    document.addEventListener(type, (event) => {
      if (event.detail.boosted) location.assign(event.detail.pathInfo.finalRequestPath);
    });
  }

  // What is at a step of a chart is shown to the pointer, and to the arrow keys, as the value of a slider. Without this
  // script the steps have titles.
  let tip; // the one that is shown
  function hideTip() {
    if (!tip) return;
    tip.at.classList.remove("on");
    tip.box.remove();
    tip = undefined;
  }
  function dressCharts(scope) {
    for (const chart of scope.querySelectorAll(".graph .area[role=img]")) {
      const steps = chart.querySelectorAll(".step");
      if (!steps.length) continue;
      for (const step of steps) {
        const title = step.querySelector("title");
        const [name, ...lines] = title.textContent.split("\n");
        const at = new Date(step.dataset.at);
        step.dataset.name = step.dataset.at ? `${month(at)} ${forms.clock(at)}` : name;
        step.dataset.text = lines.join("\n");
        title.remove();
      }
      chart.setAttribute("role", "slider");
      chart.setAttribute("tabindex", "0");
      chart.setAttribute("aria-valuemin", "1");
      chart.setAttribute("aria-valuemax", steps.length);
      value(chart, steps.length - 1);
    }
  }
  function value(chart, i) {
    const { name, text } = chart.querySelectorAll(".step")[i].dataset;
    chart.setAttribute("aria-valuenow", i + 1);
    chart.setAttribute("aria-valuetext", name + ", " + text.replaceAll("\n", ", "));
  }
  function showStep(chart, i, y) {
    const step = chart.querySelectorAll(".step")[i];
    if (tip?.at !== step) {
      hideTip();
      value(chart, i);
      const box = document.createElement("div"), name = document.createElement("strong");
      box.className = "tip";
      name.textContent = step.dataset.name;
      box.append(name);
      const keys = [...chart.closest(".graph").querySelectorAll(".legend .key")];
      for (const text of step.dataset.text.split("\n")) {
        const cut = text.lastIndexOf(": "), line = document.createElement("div");
        const label = document.createElement("span"), figure = document.createElement("b");
        label.textContent = cut < 0 ? text : text.slice(0, cut);
        label.className = keys.find((key) => key.querySelector(".name").textContent === label.textContent)?.className || "key";
        figure.textContent = cut < 0 ? "" : text.slice(cut + 2);
        line.append(label, figure);
        box.append(line);
      }
      document.body.append(box);
      step.classList.add("on");
      tip = { at: step, box, chart };
    }
    const at = step.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = tip.box;
    const right = at.right + 10;
    tip.box.style.left = Math.max(8, right + width < innerWidth - 8 ? right : at.left - width - 10) + "px";
    tip.box.style.top = Math.max(8, Math.min((y ?? at.top + 24) - height / 2, innerHeight - height - 8)) + "px";
  }
  for (const type of ["pointermove", "pointerdown"]) {
    document.addEventListener(type, (event) => {
      const chart = event.target.closest?.(".graph .area[role=slider]");
      if (!chart) {
        if (tip && tip.chart !== document.activeElement) hideTip();
        return;
      }
      const { left, width } = chart.getBoundingClientRect(), last = Number(chart.getAttribute("aria-valuemax")) - 1;
      showStep(chart, Math.max(0, Math.min(last, Math.floor((event.clientX - left) / width * (last + 1)))), event.clientY);
    });
  }
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(".graph .area[role=slider]:focus-visible")) showStep(event.target, Number(event.target.getAttribute("aria-valuenow")) - 1);
  });
  document.addEventListener("focusout", hideTip);
  addEventListener("scroll", hideTip, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches?.(".graph .area[role=slider]")) return;
    const now = Number(event.target.getAttribute("aria-valuenow")) - 1, last = Number(event.target.getAttribute("aria-valuemax")) - 1;
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageUp: now + 7, PageDown: now - 7, Home: 0, End: last }[event.key];
    if (event.key === "Escape") hideTip();
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    showStep(event.target, Math.max(0, Math.min(last, to)));
  });

  // The search over everything: Ctrl+K opens it, what is typed is searched for on the server, arrow keys choose, Enter
  // goes there. Without this script its link leads to a page.
  const palette = document.getElementById("palette");
  if (palette) {
    const form = palette.querySelector("form"), field = form.elements.q, list = document.getElementById("palette-list"), count = palette.querySelector("[role=status]");
    let timer, asked, arrived, go; // go: Enter was pressed before the results arrived
    const options = () => [...list.querySelectorAll("a")];
    const chosen = () => list.querySelector("[aria-selected=true]");
    const choose = (option) => {
      chosen()?.setAttribute("aria-selected", "false");
      field.removeAttribute("aria-activedescendant");
      if (!option) return;
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", option.id);
    };
    const search = async () => {
      asked?.abort();
      const mine = asked = new AbortController();
      const query = field.value.trim();
      try {
        const response = await fetch(form.action + "?q=" + encodeURIComponent(query), { headers: { "HX-Request": "true" }, signal: mine.signal });
        const to = response.headers.get("HX-Redirect");
        if (to || response.headers.get("HX-Refresh")) { location.assign(to || form.action); return; }
        if (!response.ok) throw new Error(response.statusText);
        const text = await response.text();
        if (mine !== asked) return;
        list.innerHTML = text;
        arrived = query;
      } catch (error) {
        if (error.name === "AbortError") return;
        list.replaceChildren(Object.assign(document.createElement("p"), { className: "empty", textContent: "The search could not be made. Try again." }));
      }
      for (const group of list.querySelectorAll("section")) group.setAttribute("role", "group");
      for (const heading of list.querySelectorAll("h2")) heading.setAttribute("role", "presentation");
      for (const nothing of list.querySelectorAll("p")) { nothing.setAttribute("role", "option"); nothing.setAttribute("aria-disabled", "true"); }
      options().forEach((option, i) => {
        Object.assign(option, { id: "palette-" + i, tabIndex: -1 });
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
      });
      choose(options()[0]);
      count.textContent = options().length + (options().length === 1 ? " result" : " results");
      if (go) chosen()?.click();
      go = false;
    };
    const openPalette = () => {
      if (palette.open) return;
      for (const other of document.querySelectorAll("dialog[open]")) if (other.matches(":modal")) return;
      field.value = "";
      go = false;
      palette.showModal();
      search();
    };
    if (/Mac|iPhone|iPad/.test(navigator.platform)) for (const key of document.querySelectorAll("[data-palette] kbd")) key.textContent = "⌘K";
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); }
    });
    document.addEventListener("click", (event) => {
      if (event.target === palette) palette.close();
      if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      openPalette();
    });
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, 120);
    });
    field.addEventListener("keydown", (event) => {
      const all = options(), at = all.indexOf(chosen());
      const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length }[event.key];
      if (to === undefined || !all.length) return;
      event.preventDefault();
      choose(all[to % all.length]);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (arrived === field.value.trim()) { chosen()?.click(); return; }
      go = true;
      clearTimeout(timer);
      search();
    });
    list.addEventListener("click", (event) => { if (event.target.closest("a")) palette.close(); });
  }

  // The export of an account is loaded part by part, so that its progress is seen, and saved as one file.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("[data-export]");
    if (!link) return;
    event.preventDefault();
    const box = document.getElementById("export"), bar = box.querySelector("progress"), text = box.querySelector("p");
    if (!box.hidden && bar.value < bar.max && !box.dataset.failed) return; // it is under way
    box.hidden = false;
    delete box.dataset.failed;
    let whole = {};
    try {
      for (bar.value = 0; bar.value < bar.max; bar.value++) {
        text.textContent = "Reading part " + (bar.value + 1) + " of " + bar.max + "…";
        const response = await fetch(link.href + "?part=" + bar.value);
        if (!response.ok || response.redirected) throw new Error();
        const part = await response.json();
        for (const [name, value] of Object.entries(part)) if (value !== null || !(name in whole)) whole[name] = value;
      }
    } catch {
      box.dataset.failed = "yes";
      text.textContent = "The export could not be read. Try again.";
      return;
    }
    const file = document.createElement("a");
    file.href = URL.createObjectURL(new Blob([JSON.stringify(whole, null, 2)], { type: "application/json" }));
    file.download = "account.json";
    file.click();
    setTimeout(() => URL.revokeObjectURL(file.href), 60000);
    text.textContent = "Done.";
  });

  // localTimes rewrites times, which the server renders in UTC, in the reader's time zone. The form is the one that the
  // server writes, such as 2 Jan 2026, whatever the browser prefers: some dates stay as the server wrote them, and one
  // page must not have two forms. The UTC text stays as the tooltip.
  const two = (n) => String(n).padStart(2, "0");
  const month = (at) => `${at.getDate()} ${"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ")[at.getMonth()]}`;
  const forms = {
    clock: (at) => `${two(at.getHours())}:${two(at.getMinutes())}`,
    day: (at) => `${month(at)} ${at.getFullYear()}`,
    minute: (at) => `${forms.day(at)} ${forms.clock(at)}`,
    zoned: (at) => `${forms.minute(at)} ${zone(at)}`,
    second: (at) => `${month(at)} ${forms.clock(at)}:${two(at.getSeconds())}`,
    weekday: (at) => `${"Sun Mon Tue Wed Thu Fri Sat".split(" ")[at.getDay()]} ${at.getDate()}`,
  };
  const zone = (at) => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(at).find((part) => part.type === "timeZoneName").value;
  function localTimes(scope) {
    for (const el of scope.querySelectorAll("[data-zone]")) el.textContent = `Times are in your time zone (${zone(new Date())}).`;
    for (const el of scope.querySelectorAll("[data-local]")) {
      const at = new Date(el.dateTime || el.dataset.at);
      el.title = el.textContent;
      el.textContent = (forms[el.dataset.local] || forms.minute)(at);
      delete el.dataset.local;
    }
  }

  // nameCells tells each cell the heading of its column. On a phone, where rows are shown as cards, it stands before the
  // cell; see app.css.
  function nameCells(scope) {
    for (const table of scope.closest ? [scope.closest("table"), ...scope.querySelectorAll(".scroll > table")] : scope.querySelectorAll(".scroll > table")) {
      if (!table || !table.tHead) continue;
      const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
      for (const body of table.tBodies) {
        for (const row of body.rows) {
          if (row.cells.length === names.length) names.forEach((name, i) => { row.cells[i].dataset.name = name; });
        }
      }
      table.classList.add("named");
    }
  }

  function added(scope) {
    localTimes(scope);
    nameCells(scope);
    dressCharts(scope);
  }
  added(document);
  document.addEventListener("htmx:beforeSwap", hideTip);
  document.addEventListener("htmx:load", (event) => added(event.detail.elt.parentElement || document));
  document.addEventListener("contentadded", (event) => added(event.detail));
})();
