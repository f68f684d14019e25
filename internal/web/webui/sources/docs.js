// The reference: the theme of the other pages, a search in all of its pages, and buttons that copy. It works without it.
(() => {
  "use strict";

  const theme = document.cookie.match(/(?:^|; )theme=(light|dark)/)?.[1];
  if (theme) document.documentElement.dataset.theme = theme;

  document.addEventListener("DOMContentLoaded", () => {
    search();
    document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "center" });
    // An address of the time when the reference was one page.
    const moved = location.pathname === "/docs" && location.hash && !document.getElementById(location.hash.slice(1));
    if (moved && document.querySelector(`.side a[href="/docs/${CSS.escape(location.hash.slice(1))}"]`)) location.replace("/docs/" + location.hash.slice(1));
    for (const box of document.querySelectorAll(".samples, figure.code")) box.append(copier(box));
  });

  // copier is a button that copies the program that a box shows.
  function copier(box) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const shown = [...box.querySelectorAll("pre")].find((pre) => pre.checkVisibility());
      try { await navigator.clipboard.writeText(shown.textContent); } catch {
        getSelection().selectAllChildren(shown);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    return button;
  }

  // search adds a field above the contents. It leaves the sections that have all words of the search.
  function search() {
    const nav = document.querySelector(".side nav");
    const field = document.createElement("input");
    field.type = "search";
    field.className = "find";
    field.placeholder = "Search the reference";
    field.setAttribute("aria-label", "Search the reference");
    const count = document.createElement("p");
    count.className = "found";
    count.setAttribute("role", "status");
    nav.before(field, count);
    const links = [...nav.querySelectorAll("li a")].map((a) => ({ a, name: a.hash.slice(1) || a.pathname.split("/").pop(), text: a.textContent.toLowerCase() }));
    // What the sections say is read from the page that has all of them, when somebody begins to search.
    let reading;
    const read = () => reading ||= fetch("/docs/all").then((response) => response.text()).then((text) => {
      const whole = new DOMParser().parseFromString(text, "text/html");
      for (const one of links) one.text += " " + (whole.getElementById(one.name)?.textContent.toLowerCase() || "");
      look();
    }).catch(() => { reading = undefined; });
    const look = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      for (const { a, text } of links) {
        const fits = words.every((word) => text.includes(word));
        a.parentElement.hidden = !fits;
        if (fits) found++;
      }
      for (const list of nav.querySelectorAll("ul")) {
        const empty = ![...list.children].some((li) => !li.hidden);
        list.hidden = empty;
        if (list.previousElementSibling?.matches("h2")) list.previousElementSibling.hidden = empty;
      }
      count.textContent = words.length ? found + (found === 1 ? " section" : " sections") : "";
    };
    field.addEventListener("focus", read);
    field.addEventListener("input", look);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") links.find(({ a }) => !a.parentElement.hidden)?.a.click();
      if (event.key === "Escape") { field.value = ""; look(); }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.closest("input, textarea, select")) { event.preventDefault(); field.focus(); }
    });
  }
})();
