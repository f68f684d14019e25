// Every page in light and dark, on a desk and on a phone: without a serious fault of accessibility, no wider
// than its window, and usable by keyboard. In a soak, or with SHOTS=folder for pictures, each in both sizes.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, link, mail, signUp, subscribe, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();

const outside = ["/signin", "/signup", "/reset", "/find?q=limits"];
const inside = ["", "/find?q=small", "/keys", "/keys?new", "/keys?regenerate", "/activity", "/activity?range=1h&by=status&show=latency", "/activity/routing", "/activity/whatif", "/costs", "/costs/caches", "/sessions", "/budgets", "/models", "/models/compare?m=sandbox/small&m=sandbox/large", "/playground", "/playground/shares", "/videos", "/plan", "/plan?cancel", "/plan/upgrade?plan=premium", "/plan/card", "/messages", "/messages/new", "/webhooks", "/webhooks?new", "/account", "/account?email", "/account?details", "/account?sessions", "/account/log"].map((path) => "/dashboard" + path);

let state; // the cookies of somebody who is signed in
test("somebody signs up and makes some calls", async () => {
  const { page, context } = await open();
  const key = await signUp(page, "gina@example.com");
  await page.goto(gateway + "/reset");
  await page.getByLabel("E-mail").fill("gina@example.com");
  await page.getByRole("button", { name: "Send link" }).click();
  outside.push(link(await mail("gina@example.com")).slice(gateway.length));
  await subscribe(page, "Basic");
  await page.getByText("Your plan is active.").waitFor();
  for (const model of ["sandbox/small", "sandbox/large"]) {
    const response = await fetch(gateway + "/v1/chat/completions", {
      method: "POST",
      headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
    });
    assert.equal(response.status, 200);
    await response.text();
  }
  for (const name of ["laptop", "nightly job"]) {
    await page.goto(gateway + "/dashboard/keys?new");
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create key" }).click();
    await page.locator("#new-key").waitFor();
  }
  await page.goto(gateway + "/dashboard/webhooks?new");
  await page.getByLabel("URL").fill("https://hooks.example.invalid/sluice");
  await page.getByRole("button", { name: "Create webhook" }).click();
  await page.locator("#new-secret").waitFor();
  await page.getByRole("button", { name: "Send test" }).click();
  await page.getByText("A test is on its way.").waitFor();
  state = await context.storageState();
});

for (const [colorScheme, sizes] of themes) {
  for (const [size, viewport] of sizes) {
    test(`all pages, ${colorScheme}, ${size}`, async () => {
      for (const [paths, storageState] of [[outside, undefined], [inside, state]]) {
        const { page, context, complaints } = await open({ colorScheme, viewport, storageState, reducedMotion: "reduce" });
        for (const path of paths) {
          const name = path.replace(/^\/(dashboard\/?)?/, "").replace(/\?token=.*/, "").replace(/\W+/g, "-") || "overview";
          await examine(page, path, `${name}-${size}-${colorScheme}`);
        }
        assert.deepEqual(complaints, []);
        await context.close();
      }
    });
  }
}

test("every page by keyboard", async () => {
  const { page } = await open({ storageState: state });
  for (const path of inside) {
    await page.goto(gateway + path);
    if (await page.locator("dialog[open]").count()) { // a dialog keeps the keyboard to itself
      assert.match(path, /\?(new|regenerate|cancel|email|details|sessions)$/, path + " opens a dialog");
      continue;
    }
    if (path !== "/dashboard/plan/card") {
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to main content", path);
      await page.keyboard.press("Enter");
    }
    // From there the tab key reaches everything in the page that can be used, and each shows that it is reached.
    const reached = await page.evaluate(() => document.querySelectorAll("main a[href], main button, main input, main select, main textarea, main summary").length);
    const seen = new Set();
    for (let i = 0; i < reached + 20; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const el = document.activeElement;
        if (!el.closest("main")) return null;
        const style = getComputedStyle(el);
        el.dataset.reached ||= String(Math.random());
        return { id: el.dataset.reached, visible: style.outlineStyle !== "none" || el.type === "radio" };
      });
      if (!at) { if (seen.size) break; continue; }
      assert.ok(at.visible, path + ": the focus does not show");
      seen.add(at.id);
    }
    const missed = await page.evaluate(() => [...document.querySelectorAll("main a[href], main button, main input, main select, main textarea, main summary")]
      .filter((el) => el.checkVisibility() && el.type !== "hidden" && el.tabIndex >= 0 && !el.disabled && el.type !== "radio" && !el.dataset.reached)
      .map((el) => el.outerHTML.slice(0, 100)));
    assert.deepEqual(missed, [], path);
  }
  await page.goto(gateway + "/dashboard");
  await page.getByRole("tab", { name: "curl" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.getByRole("tabpanel", { name: "Python" }).isVisible());
  await page.goto(gateway + "/dashboard/models");
  await page.keyboard.press("/");
  await page.keyboard.type("tiny");
  await page.getByText("1 of").waitFor();
});

test("the theme is kept", async () => {
  const { page } = await open({ storageState: state });
  await page.goto(gateway + "/dashboard");
  await page.getByRole("button", { name: "Theme" }).click();
  await page.getByRole("button", { name: "Theme" }).click();
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
});
