// The activity page: filters apply as they are chosen, a chart tells what is below the pointer, and a request opens beside
// the list. Without this script there is a button, the chart has titles, and a request is a page of its own.
(() => {
  "use strict";

  document.documentElement.classList.add("scripted");
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-auto]");
    if (form) form.requestSubmit();
  });
  // After Back the menus show what the page shows, not what was chosen when it was left.
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-auto]")) form.reset();
  });

  // A menu closes with Esc, and when the focus or a click goes elsewhere.
  const menu = document.querySelector("details.export");
  if (menu) {
    document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
    menu.addEventListener("focusout", (event) => { if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false; });
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && menu.open) { menu.open = false; menu.querySelector("summary").focus(); }
    });
  }

  // The texts of a chart's steps, in the reader's time zone. Browsers show titles late and not at all on a phone.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const step of document.querySelectorAll(".graph .step")) {
    const title = step.querySelector("title");
    const [name, ...lines] = title.textContent.split("\n");
    const form = step.hasAttribute("data-days") ? null : { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" };
    step.dataset.name = form ? new Intl.DateTimeFormat("en-GB", form).format(new Date(step.dataset.at)) : name;
    step.dataset.text = lines.join("\n");
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const step = event.target.closest && event.target.closest(".graph .step");
    tip.hidden = !step;
    if (!step) return;
    const strong = document.createElement("strong");
    strong.textContent = step.dataset.name;
    tip.replaceChildren(strong, step.dataset.text);
    const room = innerWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + "px";
    tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 10) + "px";
  });

  // A request opens in the drawer. With a key held down the link is a link, and so it is if anything fails: the page that
  // follows says what.
  const drawer = document.getElementById("drawer");
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-drawer]");
    if (!link || !drawer || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    try {
      const response = await fetch(link.href, { headers: { "HX-Request": "true" }, redirect: "error" });
      if (!response.ok) throw new Error(response.statusText);
      const body = document.getElementById("drawer-body");
      body.innerHTML = await response.text();
      document.dispatchEvent(new CustomEvent("contentadded", { detail: body }));
      drawer.showModal();
      drawer.scrollTop = 0;
    } catch {
      location.assign(link.href);
    }
  });
  if (drawer) drawer.addEventListener("click", (event) => { if (event.target === drawer) drawer.close(); });
})();
