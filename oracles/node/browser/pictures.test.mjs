// The pictures of the documents, made from the pages as they are. "make pictures" sets PICTURES to the folder docs and
// replaces them; a soak makes them and throws them away, so that the command works when somebody needs it.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, join, signUp, subscribe, useBrowser } from "./visitor.mjs";

const open = useBrowser();
const desk = { width: 1280, height: 860 };

// The customer whose pages are shown, and what signs in.
let customer, key;
const account = "ana@example.com";

// picture takes a picture of a page, in a window of its own.
async function picture(name, storageState, path, { colorScheme = "light", viewport = desk, fullPage = false, prepare = async () => {} } = {}) {
  const { page, context, complaints } = await open({ storageState, colorScheme, viewport });
  const response = await page.goto(gateway + path);
  assert.equal(response.status(), 200, path);
  await prepare(page);
  // A window as high as the page, so that the menu beside it is, too.
  if (fullPage) await page.setViewportSize({ width: viewport.width, height: await page.evaluate(() => document.documentElement.scrollHeight) });
  await page.evaluate(() => { document.activeElement?.blur(); window.scrollTo(0, 0); });
  const image = await page.screenshot({ path: process.env.PICTURES && `${process.env.PICTURES}/${name}.png` });
  assert.ok(image.length > 10_000, name + " is empty");
  assert.deepEqual(complaints, [], name);
  await context.close();
}

// call makes a call, and returns its status.
async function call(key, model, text = "Sort: pear, apple, fig", more = {}) {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: text }], ...more }),
  });
  await response.text();
  return response.status;
}

test("the customer's pages", async () => {
  const { page, context } = await open();
  key = await signUp(page, account);
  await subscribe(page, "Premium");
  await page.getByText("Your plan is active.").waitFor();
  for (const name of ["laptop", "nightly job", "website"]) {
    await page.goto(gateway + "/dashboard/keys?new");
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create key" }).click();
    await page.locator("#new-key").waitFor();
  }
  const models = ["sandbox/small", "sandbox/small", "sandbox/large", "service/auto", "sandbox/reasoner", "sandbox/tiny"];
  for (let i = 0; i < 30; i++) assert.equal(await call(key, models[i % models.length], `What is ${i} * 23 + 4?`, { max_tokens: 200 + i }), 200);
  await call(key, "sandbox/none");
  await page.goto(gateway + "/dashboard/keys"); // the new key was shown, and is not shown again
  customer = await context.storageState();

  await picture("dashboard/overview", customer, "/dashboard");
  await picture("dashboard/activity-dark", customer, "/dashboard/activity?range=1h&by=model", { colorScheme: "dark", viewport: { width: 1280, height: 1000 } });
  await picture("dashboard/plan", customer, "/dashboard/plan");
  await picture("dashboard/keys-phone", customer, "/dashboard/keys", { viewport: { width: 390, height: 780 } });
  await picture("dashboard/playground-dark", customer, "/dashboard/playground", {
    colorScheme: "dark",
    prepare: async (page) => {
      await page.locator("#model").selectOption("sandbox/small");
      await page.getByLabel("Message", { exact: true }).fill("Sort these words: pear, apple, fig, quince.");
      await page.keyboard.press("Enter");
      await page.locator(".turn.assistant .facts-line").waitFor();
    },
  });
});

test("videos", async () => {
  for (const prompt of ["a lighthouse at dusk", "snow falls on a mountain village", "hot-air balloons over a valley at sunrise"]) {
    const headers = { Authorization: "Bearer " + key, "Content-Type": "application/json" };
    const made = await fetch(gateway + "/v1/video/generations/jobs", { method: "POST", headers, body: JSON.stringify({ prompt, n_seconds: 2, width: 854, height: 480 }) });
    assert.equal(made.status, 200, await made.clone().text());
    const { id } = await made.json();
    for (let status = ""; status !== "succeeded";) {
      ({ status } = await (await fetch(gateway + "/v1/video/generations/jobs/" + id, { headers })).json());
      assert.ok(!["failed", "cancelled"].includes(status), status);
    }
  }
  await picture("dashboard/videos", customer, "/dashboard/videos", { prepare: async (page) => {
    await page.getByText("hot-air balloons").first().waitFor();
    await page.waitForFunction(() => [...document.querySelectorAll("video")].every((video) => { video.preload = "auto"; return video.readyState >= 3; }));
  } });
});

test("webhooks", async () => {
  const { page, context } = await open({ storageState: customer });
  await page.goto(gateway + "/dashboard/webhooks");
  await page.getByLabel("URL").fill("https://hooks.example.invalid/sluice");
  await page.getByRole("button", { name: "Create webhook" }).click();
  await page.locator("#new-secret").waitFor();
  await page.getByRole("button", { name: "Send test" }).click();
  await page.getByText("A test is on its way.").waitFor();
  await context.close();
  await picture("alerts/webhooks", customer, "/dashboard/webhooks", { fullPage: true });
});

test("the pages of staff", async () => {
  const { page, context } = await open();
  await join(page, "eve@example.com");
  const staff = await context.storageState();
  // Somebody without a plan, whose calls switch the keys off.
  const { page: other } = await open();
  const off = await signUp(other, "bob@example.com");
  let status = 200;
  for (let calls = 0; status === 200 && calls < 100; calls++) status = await call(off, "sandbox/small");
  assert.equal(status, 401);

  await picture("support/overview", staff, "/support/overview", { fullPage: true });
  await picture("alerts/console-dark", staff, "/support/alerts", { colorScheme: "dark", fullPage: true });
  await page.goto(gateway + "/support/queue");
  await page.getByRole("row").filter({ hasText: "bob@example.com" }).getByRole("link", { name: "Your keys are switched off" }).click();
  await page.getByRole("img", { name: /Abuse score over this month/ }).waitFor();
  await picture("support/ticket-dark", staff, new URL(page.url()).pathname, { colorScheme: "dark", fullPage: true });
  await page.getByRole("link", { name: "bob@example.com" }).first().click();
  await page.getByRole("heading", { name: "bob@example.com" }).waitFor();
  await picture("support/account", staff, new URL(page.url()).pathname, { viewport: { width: 1280, height: 960 } });
});
