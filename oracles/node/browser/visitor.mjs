// What the tests in a browser share: a browser, and a person who signs up with it.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const gateway = process.env.GATEWAY;
export const password = "correct horse battery";

// mail waits for the next mail to an address and returns its text.
export async function mail(to) {
  const response = await fetch(process.env.MAIL + "/?to=" + encodeURIComponent(to));
  assert.equal(response.status, 200, "a mail to " + to);
  return response.text();
}

// link is the first link in a text, at the name by which the test calls the gateway.
export const link = (text) => text.match(/https?:\/\/\S+/)[0].replace(/^https?:\/\/[^/]+/, gateway);

// useBrowser starts a browser for the tests of a file and returns a function that opens a window in it.
// Whatever a page complains about (a script's error, a broken rule of its content policy) is a failure.
export function useBrowser() {
  let browser;
  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM,
      // Without a process that plays a graphics card, and with one process for all pages: starting them takes a sixth of the
      // processor time of errors.test.mjs.
      args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-proxy-server", "--disable-gpu", "--in-process-gpu", "--renderer-process-limit=1"],
    });
  });
  after(async () => {
    await browser.close();
    if (all && paints.length) {
      const sorted = paints.toSorted((a, b) => a.ms - b.ms), last = sorted.at(-1);
      console.log(`soak: ${sorted.length} pages, first paint after their first byte: median ${sorted[sorted.length >> 1].ms} ms, worst ${last.ms} ms (${last.path})`);
    }
  });
  return async (options = {}) => {
    // Without motion: a page that is left while it fades in complains about the transition that it aborts.
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    const complaints = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      // A status that a form answers with is no fault of the page, nor is a search that the next letter replaces.
      const known = ["Failed to load resource", "htmx:sendAbort", "htmx:afterRequest"];
      if (message.type() === "error" && !known.some((text) => message.text().startsWith(text))) complaints.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(gateway) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) complaints.push("loads " + request.url());
    });
    return { page, context, complaints };
  };
}

// signUp opens an account and returns its master key.
export async function signUp(page, email) {
  await page.goto(gateway + "/signup");
  await page.getByLabel("E-mail").fill(email);
  await page.getByRole("button", { name: "Sign up" }).click();
  await page.getByRole("heading", { name: "Check your e-mail" }).waitFor();
  await page.goto(link(await mail(email)));
  await page.getByLabel("New password").fill(password);
  await page.getByRole("button", { name: "Create account" }).click();
  const key = await page.locator("#master-key").textContent();
  assert.match(key, /^service-\w{46}$/);
  return key;
}

// code is the code that an authenticator app shows for a secret.
function code(secret) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret.replace(/[\s=]/g, "")].map((c) => alphabet.indexOf(c).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000)));
  const hash = createHmac("sha1", key).update(counter).digest();
  const at = hash[19] & 15;
  return String((hash.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

// join signs up a member of staff with two-step sign-in.
export async function join(page, email) {
  await signUp(page, email);
  await page.goto(gateway + "/dashboard/account?totp");
  const part = page.getByRole("dialog");
  await part.getByLabel("Current password").fill(password);
  await part.getByRole("button", { name: "Set up" }).click();
  await part.getByLabel("Code").fill(code(await page.locator("#totp-secret").textContent()));
  await part.getByRole("button", { name: "Turn on" }).click();
  await page.getByText("The authenticator app was turned on.").first().waitFor();
  const made = await fetch(process.env.OPERATOR + "/staff?email=" + encodeURIComponent(email), { method: "POST" });
  assert.equal(made.status, 200, await made.text());
}

// subscribe buys a plan with a test card.
export async function subscribe(page, plan, card = "4242424242424242") {
  await page.goto(gateway + "/dashboard/plan");
  await page.getByRole("button", { name: "Subscribe to " + plan }).click();
  await page.locator(`input[value="${card}"]`).check();
  await page.getByRole("button", { name: /^Pay / }).click();
}

// The sizes of windows in which pages are examined.
export const desk = ["desk", { width: 1280, height: 860 }], phone = ["phone", { width: 390, height: 844 }];

// themes are the themes with the sizes that each page is examined in. In a soak, or with SHOTS=folder for pictures,
// each in both sizes.
const all = process.env.SHOTS || process.env.SLUICE_SOAK;
export const themes = [["light", all ? [desk, phone] : [desk]], ["dark", all ? [desk, phone] : [phone]]];

// What a page may take before it can be used: bytes as they are sent, of the page and of all that it loads, and requests.
const heaviest = 120 << 10, mostRequests = 10;

// paints are how long each page took from its first byte until something was drawn.
const paints = [];

// weigh checks what the open page took.
async function weigh(page, path) {
  const { bytes, requests, ms } = await page.evaluate(async () => {
    const [first] = performance.getEntriesByName("first-contentful-paint"), [own] = performance.getEntriesByType("navigation");
    const loaded = [own, ...performance.getEntriesByType("resource")];
    return { bytes: loaded.reduce((sum, e) => sum + e.encodedBodySize, 0), requests: loaded.length, ms: first && Math.round(first.startTime - own.responseStart) };
  });
  assert.ok(bytes < heaviest, `${path} takes ${bytes} bytes`);
  assert.ok(requests <= mostRequests, `${path} takes ${requests} requests`);
  if (ms !== undefined) paints.push({ path, ms });
}

// examine opens a page and checks that it has no fault of accessibility, is no wider than its window and not too heavy. With
// SHOTS it takes a picture. A page in the dark is looked at for what can differ from the same page in light.
export async function examine(page, path, name) {
  const response = await page.goto(gateway + path);
  assert.equal(response.status(), 200, path);
  await page.locator("h1").first().waitFor(); // that of the playground comes with its script
  await weigh(page, path);
  await page.evaluate(axe);
  const runOnly = !all && name.endsWith("-dark") ? ["color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable", "meta-viewport"] : undefined;
  const { violations } = await page.evaluate((runOnly) => window.axe.run(document, { resultTypes: ["violations"], ...(runOnly && { runOnly }) }), runOnly);
  const faults = violations.filter((v) => v.impact !== "minor")
    .map((v) => v.id + ": " + v.nodes.map((n) => n.html).join(" "));
  assert.deepEqual(faults, [], path);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), path + " is wider than its window");
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}.png`, fullPage: true });
}
