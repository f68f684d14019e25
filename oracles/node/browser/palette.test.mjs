// What all pages share, as a person uses it: the search over everything, toasts, charts by keyboard, filters in place.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, phone, signUp, useBrowser } from "./visitor.mjs";

const open = useBrowser();

let state; // the cookies of somebody who is signed in and has made some calls
test("somebody signs up and makes some calls", async () => {
  const { page, context } = await open();
  const key = await signUp(page, "petra@example.com");
  for (const model of ["sandbox/small", "sandbox/small", "sandbox/tiny"]) {
    const response = await fetch(gateway + "/v1/chat/completions", {
      method: "POST",
      headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
    });
    assert.equal(response.status, 200);
    await response.text();
  }
  state = await context.storageState();
});

test("Ctrl+K finds pages, models and docs; arrow keys and Enter go there", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard");
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Search" });
  await palette.getByRole("option", { name: "Overview" }).waitFor();
  await page.keyboard.type("sandbox/");
  const small = palette.getByRole("option", { name: "sandbox/small" });
  await small.waitFor();
  const options = palette.getByRole("option");
  assert.equal(await options.first().getAttribute("aria-selected"), "true");
  await page.keyboard.press("ArrowDown");
  assert.equal(await options.nth(1).getAttribute("aria-selected"), "true");
  assert.equal(await page.getByRole("combobox", { name: "Search" }).getAttribute("aria-activedescendant"), await options.nth(1).getAttribute("id"));
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  assert.equal(await options.last().getAttribute("aria-selected"), "true", "above the first is the last");
  // Enter before the results are there goes to the first of them.
  await page.getByRole("combobox", { name: "Search" }).fill("webhooks");
  await page.keyboard.press("Enter");
  await page.waitForURL(gateway + "/dashboard/webhooks");
  await page.getByRole("link", { name: /^Search/ }).click();
  await palette.waitFor();
  await page.keyboard.press("Escape");
  await palette.waitFor({ state: "hidden" });
  await page.goto(gateway + "/docs/guide");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("stream a reply");
  await palette.getByRole("group", { name: "Guide" }).getByRole("option").first().click();
  await page.waitForURL(/\/docs\/guide\/\w/);
  assert.deepEqual(complaints, []);

  const plain = await open({ storageState: state, javaScriptEnabled: false });
  await plain.page.goto(gateway + "/dashboard/keys");
  await plain.page.getByRole("link", { name: "Search" }).click();
  await plain.page.getByRole("searchbox", { name: "Search" }).fill("sandbox/small");
  await plain.page.getByRole("button", { name: "Search" }).click();
  await plain.page.getByRole("main").getByRole("link", { name: "sandbox/small" }).click();
  await plain.page.waitForURL(/\/dashboard\/models\/sandbox\/small/);
});

test("an expired session sends the search to the sign-in page", async () => {
  const { page, context } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard");
  await context.clearCookies();
  await page.keyboard.press("Control+k");
  await page.waitForURL(/\/signin/);
});

test("a message is a toast in view, and without scripts a note above the page", async () => {
  const { page, complaints } = await open({ storageState: state, viewport: phone[1] });
  await page.goto(gateway + "/dashboard/webhooks");
  const check = async (page) => {
    await page.goto(gateway + "/dashboard/keys?new");
    await page.getByLabel("Name", { exact: true }).fill("short-lived");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.goto(gateway + "/dashboard/keys");
    await page.getByRole("link", { name: /Delete/ }).first().click();
    await page.getByRole("button", { name: "Delete" }).click();
    const text = page.getByRole("status").getByText("The key was deleted.");
    await text.waitFor();
    return page.locator(".toast");
  };
  const toast = await check(page);
  const box = await toast.boundingBox();
  assert.ok(box.y > phone[1].height / 2 && box.y + box.height <= phone[1].height, "the toast is at the foot of the window");
  await toast.getByRole("button", { name: "Dismiss" }).click();
  assert.equal(await toast.count(), 0);
  await page.evaluate(() => document.dispatchEvent(new CustomEvent("toast", { detail: { text: "Could not <b>load</b>.", tone: "bad" } })));
  assert.equal(await page.getByRole("status").locator(".toast.bad span").textContent(), "Could not <b>load</b>.");
  assert.deepEqual(complaints, []);

  const plain = await open({ storageState: state, javaScriptEnabled: false });
  const note = await check(plain.page);
  assert.equal(await note.evaluate((el) => getComputedStyle(el.parentElement).position), "static");
});

test("a chart tells its steps to the pointer and to the keyboard", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity?range=24h");
  const chart = page.getByRole("slider", { name: /^Requests/ });
  const said = () => chart.getAttribute("aria-valuetext");
  assert.match(await said(), /\d+ \w+ \d\d:\d\d, Total: 3, sandbox\/small: 2, sandbox\/tiny: 1/);
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await said(), /No requests/);
  assert.equal(await chart.getAttribute("aria-valuenow"), String(Number(await chart.getAttribute("aria-valuemax")) - 1));
  const tip = page.locator(".tip");
  assert.match(await tip.textContent(), /No requests/);
  await page.keyboard.press("Home");
  assert.equal(await chart.getAttribute("aria-valuenow"), "1");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await chart.getAttribute("aria-valuenow"), "1", "there is nothing before the first step");
  await page.keyboard.press("End");
  assert.match(await tip.textContent(), /sandbox\/small2/);
  await page.keyboard.press("Escape");
  assert.equal(await tip.count(), 0);
  await page.locator(".graph .step").last().hover();
  assert.match(await tip.textContent(), /Total3/);
  await page.getByRole("heading", { name: "Activity", level: 1 }).hover();
  assert.deepEqual(complaints, []);
});

test("filters replace the page in place; Back and Forward restore what was chosen", async () => {
  const { page, complaints } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard/activity?range=30d");
  await page.evaluate(() => { window.sameDocument = true; });
  const same = () => page.evaluate(() => window.sameDocument === true);
  const model = page.getByLabel("Model", { exact: true }), rows = page.locator("table.requests tbody tr");
  assert.equal(await rows.count(), 3);
  await model.focus();
  await model.selectOption("sandbox/tiny");
  await page.waitForURL(/model=sandbox%2Ftiny/);
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 1);
  assert.ok(!page.url().includes("outcome="), "a filter that is not set is not in the address");
  assert.ok(await model.evaluate((el) => el === document.activeElement), "the focus stays on the menu");
  await page.getByLabel("Group by").selectOption("key");
  await page.waitForURL(/by=key/);
  assert.ok(await same(), "the document is still the same");
  await page.goBack();
  await page.waitForURL((url) => !url.search.includes("by=key"));
  await page.waitForFunction(() => document.getElementById("f-by").value === "model");
  assert.equal(await model.inputValue(), "sandbox/tiny");
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 3);
  assert.equal(await model.inputValue(), "");
  await page.goForward();
  await page.waitForFunction(() => document.querySelectorAll("table.requests tbody tr").length === 1);
  assert.equal(await model.inputValue(), "sandbox/tiny");
  assert.ok(await same(), "Back and Forward do not load the document again");
  assert.deepEqual(complaints, []);
});

test("nothing is wider than a window of 320 pixels, in either direction of writing", async () => {
  const { page } = await open({ storageState: state, viewport: { width: 320, height: 640 } });
  for (const path of ["/dashboard", "/dashboard/find?q=sandbox", "/docs/guide", "/docs/guide/call", "/signin", "/reset"]) {
    await page.goto(gateway + path);
    for (const dir of ["ltr", "rtl"]) {
      const over = await page.evaluate((dir) => {
        document.documentElement.dir = dir;
        return document.documentElement.scrollWidth - innerWidth;
      }, dir);
      assert.ok(over <= 0, `${path} is ${over} pixels too wide, written ${dir}`);
    }
  }
});
