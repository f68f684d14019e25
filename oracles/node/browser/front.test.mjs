// The pages for everybody: a stranger's way to the first answer, models, and what is not there.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, link, mail, password, signUp, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();
const pages = ["/", "/models?compare=sandbox/small&compare=sandbox/large", "/models/sandbox/small", "/pricing", "/status"];

// run does what a curl command says, and returns the reply.
async function run(command, key) {
  const url = command.match(/https?:\/\/\S+/)[0];
  const headers = Object.fromEntries([...command.matchAll(/-H "([^:]+): ([^"]+)"/g)].map((m) => [m[1], m[2].replace("$SLUICE_KEY", key)]));
  const response = await fetch(url, { method: "POST", headers, body: command.match(/-d '([^]*)'/)[1] });
  return { status: response.status, body: await response.json() };
}

test("from the first page to the first answer", async (t) => {
  const { page, complaints } = await open();
  let clicks = 0, forms = 0;
  const click = async (target) => { clicks++; await target.click(); };
  const send = async (button) => { forms++; await click(button); };
  const began = performance.now();
  await page.goto(gateway + "/");
  await click(page.getByRole("link", { name: "Get started" }).first());
  await page.getByLabel("E-mail").fill("stranger@example.com");
  await send(page.getByRole("button", { name: "Sign up" }));
  await page.getByRole("heading", { name: "Check your e-mail" }).waitFor();
  clicks++; // the link in the mail
  await page.goto(link(await mail("stranger@example.com")));
  await page.getByLabel("New password").fill(password);
  await send(page.getByRole("button", { name: "Create account" }));
  const key = await page.locator("#master-key").textContent();
  await click(page.locator("[data-copy=master-key]"));
  const { status, body } = await run(await page.locator("#first-code-curl").textContent(), key);
  assert.equal(status, 200, JSON.stringify(body));
  assert.ok(body.choices[0].message.content);
  t.diagnostic(`${clicks} clicks, ${forms} forms, ${((performance.now() - began) / 1000).toFixed(1)} s`);
  assert.ok(clicks <= 8 && forms <= 3, `${clicks} clicks and ${forms} forms`);
  // Who is signed in goes on to the dashboard.
  await page.goto(gateway + "/");
  assert.equal(new URL(page.url()).pathname, "/dashboard");
  assert.deepEqual(complaints, []);
});

test("the examples on the first page work", async () => {
  const { page } = await open();
  const key = await signUp(page, "example@example.com");
  const { page: stranger } = await open();
  await stranger.goto(gateway + "/");
  const { status } = await run(await stranger.locator("#first-code-curl").textContent(), key);
  assert.equal(status, 200);
  await stranger.getByRole("tab", { name: "curl" }).focus();
  for (const name of ["Python", "TypeScript", "Go"]) {
    await stranger.keyboard.press("ArrowRight");
    assert.match(await stranger.getByRole("tabpanel", { name }).textContent(), new RegExp(gateway));
  }
});

test("searching models: the address follows, and Back leaves the page", async () => {
  const { page, context, complaints } = await open();
  for (const signedIn of [false, true]) {
    if (signedIn) await signUp(page, "models@example.com");
    const list = signedIn ? "/dashboard/models" : "/models";
    await page.goto(gateway + "/pricing");
    await page.goto(gateway + list);
    const before = await page.evaluate(() => history.length);
    await page.keyboard.press("/");
    await page.keyboard.type("sandbox tiny", { delay: 30 });
    await page.getByText("1 of").waitFor();
    await page.waitForURL((url) => url.searchParams.get("q") === "sandbox tiny");
    assert.equal(await page.evaluate(() => history.length), before, "letters are entries of the history");
    await page.reload();
    assert.equal(await page.getByLabel("Search").inputValue(), "sandbox tiny");
    await page.getByText("1 of").waitFor();
    // To a model and back: the whole page, as it was left.
    await page.getByRole("link", { name: "sandbox/tiny", exact: true }).click();
    await page.getByRole("heading", { name: "sandbox/tiny" }).waitFor();
    await page.goBack();
    await page.getByText("1 of").waitFor();
    assert.equal(await page.getByRole("heading", { name: "Models", exact: true }).count(), 1, "Back shows a part of a page");
    assert.equal(await page.getByLabel("Search").inputValue(), "sandbox tiny");
    await page.goBack();
    await page.waitForURL("**/pricing");
    // Filters, order and comparison are in the address, too, and a second window shows the same.
    await page.goto(gateway + list);
    await page.getByLabel("Kind").selectOption("embedding");
    await page.getByText("1 of").waitFor();
    await page.getByLabel("Kind").selectOption("");
    await page.getByLabel("Compare sandbox/small").check();
    await page.getByText("Tick another model").waitFor();
    await page.getByLabel("Compare sandbox/large").check();
    await page.getByRole("heading", { name: "Comparison" }).waitFor();
    await page.getByLabel("Sort by").selectOption("name");
    await page.waitForURL((url) => url.searchParams.get("sort") === "name" && url.searchParams.getAll("compare").length === 2);
    const other = await context.newPage();
    await other.goto(page.url());
    await other.getByRole("heading", { name: "Comparison" }).waitFor();
    await other.close();
  }
  // A session that has ended: the sign-in leads back to the list.
  await context.clearCookies();
  await page.getByLabel("Kind").selectOption("video");
  await page.waitForURL("**/signin**");
  assert.deepEqual(complaints, []);
});

test("a model is searched without scripts", async () => {
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(gateway + "/models");
  await page.getByLabel("Search").fill("tiny");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("1 of").waitFor();
});

test("the reference is searched and copied from", async () => {
  const { page, complaints } = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  await page.goto(gateway + "/docs");
  const bytes = await page.evaluate(() => performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize || 0), 0));
  assert.ok(bytes < 120 << 10, `/docs takes ${bytes} bytes`);
  await page.keyboard.press("/");
  await page.keyboard.type("embedding dimensions");
  await page.getByText(/^[1-9]\d? sections?$/).waitFor();
  assert.ok(await page.getByRole("link", { name: /Create embeddings/ }).isVisible());
  assert.ok(!(await page.getByRole("link", { name: /Cancel a response/ }).isVisible()));
  await page.keyboard.press("Enter");
  await page.waitForURL("**/docs/createEmbeddings");
  await page.getByRole("heading", { name: "Create embeddings", level: 1 }).waitFor();
  await page.locator(".samples .copy").first().click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), new RegExp(gateway));
  assert.deepEqual(complaints, []);
});

test("what is not there is a page", async () => {
  const { page } = await open();
  const response = await page.goto(gateway + "/nowhere/at/all");
  assert.equal(response.status(), 404);
  await page.getByText("There is no page at this address").waitFor();
  await page.getByRole("link", { name: "Home" }).click();
  await page.waitForURL(gateway + "/");
});

for (const [colorScheme, sizes] of themes) {
  for (const [size, viewport] of sizes) {
    test(`public pages, ${colorScheme}, ${size}`, async () => {
      const { page, complaints } = await open({ colorScheme, viewport, reducedMotion: "reduce" });
      for (const path of pages) {
        await examine(page, path, `public-${path.replace(/\W+/g, "-")}-${size}-${colorScheme}`);
        const bytes = await page.evaluate(() => performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize || 0), 0));
        assert.ok(bytes < 120 << 10, `${path} takes ${bytes} bytes`);
      }
      assert.deepEqual(complaints, []);
    });
  }
}

test("public pages by keyboard", async () => {
  const { page } = await open();
  for (const path of [...pages, "/models/sandbox/embed", "/models/video-default", "/docs", "/docs/createChatCompletion"]) {
    await page.goto(gateway + path);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to main content", path);
    const missed = await page.evaluate(() => [...document.querySelectorAll("[tabindex]")].filter((el) => el.tabIndex > 0).length);
    assert.equal(missed, 0, path);
  }
});
