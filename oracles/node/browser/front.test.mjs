// The pages for everybody: a stranger's way to the first answer, models, and what is not there.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, link, mail, password, signUp, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();
const load = "calls=1000&in=2000&cached=500&out=300";
const pages = ["/", "/models?m=sandbox/small&" + load, "/models/compare?m=sandbox/small&m=sandbox/large&" + load, "/models/sandbox/small", "/pricing?model=sandbox/small&" + load, "/status", "/docs", "/docs/createChatCompletion"];

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
  await page.goto(link(await mail("stranger@example.com")));
  await page.getByLabel("New password").fill(password);
  await send(page.getByRole("button", { name: "Create account" }));
  await click(page.getByRole("button", { name: "Run it now" }));
  await page.locator("#first-answer").getByText(/answered in/).waitFor();
  assert.notEqual((await page.locator("#first-answer [data-text]").textContent()).trim(), "");
  t.diagnostic(`soak: from the first visit to the first answer: ${clicks} clicks and the link in the mail, ${forms} forms, ${((performance.now() - began) / 1000).toFixed(1)} s`);
  assert.ok(clicks <= 4 && forms <= 2, `${clicks} clicks and ${forms} forms`);
  // The program on the page has the key in it, and works as it is.
  const key = await page.locator("#master-key").textContent(), program = await page.locator("#first-code-curl").textContent();
  assert.ok(program.includes(key));
  const { status, body } = await run(program);
  assert.equal(status, 200, JSON.stringify(body));
  assert.ok(body.choices[0].message.content);
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
    assert.equal(await page.locator("#f-q").inputValue(), "sandbox tiny");
    await page.getByText("1 of").waitFor();
    // To a model and back: the whole page, as it was left.
    await page.getByRole("link", { name: "sandbox/tiny", exact: true }).click();
    await page.getByRole("heading", { name: "sandbox/tiny" }).waitFor();
    await page.goBack();
    await page.getByText("1 of").waitFor();
    assert.equal(await page.getByRole("heading", { name: "Models", exact: true }).count(), 1, "Back shows a part of a page");
    assert.equal(await page.locator("#f-q").inputValue(), "sandbox tiny");
    await page.goBack();
    await page.waitForURL("**/pricing");
    // Filters, order and ticks are in the address, without what is empty, and a second window shows the same.
    await page.goto(gateway + list);
    await page.getByLabel("Kind").selectOption("embedding");
    await page.getByText("1 of").waitFor();
    await page.getByLabel("Compare sandbox/embed").check();
    await page.getByLabel("Kind").selectOption("");
    await page.getByLabel("Compare sandbox/small").check();
    await page.getByLabel("Sort by").selectOption("name");
    await page.waitForURL((url) => [...url.searchParams].map(String).sort().join(" ") === "m,sandbox/embed m,sandbox/small sort,name");
    await page.getByRole("button", { name: "Compare 2 models" }).waitFor();
    const other = await context.newPage();
    await other.goto(page.url());
    assert.ok(await other.getByLabel("Compare sandbox/embed").isChecked());
    assert.equal(await other.getByLabel("Sort by").inputValue(), "name");
    await other.close();
    // A tick survives a filter that hides its model.
    await page.locator("#f-q").fill("reasoner");
    await page.getByText("1 of").waitFor();
    await page.getByLabel("Compare sandbox/reasoner").check();
    await page.getByRole("button", { name: "Compare 3 models" }).click();
    await page.waitForURL((url) => url.pathname === list + "/compare" && url.searchParams.getAll("m").length === 3);
    // Back to the list, as it was left.
    await page.goBack();
    await page.getByRole("button", { name: "Compare 3 models" }).waitFor();
    assert.equal(await page.locator("#f-q").inputValue(), "reasoner");
    assert.ok(await page.getByLabel("Compare sandbox/reasoner").isChecked());
    assert.equal(await page.getByLabel("Kind").inputValue(), "");
  }
  // A session that has ended: the sign-in leads back to the list.
  await context.clearCookies();
  await page.getByLabel("Kind").selectOption("video");
  await page.waitForURL("**/signin**");
  assert.deepEqual(complaints, []);
});

test("models are searched, priced and compared without scripts", async () => {
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(gateway + "/models");
  await page.locator("#f-q").fill("tiny");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("1 of").waitFor();
  await page.goto(gateway + "/models");
  await page.getByText("Cost of my workload", { exact: true }).click();
  await page.getByLabel("Calls per month").fill("2000");
  await page.getByLabel("Input tokens per call").fill("1000");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByRole("row", { name: /sandbox\/small/ }).getByText("$6.00", { exact: true }).waitFor();
  await page.getByLabel("Compare sandbox/small").check();
  await page.getByLabel("Compare sandbox/large").check();
  await page.getByRole("button", { name: "Compare" }).click();
  // 2,000 calls of 1,000 tokens: at $3 and at $1 for a million.
  await page.getByRole("row", { name: /^Your workload, a month \$6\.00 \$2\.00 ?\(best\)$/ }).waitFor();
  await page.getByLabel("Calls per month").fill("4000");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("row", { name: /^Your workload, a month \$12\.00 \$4\.00 ?\(best\)$/ }).waitFor();
  await page.goto(gateway + "/models/sandbox/small");
  await page.getByLabel("Output tokens per call").fill("1000");
  await page.getByRole("button", { name: "Calculate" }).click();
  await page.getByRole("status").getByText("$210.00").waitFor(); // 10,000 calls of 2,000 tokens in and 1,000 out
});

test("a model is priced for a workload while it is typed", async () => {
  const { page, complaints } = await open();
  await page.goto(gateway + "/models/sandbox/small");
  for (const [label, value] of [["Calls per month", "1000"], ["Input tokens per call", "2000"], ["Cached tokens per call", "500"], ["Output tokens per call", "300"]]) await page.getByLabel(label).fill(value);
  // 1,500 at $3, 500 at $0.30 and 300 at $15 for a million: $0.00915 a call.
  const answer = page.getByRole("status").filter({ hasText: "a month" });
  await answer.getByText("$9.15").waitFor();
  await answer.getByText("$0.00915").waitFor();
  await page.waitForURL((url) => url.searchParams.get("cached") === "500");
  await page.reload();
  assert.equal(await page.getByLabel("Cached tokens per call").inputValue(), "500");
  await page.getByRole("link", { name: "3 hours" }).click();
  await page.waitForURL((url) => url.searchParams.get("span") === "3h" && url.searchParams.get("out") === "300");
  assert.deepEqual(complaints, []);
});

test("models are added to a comparison and removed from it", async () => {
  const { page, complaints } = await open();
  await page.goto(gateway + "/models/compare?m=sandbox/small&m=nobody/knows");
  await page.getByText("There is no model nobody/knows").waitFor();
  for (const id of ["sandbox/large", "sandbox/tiny", "sandbox/heavy"]) {
    await page.getByLabel("Add a model").selectOption(id);
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByRole("link", { name: "Remove " + id }).waitFor();
  }
  assert.equal(await page.getByLabel("Add a model").count(), 0, "a fifth model can be added");
  assert.equal(await page.getByRole("link", { name: /^Remove/ }).count(), 4);
  await page.getByRole("link", { name: "Remove sandbox/small" }).click();
  await page.waitForURL((url) => !url.searchParams.getAll("m").includes("sandbox/small"));
  await page.goBack();
  await page.getByRole("link", { name: "Remove sandbox/small" }).waitFor();
  // Try leads through the sign-in to the playground with that model.
  await page.getByRole("link", { name: "Try sandbox/tiny" }).click();
  await page.waitForURL((url) => url.pathname === "/signin" && url.searchParams.get("next") === "/dashboard/playground?model=sandbox%2Ftiny");
  assert.deepEqual(complaints, []);
});

test("the page of prices finds a plan, and the sign-up keeps it", async () => {
  const { page, complaints } = await open();
  await page.goto(gateway + "/pricing");
  await page.getByLabel("Model", { exact: true }).selectOption("sandbox/large");
  for (const [label, value] of [["Calls per month", "1000"], ["Peak calls per minute", "20"], ["Input tokens per call", "1000"], ["Output tokens per call", "100"]]) await page.getByLabel(label).fill(value);
  await page.getByText("Basic has 10 requests per minute, you need 20").waitFor();
  await page.locator("#fits").getByRole("link", { name: "Start with Premium" }).click();
  await page.waitForURL((url) => url.pathname === "/signup" && url.searchParams.get("plan") === "premium");
  assert.equal(await page.locator("input[name=plan]").inputValue(), "premium");
  assert.deepEqual(complaints, []);
});

test("the reference is searched and copied from", async () => {
  const { page, complaints } = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  await page.goto(gateway + "/docs");
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
      }
      assert.deepEqual(complaints, []);
    });
  }
}

test("public pages on the smallest and the largest screens, and from right to left", async () => {
  const { page } = await open();
  for (const width of [320, 2560]) {
    await page.setViewportSize({ width, height: 900 });
    for (const path of pages) {
      await page.goto(gateway + path);
      for (const dir of ["ltr", "rtl"]) {
        const wide = await page.evaluate((dir) => { document.documentElement.dir = dir; return document.documentElement.scrollWidth - innerWidth; }, dir);
        assert.ok(wide <= 0, `${path} is ${wide} px wider than a window of ${width} px, ${dir}`);
      }
    }
  }
});

test("public pages by keyboard", async () => {
  const { page } = await open();
  for (const path of [...pages, "/models/sandbox/embed", "/models/video-default"]) {
    await page.goto(gateway + path);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to main content", path);
    const missed = await page.evaluate(() => [...document.querySelectorAll("[tabindex]")].filter((el) => el.tabIndex > 0).length);
    assert.equal(missed, 0, path);
  }
});
