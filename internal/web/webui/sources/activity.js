// The activity page: a request opens beside the list. Without this script it is a page of its own.
(() => {
  "use strict";

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
      document.dispatchEvent(new CustomEvent("contentadded", { detail: body }));
      drawer.showModal();
      drawer.scrollTop = 0;
    } catch {
      location.assign(link.href);
    }
  });
})();
