// The videos page: creates, watches and downloads videos through the public API below /dashboard/v1.
(() => {
  "use strict";

  const clips = document.getElementById("clips");
  if (!clips) return;
  const by = (id) => document.getElementById(id);
  const base = "/dashboard/v1/video/generations";
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

  const over = (job) => ["succeeded", "failed", "cancelled"].includes(job.status);
  const tones = { succeeded: "good", failed: "bad", running: "accent" };

  // show adds a job to the page or updates its card. With first, a new card goes to the top of the list.
  function show(job, first) {
    let card = cards.get(job.id);
    if (!card) {
      card = { el: by("clip").content.firstElementChild.cloneNode(true) };
      cards.set(job.id, card);
      clips[first ? "prepend" : "append"](card.el);
      card.el.querySelector("[data-prompt]").textContent = job.prompt;
      card.el.querySelector("[data-facts]").textContent = job.width + " × " + job.height + ", " + job.n_seconds + " s, " + new Date(job.created_at * 1000).toLocaleString();
      card.el.querySelector("[data-cancel]").addEventListener("click", () => cancel(job.id));
    }
    by("clips-empty").hidden = true;
    const part = (name) => card.el.querySelector("[data-" + name + "]");
    const status = part("status");
    status.className = "badge " + (tones[job.status] || "");
    status.textContent = job.status + (job.failure_reason ? ": " + job.failure_reason : "");
    const progress = card.el.querySelector("progress");
    progress.hidden = over(job);
    progress.value = job.progress;
    part("cancel").hidden = over(job);
    if (job.status === "succeeded" && !card.player) {
      const address = base + "/" + encodeURIComponent(job.generations[0].id) + "/content/video";
      card.player = document.createElement("video");
      card.player.controls = true;
      card.player.preload = "metadata";
      card.player.src = address;
      card.player.setAttribute("aria-label", job.prompt);
      part("picture").append(card.player);
      part("download").href = address;
      part("download").download = job.id + ".mp4";
      part("download").hidden = false;
    }
    card.over = over(job);
  }

  async function cancel(id) {
    try { show(await call("/jobs/" + encodeURIComponent(id), { method: "DELETE" })); } catch (error) { tell(error.message); }
  }

  by("video-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [width, height] = by("video-size").value.split("x").map(Number);
    try {
      tell("");
      show(await call("/jobs", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ model: event.target.dataset.model, prompt: by("video-prompt").value, width, height, n_seconds: Number(by("video-seconds").value) }),
      }), true);
      by("video-prompt").value = "";
      watch();
    } catch (error) {
      tell(error.message);
    }
  });

  let last = ""; // id of the oldest job shown: the cursor of the next page
  async function more() {
    try {
      const list = await call("/jobs?limit=12" + (last ? "&after=" + encodeURIComponent(last) : ""));
      for (const job of list.data) { show(job); last = job.id; }
      by("clips-more").hidden = !list.has_more;
    } catch (error) {
      tell(error.message);
    }
    watch();
  }
  by("clips-more").addEventListener("click", more);

  // watch polls unfinished jobs until all are over: every second, or every five in a background tab. There is one
  // timer at most.
  let watching = 0;
  function watch() {
    clearTimeout(watching);
    const open = [...cards].filter(([, card]) => !card.over);
    if (!open.length) return;
    watching = setTimeout(async () => {
      try {
        for (const [id] of open) show(await call("/jobs/" + encodeURIComponent(id)));
        tell("");
      } catch (error) {
        tell(error.message);
      }
      watch();
    }, document.hidden ? 5000 : 1000);
  }

  more();
})();
