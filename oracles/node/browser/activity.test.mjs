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
  await page.getByLabel("Model", { exact: true }).selectOption("service/auto"); // applies itself
  await page.waitForURL(/model=service%2Fauto/);
  await page.getByText("asked service/auto").waitFor();
  assert.equal(await rows.count(), 1);
  assert.equal(await page.locator(".tiles .figure").first().textContent(), "1");
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
  assert.equal(await rows.count(), 3);
  await page.getByRole("link", { name: "Latency" }).click();
  await page.waitForURL(/show=latency/);
  await page.getByLabel("Outcome").selectOption("refused");
  await page.waitForURL(/outcome=refused/);
  assert.match(await rows.first().textContent(), /400 refused/);
  await page.getByRole("link", { name: "Clear filters" }).click();
  assert.deepEqual(complaints, []);
});

test("a request opens beside the list, by keyboard, and as a page without scripts", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity");
  const first = page.locator("table.requests a.open").first();
  await first.focus();
  await page.keyboard.press("Enter");
  const drawer = page.locator("#drawer");
  await drawer.getByRole("heading", { name: "Repeat it" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/dashboard/activity");
  await page.keyboard.press("Escape");
  await drawer.waitFor({ state: "hidden" });
  assert.ok(await first.evaluate((el) => el === document.activeElement), "the focus is back where it was");
  // The time has seconds.
  assert.match(await first.textContent(), /\d+:\d\d:\d\d/);
  await page.locator(".graph .step").last().hover();
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
