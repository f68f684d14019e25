// The guide: pages, the search, and what works without scripts.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();
const pages = ["/docs/guide", "/docs/guide/call", "/docs/guide/call/limits", "/docs/guide/errors", "/docs/guide/search?q=why+429", "/docs/guide/search?q=xyzzy"];

for (const [colorScheme, sizes] of themes) {
  for (const [size, viewport] of sizes) {
    test(`the guide, ${colorScheme}, ${size}`, async () => {
      const { page, complaints } = await open({ colorScheme, viewport, reducedMotion: "reduce" });
      for (const path of pages) await examine(page, path, `guide-${path.replace(/\W+/g, "-")}-${size}-${colorScheme}`);
      assert.deepEqual(complaints, []);
    });
  }
}

test("a question is answered in two clicks, without scripts", async () => {
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(gateway + "/docs/guide");
  await page.getByRole("searchbox", { name: "Search the guide" }).fill("rotate a key");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Results for “rotate a key”" }).waitFor();
  await page.locator(".results li a").first().click();
  await page.waitForURL("**/docs/guide/teams#rotate-a-key");
  assert.ok(await page.getByRole("heading", { name: "Rotate a key" }).isVisible());
  // From page to page.
  await page.getByRole("navigation", { name: "Next pages" }).getByRole("link", { name: /Next/ }).click();
  await page.getByRole("heading", { level: 1, name: "The dashboard" }).waitFor();
});

test("the slash leads to the search, and examples are copied", async () => {
  const { page, complaints } = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  await page.goto(gateway + "/");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Guide" }).click();
  await page.waitForURL("**/docs/guide");
  await page.keyboard.press("/");
  await page.keyboard.type("first calls");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Results for “first calls”" }).waitFor();
  await page.goto(gateway + "/docs/guide/call");
  await page.locator(".code-box .copy").first().click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  // The examples have the address of this server.
  assert.match(await page.locator("article").textContent(), new RegExp(gateway));
  assert.deepEqual(complaints, []);
});

test("a page that is not there leads to those that are", async () => {
  const { page } = await open();
  const response = await page.goto(gateway + "/docs/guide/rotate-keys");
  assert.equal(response.status(), 404);
  await page.getByRole("link", { name: "Rotate a key" }).click();
  await page.waitForURL("**/docs/guide/teams#rotate-a-key");
});

test("pictures follow the theme that the visitor has chosen", async () => {
  const { page, context } = await open({ colorScheme: "light" });
  await context.addCookies([{ name: "theme", value: "dark", url: gateway }]);
  await page.goto(gateway + "/docs/guide/teams/dashboard");
  for (const img of await page.locator("img.on-light").all()) assert.ok(!(await img.isVisible()));
  for (const img of await page.locator("img.on-dark").all()) assert.ok(await img.isVisible());
});
