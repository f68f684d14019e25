// The activity page and the overview, as a person uses them: by mouse, by keyboard, on a phone, with and without scripts.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, password, phone, signUp, subscribe, useBrowser } from "./visitor.mjs";

const open = useBrowser();

// call asks a model and returns the status.
async function call(key, model, more = {}) {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }], ...more }),
  });
  await response.text();
  return response.status;
}

let state, key; // of somebody who is signed in
test("the checklist ticks itself off when the first call arrives", async () => {
  const { page, context, complaints } = await open();
  key = await signUp(page, "olga@example.com");
  await page.goto(gateway + "/dashboard");
  await page.getByText("1 of 3 done").waitFor();
  assert.equal(await call(key, "sandbox/small"), 200);
  await page.getByText("Your first request arrived").waitFor();
  await page.getByText("3 of 3 done").waitFor();
  await page.getByRole("link", { name: "See the request" }).click();
  await page.getByRole("heading", { name: "Request", exact: true }).waitFor();
  assert.deepEqual(complaints, []);
  state = await context.storageState();
});

test("filters reach the chart, the list and the exports; Back and reload keep them", async () => {
  const { page, complaints } = await open({ storageState: state });
  await subscribe(page, "Basic");
  await page.getByText("Your plan is active.").waitFor();
  assert.equal(await call(key, "service/auto"), 200);
  assert.equal(await call(key, "sandbox/small", { temperature: 9 }), 400);
  await page.goto(gateway + "/dashboard/usage");
  await page.waitForURL(/\/dashboard\/activity\?range=30d/);
  const rows = page.locator("table.requests tbody tr");
  assert.equal(await rows.count(), 3);
  await page.evaluate(() => { window.kept = true; });
  await page.getByLabel("Model", { exact: true }).selectOption("service/auto"); // applies itself
  await page.waitForURL(/model=service%2Fauto/);
  await page.getByText("asked service/auto").waitFor();
  assert.equal(await rows.count(), 1);
  assert.equal((await page.locator(".tiles .figure").first().textContent()).trim(), "1");
  assert.ok(await page.evaluate(() => window.kept), "the page was not loaded again");
  await page.goBack();
  await page.waitForURL(/range=30d$/);
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 3);
  assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "", "the menu shows the filter of the page");
  await page.goForward();
  await page.waitForURL(/model=service%2Fauto/);
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 1);
  assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "service/auto");
  await page.reload();
  assert.equal(await rows.count(), 1);
  await page.getByText("Export", { exact: true }).click();
  const waiting = page.waitForEvent("download");
  await page.getByRole("link", { name: "Requests as CSV" }).click();
  const file = await waiting;
  assert.equal(file.suggestedFilename(), "requests.csv");
  assert.equal((await (await file.createReadStream()).toArray()).join("").trim().split("\n").length, 2);
  await page.keyboard.press("Escape");
  await page.goBack();
  await page.waitForURL(/range=30d$/);
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 3);
  await page.getByLabel("Outcome").selectOption("refused");
  await page.waitForURL(/outcome=refused/);
  await page.locator(".graph .legend").getByText("Refused").waitFor();
  assert.match(await rows.first().textContent(), /400 refused/);
  await page.getByRole("link", { name: "Latency" }).click();
  await page.waitForURL(/show=latency/);
  await page.getByText("Refused requests use no tokens").waitFor();
  await page.getByRole("link", { name: "Clear filters" }).click();
  assert.deepEqual(complaints, []);
});

test("new requests appear by themselves, until Live is off or nobody looks", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.clock.install();
  let asked = 0;
  page.on("request", (request) => { if (request.url().includes("/activity/tail")) asked++; });
  await page.goto(gateway + "/dashboard/activity");
  const rows = page.locator("table.requests tbody tr"), live = page.getByRole("button", { name: "Live" });
  const before = await rows.count(), newest = await rows.first().getAttribute("id");
  assert.equal(await live.getAttribute("aria-pressed"), "true");
  assert.equal(await call(key, "sandbox/tiny"), 200);
  assert.equal(await call(key, "sandbox/small", { temperature: 9 }), 400);
  // What was refused is stored every few seconds.
  while (await rows.count() < before + 2) {
    const reply = page.waitForResponse(/activity\/tail/);
    await page.clock.runFor(3100);
    await (await reply).finished();
  }
  assert.equal(await rows.count(), before + 2, "each of them once");
  assert.notEqual(await rows.first().getAttribute("id"), newest);
  assert.match(await rows.nth(0).textContent() + await rows.nth(1).textContent(), /sandbox\/tiny/);
  assert.match(await rows.nth(0).getByRole("link").textContent(), /\d \w{3} \d\d:\d\d:\d\d$/, "in the reader's time zone");
  await live.click();
  assert.equal(await live.getAttribute("aria-pressed"), "false");
  asked = 0;
  await page.clock.runFor(30_000);
  assert.equal(asked, 0, "it is off");
  await page.evaluate(() => Object.defineProperty(document, "hidden", { get: () => true, configurable: true }));
  await live.click();
  await page.clock.runFor(30_000);
  assert.equal(asked, 0, "nobody looks");
  await page.evaluate(() => { delete document.hidden; });
  const reply = page.waitForResponse(/activity\/tail/);
  await page.clock.runFor(3100);
  await reply;
  assert.deepEqual(complaints, []);
});

test("a part of the chart is chosen by mouse, by keyboard and in fields", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity");
  const area = page.locator("[data-brush] .area"), box = await area.boundingBox(), y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.8, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, y, { steps: 4 });
  await page.locator(".step.picked").first().waitFor();
  await page.mouse.move(box.x + box.width - 2, y, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/from=.*&to=/);
  const hours = () => (Date.parse(new URL(page.url()).searchParams.get("to")) - Date.parse(new URL(page.url()).searchParams.get("from"))) / 3_600_000;
  assert.ok(hours() > 3 && hours() < 7, `${hours()} hours of 24`);
  await page.locator(".choose summary.on").waitFor();
  assert.ok(await page.locator("table.requests tbody tr").count() > 0, "the requests of the last hours are in it");
  await page.goBack();
  await page.waitForURL(/activity$/);
  await page.getByText("Custom", { exact: true }).waitFor();

  await page.goto(gateway + "/dashboard/activity");
  await area.focus();
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Shift+ArrowLeft");
  await page.waitForFunction(() => document.querySelectorAll(".step.picked").length === 3);
  await page.keyboard.press("Enter");
  await page.waitForURL(/from=.*&to=/);
  assert.ok(hours() > 2 && hours() <= 3, `${hours()} hours by keyboard`);

  await page.goto(gateway + "/dashboard/activity");
  await page.getByText("Custom", { exact: true }).click();
  const field = (back) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 16);
  await page.getByLabel("From, in UTC").fill(field(3));
  await page.getByLabel("To, in UTC").fill(field(2));
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL(/from=.*&to=/);
  await page.getByRole("link", { name: "Show the last 30 days" }).click();
  await page.locator("table.requests tbody tr").first().waitFor();
  assert.deepEqual(complaints, []);
});

test("filters are saved by name, and forgotten", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity?outcome=refused&range=7d");
  await page.getByText("Saved filters").click();
  await page.getByLabel("Save these filters as").fill("What was refused");
  await page.keyboard.press("Enter");
  await page.getByText("Saved as What was refused.").waitFor();
  await page.goto(gateway + "/dashboard/activity");
  await page.getByText("Saved filters").click();
  await page.getByRole("link", { name: "What was refused" }).click();
  await page.waitForURL(/outcome=refused/);
  assert.equal(await page.getByLabel("Outcome").inputValue(), "refused");
  await page.getByText("Saved filters").click();
  await page.getByRole("button", { name: "Delete What was refused" }).click();
  await page.getByText("Deleted.").waitFor();
  await page.reload();
  await page.getByText("Saved filters").click();
  assert.equal(await page.getByRole("link", { name: "What was refused" }).count(), 0);
  assert.deepEqual(complaints, []);
});

test("the first call is made from the overview, and what goes wrong is said", async () => {
  const { page, complaints } = await open();
  await signUp(page, "rosa@example.com");
  await page.goto(gateway + "/dashboard");
  await page.route("**/dashboard/v1/chat/completions", (route) => route.abort(), { times: 1 });
  await page.getByRole("button", { name: "Run it now" }).click();
  await page.getByText("The server could not be reached.").waitFor();
  await page.getByRole("button", { name: "Run it again" }).click();
  await page.locator("#first-answer").getByText(/answered in/).waitFor();
  assert.notEqual((await page.locator("#first-answer [data-text]").textContent()).trim(), "");
  await page.getByText("3 of 3 done").waitFor();
  assert.deepEqual(complaints, []);
});

test("a request opens beside the list, by keyboard, and as a page without scripts", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity");
  const first = page.locator("table.requests tr", { hasText: "200" }).locator("a.open").first();
  await first.focus();
  await page.keyboard.press("Enter");
  const drawer = page.locator("#drawer");
  await drawer.getByRole("heading", { name: "Repeat it" }).waitFor();
  const timeline = drawer.getByRole("img", { name: /^Admission and routing .*Settled .* after/ });
  assert.ok((await timeline.boundingBox()).width > 200);
  await drawer.getByText("The timeline in words").click();
  assert.match(await drawer.getByRole("list").first().textContent(), /sandbox\/\w+ at sandbox/);
  assert.equal(new URL(page.url()).pathname, "/dashboard/activity");
  await page.keyboard.press("Escape");
  await drawer.waitFor({ state: "hidden" });
  assert.ok(await first.evaluate((el) => el === document.activeElement), "the focus is back where it was");
  // The time has seconds.
  assert.match(await first.textContent(), /\d+:\d\d:\d\d/);
  await page.locator(".graph .area").hover();
  await page.locator(".graph .area").hover({ position: { x: 40, y: 40 } }); // scrolling hides it
  await page.locator(".tip strong").waitFor();
  assert.deepEqual(complaints, []);

  const plain = await open({ storageState: state, javaScriptEnabled: false });
  await plain.page.goto(gateway + "/dashboard/activity");
  await plain.page.getByLabel("Outcome").selectOption("completed");
  await plain.page.getByRole("button", { name: "Apply" }).click();
  await plain.page.waitForURL(/outcome=completed/);
  await plain.page.locator("table.requests a.open").first().click();
  await plain.page.getByRole("heading", { name: "Timing" }).waitFor();
  await plain.page.getByRole("main").getByRole("link", { name: "Activity" }).click();
  await plain.page.waitForURL(/activity\?outcome=completed/);
});

test("an expired session asks to sign in, and leads back to where one was", async () => {
  const { page, context } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity?range=7d");
  await context.clearCookies();
  await page.locator("table.requests a.open").first().click();
  await page.waitForURL(/\/signin/);
  await page.getByLabel("E-mail").fill("olga@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Repeat it" }).waitFor();
});

test("on a phone rows are cards, fields do not zoom, and Esc closes the menu", async () => {
  const { page } = await open({ storageState: state, viewport: phone[1] });
  for (const path of ["/dashboard", "/dashboard/activity", "/dashboard/keys", "/dashboard/models", "/dashboard/playground", "/dashboard/webhooks", "/dashboard/account"]) {
    await page.goto(gateway + path);
    const small = await page.evaluate(() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea")].filter((el) => el.checkVisibility() && !["checkbox", "radio", "range"].includes(el.type) && parseFloat(getComputedStyle(el).fontSize) < 16).map((el) => el.outerHTML.slice(0, 80)));
    assert.deepEqual(small, [], path);
    const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll")].filter((el) => el.checkVisibility() && el.scrollWidth > el.clientWidth + 1).map((el) => el.getAttribute("aria-label")));
    assert.deepEqual(cut, [], path + " cuts tables off");
  }
  const menu = page.getByRole("button", { name: "Menu" });
  await menu.click();
  assert.equal(await menu.getAttribute("aria-expanded"), "true");
  await page.keyboard.press("Escape");
  assert.equal(await menu.getAttribute("aria-expanded"), "false");
  assert.ok(await menu.evaluate((el) => el === document.activeElement));
});
