// The support console: keys, moments that are picked in the reader's time zone, and sentences that say what a form does.
// Without this script every key has its button, and moments are in UTC.
(() => {
  "use strict";

  // A control with aria-keyshortcuts is pressed by its key: the one in the row that has the focus, or else on the page. j and k
  // move between rows, where there are any.
  const typing = (el) => el.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || typing(event.target)) return;
    if (event.key !== "?" && document.querySelector("dialog[open], details.pop[open]")) return;
    const rows = [...document.querySelectorAll("tr[data-row]")];
    const now = rows.indexOf(event.target.closest("tr[data-row]"));
    if (rows.length && (event.key === "j" || event.key === "k")) {
      const next = rows[Math.max(0, Math.min(rows.length - 1, now + (event.key === "j" ? 1 : -1)))];
      event.preventDefault();
      next.querySelector("[data-open]").focus();
      return;
    }
    if (event.key.length !== 1 || event.repeat) return;
    const named = `[aria-keyshortcuts="${CSS.escape(event.key)}"]`;
    const control = (rows[now] || rows[0])?.querySelector(named) || [...document.querySelectorAll(named)].find((el) => !el.closest("tr[data-row]"));
    if (!control) return;
    event.preventDefault();
    if (control.matches("textarea")) {
      pick(control);
      control.focus();
      return;
    }
    control.click();
    if (control.matches("summary")) control.parentElement.querySelector(":scope[open] button, :scope[open] input:not([type=hidden])")?.focus();
  });

  // After a step in a row the page comes back with the focus on the ticket of that row, or on the one that took its place.
  const kept = "sluice row";
  document.addEventListener("submit", (event) => {
    const rows = [...document.querySelectorAll("tr[data-row]")], at = rows.indexOf(event.target.closest("tr[data-row]"));
    if (at < 0) return;
    try { sessionStorage.setItem(kept, JSON.stringify({ page: location.pathname, ticket: rows[at].querySelector("[data-open]").pathname, at })); } catch { /* then the first row is next */ }
  });
  function back() {
    let was;
    try {
      was = JSON.parse(sessionStorage.getItem(kept));
      sessionStorage.removeItem(kept);
    } catch { return; }
    if (was?.page !== location.pathname) return;
    const links = [...document.querySelectorAll("tr[data-row] [data-open]")];
    (links.find((link) => link.pathname === was.ticket) || links[Math.min(was.at, links.length - 1)])?.focus();
  }
  back();

  // pick shows the form that a field is in, if it is one of several.
  function pick(field) {
    const name = [...field.form.classList].find((c) => c.startsWith("step-"));
    const choice = name && document.getElementById(name);
    if (choice) choice.checked = true;
  }

  // A moment is picked in the reader's time zone and sent in UTC. What was picked is said in both.
  const two = (n) => String(n).padStart(2, "0");
  const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const local = (at) => `${day(at)}T${two(at.getHours())}:${two(at.getMinutes())}`;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  function dress(scope) {
    for (const input of scope.querySelectorAll("input[data-when]:not([data-dressed])")) {
      input.dataset.dressed = "";
      if (input.value) input.value = local(new Date(input.value + "Z"));
      const field = input.closest("[data-when-field]");
      field.querySelector("[data-presets]").hidden = !field.querySelector("[data-in]");
      tell(input);
    }
    for (const form of scope.querySelectorAll("form:has([data-says])")) say(form);
  }
  function tell(input) {
    const field = input.closest("[data-when-field]"), hint = field.querySelector(".hint:not([data-said])");
    if (hint) hint.textContent = hint.textContent.replace(/^In UTC\./, `In your time zone, ${zone}.`);
    const at = new Date(input.value);
    field.querySelector("[data-said]").textContent = isNaN(at) ? "" : `${at.toUTCString().slice(5, 22).replace(/^0/, "")} UTC`;
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-in]");
    if (!button) return;
    const input = button.closest("[data-when-field]").querySelector("input");
    let at = new Date(Date.now() + Number(button.dataset.in) * 60000);
    if (button.dataset.in === "morning") {
      at = new Date();
      at.setDate(at.getDate() + 1);
      at.setHours(9, 0, 0, 0);
    }
    input.value = local(at);
    tell(input);
  });
  document.addEventListener("formdata", (event) => {
    for (const input of event.target.querySelectorAll("input[data-when]")) {
      if (input.value) event.formData.set(input.name, new Date(input.value).toISOString());
    }
  });

  // A sentence says what its form does, with what is typed and chosen now.
  function say(form) {
    const text = form.querySelector("[data-says]");
    if (!text) return;
    text.textContent = text.dataset.says.replace(/\{(\w+)(?:\|([^}]*))?\}/g, (_, name, empty) => {
      const field = form.elements[name];
      const value = field?.selectedOptions ? field.selectedOptions[0]?.textContent : field?.value;
      return (value || "").trim() || empty || "…";
    });
  }
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-when]")) tell(event.target);
    if (event.target.form) say(event.target.form);
  });

  dress(document);
  document.addEventListener("htmx:load", (event) => dress(event.detail.elt.parentElement || document));
})();
