// The videos page: creates, watches and downloads videos through the public API below /dashboard/v1.
(() => {
  "use strict";

  const clips = document.getElementById("clips");
  if (!clips) return;
  const by = (id) => document.getElementById(id);
  const base = "/dashboard/v1";
  const jobs = "/video/generations/jobs";
  const cards = new Map(); // job id → { el, player, over }

  // call returns the JSON of an API response. It throws the API's message if the request failed.
  async function call(path, options) {
    const response = await fetch(base + path, options);
    const body = await response.json();
    // Keys that are switched off are a 401, too; their message says what to do.
    if (!response.ok && body.error.type === "authentication_error") { location.assign("/signin?next=/dashboard/videos"); throw new Error("You are not signed in."); }
    if (!response.ok) throw new Error(body.error.message);
    return body;
  }

  // tell shows an error above the form. An empty message hides it.
  function tell(message) {
    by("video-problem").textContent = message;
    by("video-problem").hidden = !message;
  }

  // A video is loaded as far as its first picture once somebody scrolls to it.
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      // The controls come with the picture, or without it after a while: before, browsers draw a spinner over its place.
      const control = () => { target.controls = true; };
      for (const event of ["loadeddata", "error"]) target.addEventListener(event, control, { once: true });
      setTimeout(control, 3000);
      target.preload = "metadata";
    }
  }, { rootMargin: "800px" });

  const over = (job) => ["succeeded", "failed", "cancelled"].includes(job.status);
  const tones = { succeeded: "good", failed: "bad", running: "accent" };
  const names = { queued: "queued", running: "creating", succeeded: "ready", failed: "failed", cancelled: "cancelled" };

  // stateOf says in the place of the picture where a job is, and what to do if it has failed.
  function stateOf(job) {
    switch (job.status) {
      case "queued": return "Waiting for its turn…";
      case "running": return job.progress + "%";
      case "failed": return (job.failure_reason || "The video could not be created.") + " Its units were given back. Try again, or change the prompt.";
      case "cancelled": return "You cancelled this video.";
    }
    return "";
  }

  // show adds a job to the page or updates its card. With first, a new card goes to the top of the list.
  function show(job, first) {
    let card = cards.get(job.id);
    if (!card) {
      card = { el: by("clip").content.firstElementChild.cloneNode(true) };
      cards.set(job.id, card);
      clips[first ? "prepend" : "append"](card.el);
      const about = (name, text) => { card.el.querySelector("[data-" + name + "]").textContent = text; };
      about("prompt", job.prompt);
      about("facts", job.width + " × " + job.height + " · " + job.n_seconds + " s");
      const when = document.createElement("time"), at = new Date(job.created_at * 1000).toISOString();
      when.dateTime = at;
      when.dataset.local = "minute";
      when.textContent = at;
      card.el.querySelector("[data-when]").append(when);
      document.dispatchEvent(new CustomEvent("contentadded", { detail: card.el }));
      const press = (name, what) => card.el.querySelector("[data-" + name + "]").addEventListener("click", what);
      press("cancel", () => attempt(async () => { show(await call(jobs + "/" + encodeURIComponent(job.id), { method: "DELETE" })); focusOn(card.el); }));
      press("retry", () => attempt(() => make(job)));
      press("delete", () => remove(job));
    }
    const part = (name) => card.el.querySelector("[data-" + name + "]");
    if (card.status && card.status !== job.status) by("clips-news").textContent = "Video " + names[job.status] + ": " + job.prompt.slice(0, 60);
    card.status = job.status;
    const status = part("status");
    status.className = "badge " + (tones[job.status] || "");
    status.textContent = names[job.status] || job.status;
    part("standing").hidden = job.status === "succeeded"; // the picture says it
    if (!card.player) { // which takes their place
      const progress = card.el.querySelector("progress");
      progress.hidden = over(job);
      progress.value = job.progress;
      part("state").textContent = stateOf(job);
    }
    part("cancel").hidden = over(job);
    part("retry").hidden = !["failed", "cancelled"].includes(job.status);
    part("delete").hidden = !over(job);
    if (job.status === "succeeded" && !card.player) {
      const address = base + "/video/generations/" + encodeURIComponent(job.generations[0].id) + "/content/video";
      card.player = document.createElement("video");
      card.player.preload = "none";
      card.player.src = address + "#t=0.001"; // phones paint the first picture of it
      card.player.setAttribute("aria-label", job.prompt);
      part("picture").replaceChildren(card.player);
      seen.observe(card.player);
      part("download").href = address;
      part("download").download = job.id + ".mp4";
      part("download").hidden = false;
    }
    card.over = over(job);
    empty();
  }

  function empty() { by("clips-empty").hidden = cards.size > 0; }

  // focusOn moves the focus to the first button of a card that can be pressed.
  function focusOn(el) { [...el.querySelectorAll("a, button")].find((b) => !b.hidden)?.focus(); }

  // attempt does something and shows what went wrong with it.
  async function attempt(what) {
    try {
      tell("");
      await what();
    } catch (error) {
      tell(error.message);
    }
  }

  // make creates a job like another one, and watches it.
  async function make({ prompt, width, height, n_seconds }) {
    show(await call(jobs, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ model: by("video-form").dataset.model, prompt, width, height, n_seconds }),
    }), true);
    watch();
  }

  // remove asks, and deletes a job with its file.
  function remove(job) {
    const dialog = by("clip-delete");
    dialog.querySelector("[data-prompt]").textContent = job.prompt.length > 120 ? job.prompt.slice(0, 120) + "…" : job.prompt;
    dialog.returnValue = "";
    dialog.onclose = () => {
      if (dialog.returnValue !== "yes") return;
      attempt(async () => {
        await call("/videos/" + encodeURIComponent(job.id), { method: "DELETE" });
        const el = cards.get(job.id).el, next = el.nextElementSibling || el.previousElementSibling;
        cards.delete(job.id);
        el.remove();
        empty();
        by("clips-news").textContent = "The video was deleted.";
        if (next) focusOn(next); else by("clips-title").focus();
      });
    };
    dialog.showModal();
  }

  by("video-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [width, height] = by("video-size").value.split("x").map(Number);
    attempt(async () => {
      await make({ prompt: by("video-prompt").value, width, height, n_seconds: Number(by("video-seconds").value) });
      by("video-prompt").value = "";
    });
  });

  let last = ""; // id of the oldest job shown: the cursor of the next page
  async function more() {
    try {
      const list = await call(jobs + "?limit=12" + (last ? "&after=" + encodeURIComponent(last) : ""));
      for (const job of list.data) { show(job); last = job.id; }
      by("clips-more").hidden = !list.has_more;
      empty();
    } catch (error) {
      tell(error.message);
    }
    watch();
  }
  by("clips-more").addEventListener("click", more);

  // watch polls unfinished jobs until all are over: every second, or every five in a background tab. There is one
  // timer at most.
  let watching = 0, lost = false;
  function watch() {
    clearTimeout(watching);
    const open = [...cards].filter(([, card]) => !card.over);
    if (!open.length) return;
    watching = setTimeout(async () => {
      try {
        for (const [id] of open) show(await call(jobs + "/" + encodeURIComponent(id)));
        if (lost) tell("");
        lost = false;
      } catch (error) {
        lost = true;
        tell(error.message);
      }
      watch();
    }, document.hidden ? 5000 : 1000);
  }

  more();
})();
