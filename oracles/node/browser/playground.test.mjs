// The playground: what it shows of a reply, what it keeps, and what it does when something fails.
import assert from "node:assert/strict";
import net from "node:net";
import test from "node:test";
import { examine, gateway, signUp, subscribe, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();

let state, key; // of somebody with the Premium plan
test("somebody signs up", async () => {
  const { page, context } = await open();
  key = await signUp(page, "paula@example.com");
  await subscribe(page, "Premium");
  await page.getByText("Your plan is active.").waitFor();
  state = await context.storageState();
});

async function playground(model = "sandbox/small") {
  const opened = await open({ storageState: state });
  await opened.page.goto(gateway + "/dashboard/playground");
  await ready(opened.page);
  await opened.page.locator("#model").selectOption(model);
  return opened;
}

const ready = (page) => page.locator(".play.ready").waitFor();
const message = (page) => page.getByLabel("Message", { exact: true });

async function send(page, text) {
  await message(page).fill(text);
  await page.keyboard.press("Enter");
}

const facts = (page) => page.locator(".turn.assistant .facts-line");
const chats = (page) => page.locator("#chats a");
const settings = (page) => page.getByRole("button", { name: /^Settings/ }).click();

// stored returns all that the page keeps in the browser.
const stored = (page) => page.evaluate(async () => {
  let all = JSON.stringify(localStorage);
  for (const { name } of await indexedDB.databases()) {
    const db = await new Promise((done) => { const r = indexedDB.open(name); r.onsuccess = () => done(r.result); });
    for (const store of db.objectStoreNames) all += JSON.stringify(await new Promise((done) => { const r = db.transaction(store).objectStore(store).getAll(); r.onsuccess = () => done(r.result); }));
    db.close();
  }
  return all;
});

// kept waits until a text is among that.
async function kept(page, text) {
  while (!(await stored(page)).includes(text)) await page.waitForTimeout(50);
}

// code returns the program of the next call in a language.
async function code(page, language = "curl") {
  await page.getByRole("button", { name: "Get code" }).click();
  const text = await page.locator("#code-" + language).textContent();
  await page.keyboard.press("Escape");
  return text;
}

// sent returns the body of the next call, which does not reach the server.
async function sent(page, act) {
  let body;
  await page.route("**/dashboard/v1/**", (route) => { body = route.request().postDataJSON(); return route.fulfill({ status: 503, json: { error: { message: "no" } } }); });
  await act();
  await page.locator(".turn.user .wrong").last().waitFor();
  await page.unroute("**/dashboard/v1/**");
  return body;
}

test("times are those of the reply, and a reload keeps the chat", async () => {
  const { page, complaints } = await playground();
  await send(page, "[[sandbox:delay=400ms]] Say hello to the reader.");
  await facts(page).waitFor();
  const said = await facts(page).textContent();
  const first = said.match(/first token (\d+) ms|first token ([\d.]+) s/);
  assert.ok(Number(first[1] ?? first[2] * 1000) >= 400, said);
  assert.match(said, /total .* in · \d+ out · no list price · request/);
  await settings(page);
  await page.locator("#system").fill("You are terse.");
  await message(page).fill("A draft");
  await kept(page, "A draft");
  await page.reload();
  await ready(page);
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await message(page).inputValue(), "A draft");
  assert.equal(await page.locator("#system").inputValue(), "You are terse.");
  assert.match(await code(page), /You are terse[^]*Say hello[^]*A draft/);
  // The page of the request is one click away.
  await facts(page).getByRole("link", { name: "request" }).click();
  await page.waitForURL(/\/dashboard\/activity\/requests\/[0-9a-f]{32}$/);
  await page.getByText("sandbox/small").first().waitFor();
  assert.deepEqual(complaints, []);
});

test("the page fills the window at every size", async () => {
  const { page } = await playground();
  await send(page, "[[sandbox:tokens=1500]] Begin");
  await facts(page).waitFor();
  for (const [width, height] of [[320, 568], [390, 844], [820, 1180], [1280, 860], [3840, 2160]]) {
    await page.setViewportSize({ width, height });
    const seen = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth, tall: document.documentElement.scrollHeight - innerHeight,
      below: innerHeight - document.getElementById("ask").getBoundingClientRect().bottom, talk: document.querySelector(".talk").clientHeight,
    }));
    assert.ok(seen.wide <= 0 && seen.tall <= 0 && seen.below >= 0 && seen.below < 60 && seen.talk > 150, `${width}: ${JSON.stringify(seen)}`);
    if (width < 1700) await settings(page); // there it is open at first
    await page.locator("#system").waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), width + " with settings");
    await page.getByRole("button", { name: "Hide settings" }).click();
    await page.locator("#system").waitFor({ state: "hidden" });
  }
});

test("suggestions fill an empty chat", async () => {
  const { page } = await playground();
  await page.getByRole("button", { name: /^Write a query/ }).click();
  assert.match(await message(page).inputValue(), /^Write a SQL query/);
  await page.keyboard.press("Enter");
  await facts(page).waitFor();
  assert.equal(await page.locator(".idea").count(), 0);
});

test("functions are picked, made by a form, and pasted", async () => {
  const { page, complaints } = await playground();
  await settings(page);
  await page.getByRole("checkbox", { name: /^get_weather/ }).check();
  await page.getByRole("button", { name: "New function" }).click();
  const form = page.locator("#function-form");
  await form.getByLabel("Name", { exact: true }).first().fill("send mail");
  await form.getByRole("button", { name: "Save function" }).click();
  await form.getByText("Use 1 to 64 letters").waitFor();
  await form.getByLabel("Name", { exact: true }).first().fill("send_mail");
  await form.getByLabel("Description", { exact: true }).first().fill("Sends a mail");
  await form.locator("[name=pname]").fill("to");
  await form.getByLabel("Required").check();
  await form.getByRole("button", { name: "Add parameter" }).click();
  await form.locator("[name=pname]").nth(1).fill("copies");
  await form.getByLabel("Type").nth(1).selectOption("integer");
  await form.getByRole("button", { name: "Save function" }).click();
  await page.getByRole("checkbox", { name: /^send_mail/ }).waitFor();
  await page.getByRole("button", { name: "New function" }).click();
  await page.getByText("JSON Schema instead").click();
  await page.getByLabel(/whole definition/).fill("[{");
  await form.getByRole("button", { name: "Save function" }).click();
  await form.getByText("The JSON Schema is not valid JSON").waitFor();
  await page.getByLabel(/whole definition/).fill(JSON.stringify({ type: "function", function: { name: "pick", description: "d", parameters: { type: "object", properties: { list: { type: "array", items: {} } } } } }));
  await form.getByRole("button", { name: "Save function" }).click();
  await page.getByRole("checkbox", { name: /^pick/ }).waitFor();
  const { tools } = await sent(page, () => send(page, "Hello"));
  assert.deepEqual(tools.map((t) => t.function.name), ["pick", "send_mail", "get_weather"]);
  assert.deepEqual(tools[1].function, { name: "send_mail", description: "Sends a mail", parameters: { type: "object", properties: { to: { type: "string" }, copies: { type: "integer" } }, required: ["to"] } });
  assert.deepEqual(tools[0].function.parameters.properties.list, { type: "array", items: {} });
  // They are there for other chats, and can be changed and deleted.
  await page.getByRole("button", { name: "Edit send_mail" }).click();
  assert.equal(await form.locator("[name=pname]").nth(1).inputValue(), "copies");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete pick" }).click();
  await page.getByRole("checkbox", { name: /^pick/ }).waitFor({ state: "detached" });
  await page.reload();
  await ready(page);
  await settings(page);
  assert.ok(await page.getByRole("checkbox", { name: /^send_mail/ }).isChecked());
  assert.equal(await page.getByRole("checkbox", { name: /^pick/ }).count(), 0);
  assert.deepEqual(complaints, []);
});

test("a failed turn leaves the conversation", async () => {
  const { page } = await playground();
  await send(page, "[[sandbox:error=503]] First");
  await page.locator(".turn.user .wrong").waitFor();
  await page.getByRole("button", { name: "Send this message again" }).click();
  await page.locator(".turn.user .wrong").waitFor();
  await send(page, "Second");
  await facts(page).waitFor();
  assert.equal(await page.locator(".turn.user").count(), 1);
  assert.doesNotMatch(await code(page), /First/);
  // A reply that breaks off is one, too.
  await send(page, "[[sandbox:cut=3]] Third");
  await page.locator(".turn.user .wrong").waitFor();
  assert.equal(await page.locator(".turn.assistant").count(), 1);
  await page.reload();
  await page.locator(".turn.user .wrong").waitFor();
});

test("errors offer what helps", async () => {
  const { page, complaints } = await playground();
  for (const [status, error, button, href] of [
    [401, { type: "key_deactivated" }, "Contact support", "/dashboard/messages/new?kind=restore"],
    [402, { type: "payment_required" }, "See plans", "/dashboard/plan"],
    [402, { type: "budget_exceeded" }, "Budgets", "/dashboard/budgets"],
    [403, { type: "permission_error" }, "See plans", "/dashboard/plan"],
    [423, { type: "account_suspended" }, "Contact support", "/dashboard/messages/new"],
  ]) {
    await page.route("**/dashboard/v1/**", (route) => route.fulfill({ status, json: { error: { message: "Refused so.", code: status, ...error } } }));
    await send(page, "Hello");
    await page.locator(".problem").getByText("Refused so.").waitFor();
    assert.equal(await page.locator(".problem").getByRole("link", { name: button }).getAttribute("href"), href, String(status) + error.type);
    await page.unroute("**/dashboard/v1/**");
  }
  // A limit says when to come back.
  await send(page, "[[sandbox:error=429]] Hello");
  const retry = page.getByRole("button", { name: "Send this message again" });
  await page.getByText(/Retry in \d+ s/).waitFor();
  assert.ok(await retry.isDisabled());
  await page.locator(".problem button:enabled").filter({ hasText: /^Retry$/ }).waitFor();
  // A conversation that is too long can be shortened: its older half goes.
  await page.getByRole("button", { name: "New chat", exact: true }).click();
  const long = "word ".repeat(70_000);
  for (const text of ["One " + long, "Two"]) {
    await send(page, text);
    await facts(page).nth(text[0] === "O" ? 0 : 1).waitFor();
  }
  await send(page, "Three " + long);
  await page.getByRole("button", { name: "Drop the oldest messages" }).click();
  await facts(page).first().waitFor();
  assert.match(await page.locator(".turn.user .text").first().textContent(), /^(Two|Three)/);
  assert.deepEqual(complaints, []);
});

test("a stream does not pull its reader down", async () => {
  const { page } = await playground("sandbox/large");
  await send(page, "[[sandbox:tokens=1500]] Begin");
  await facts(page).waitFor();
  await send(page, "[[sandbox:tokens=300]] [[sandbox:chunk_delay=10ms]] Again");
  const talk = page.locator(".talk").first();
  await page.locator(".turn.assistant").nth(1).locator(".text").waitFor();
  assert.ok(await talk.evaluate((el) => el.scrollHeight - el.scrollTop - el.clientHeight < 60), "the end is not followed");
  await talk.evaluate((el) => { el.scrollTop = 5; });
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  assert.equal(await talk.evaluate((el) => el.scrollTop), 5);
});

test("stop, edit, retry and fork", async () => {
  const { page, complaints } = await playground();
  await send(page, "[[sandbox:tokens=2000]] [[sandbox:chunk_delay=20ms]] Slowly");
  await page.locator(".turn.assistant .text").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("stopped").waitFor();
  // An edited message is sent in place of the old one.
  await page.locator(".turn.user").first().hover();
  await page.getByRole("button", { name: "Edit this message" }).click();
  const field = page.getByLabel("Edit your message");
  assert.match(await field.inputValue(), /Slowly/);
  await field.press("Escape");
  assert.match(await page.locator(".turn.user .text").textContent(), /Slowly/);
  await page.locator(".turn.user").first().hover();
  await page.getByRole("button", { name: "Edit this message" }).click();
  await field.fill("Quickly");
  await field.press("Enter");
  await page.getByRole("button", { name: "Ask for another reply" }).waitFor();
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await page.locator(".turn.user .text").textContent(), "Quickly");
  // Another model answers, and the reply before stays.
  await page.getByLabel("Retry with another model").selectOption("sandbox/tiny");
  await page.getByText("2 / 2").waitFor();
  const by = page.locator(".turn.assistant .by");
  assert.match(await by.textContent(), /sandbox\/tiny/);
  assert.equal(await page.locator("#model").inputValue(), "sandbox/small");
  await page.getByRole("button", { name: "Earlier reply" }).click();
  assert.match(await by.textContent(), /sandbox\/small/);
  await page.getByRole("button", { name: "Ask for another reply" }).click();
  await page.getByText("3 / 3").waitFor();
  // A try that fails does not cost the reply that is there.
  await page.route("**/dashboard/v1/**", (route) => route.fulfill({ status: 503, json: { error: { message: "Not now." } } }));
  await page.getByRole("button", { name: "Ask for another reply" }).click();
  await page.getByRole("alert").getByText("Not now.").waitFor();
  await page.unroute("**/dashboard/v1/**");
  await page.getByText("3 / 3").waitFor();
  // A fork is a chat of its own.
  await send(page, "More");
  await facts(page).nth(1).waitFor();
  await page.locator(".turn.assistant").first().hover();
  await page.getByRole("button", { name: "Fork" }).nth(1).click();
  await page.getByRole("heading", { name: "Fork of" }).waitFor();
  assert.equal(await page.locator(".turn").count(), 2);
  await chats(page).nth(1).click();
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 4);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 2);
  assert.deepEqual(complaints, []);
});

// breakable returns the address of a relay to the gateway, and a function that breaks all connections through it.
async function breakable(t) {
  const sockets = new Set();
  const relay = net.createServer((from) => {
    const to = net.connect(Number(new URL(gateway).port), "127.0.0.1");
    for (const [a, b] of [[from, to], [to, from]]) {
      sockets.add(a);
      a.on("error", () => {}).on("close", () => { sockets.delete(a); b.destroy(); });
      a.pipe(b);
    }
  });
  await new Promise((done) => relay.listen(0, "127.0.0.1", done));
  t.after(() => { for (const s of sockets) s.destroy(); relay.close(); });
  return { origin: "http://127.0.0.1:" + relay.address().port, cut: () => { for (const s of sockets) s.destroy(); } };
}

const slowly = "[[sandbox:tokens=200]] [[sandbox:chunk_delay=15ms]] Tell me about locks.";

test("a connection that breaks in the middle loses nothing of the reply", async (t) => {
  const { origin, cut } = await breakable(t);
  const { page } = await playground();
  const text = page.locator(".turn.assistant .text");
  await send(page, slowly);
  await facts(page).waitFor();
  const whole = await text.textContent();

  await page.goto(origin + "/dashboard/playground");
  await ready(page);
  await page.locator("#model").selectOption("sandbox/small");
  const resumed = page.waitForResponse((r) => r.request().method() === "GET" && r.url().endsWith("/events"));
  await send(page, slowly);
  await page.waitForFunction(() => document.querySelector(".turn.assistant .text")?.textContent.length > 20);
  cut();
  assert.equal((await resumed).status(), 200);
  await facts(page).waitFor();
  assert.equal(await text.textContent(), whole);
});

test("stop ends the call, and not only its connection", async () => {
  const { page } = await playground();
  const ended = page.waitForResponse((r) => r.request().method() === "DELETE" && r.url().endsWith("/events"));
  await send(page, "[[sandbox:tokens=2000]] [[sandbox:chunk_delay=100ms]] Without an end");
  await page.locator(".turn.assistant .text").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  assert.equal((await ended).status(), 204);
  await page.getByText("stopped").waitFor();
  const id = (await ended).url().match(/chatcmpl-([0-9a-f]{32})/)[1];
  for (;;) { // until it is settled; a call that went on would be after two minutes
    const reply = await fetch(gateway + "/v1/requests?range=1h&outcome=disconnected", { headers: { Authorization: "Bearer " + key } });
    if (JSON.stringify(await reply.json()).includes(id)) break;
    await page.waitForTimeout(100);
  }
});

test("stop before the first word ends the call, too", async () => {
  const { page } = await playground();
  const ended = page.waitForResponse((r) => r.request().method() === "DELETE" && r.url().endsWith("/events"));
  const asked = page.waitForRequest((r) => r.method() === "POST" && r.url().endsWith("/v1/chat/completions"));
  await send(page, "[[sandbox:delay=2s]] [[sandbox:tokens=2000]] [[sandbox:chunk_delay=100ms]] Without an end");
  await asked;
  await page.keyboard.press("Escape");
  await page.getByText("Stopped before the reply began.", { exact: true }).waitFor();
  assert.equal((await ended).status(), 204);
});

// calls returns the ids of the latest calls of the account that are not among those of before.
const calls = async (before = []) => (await (await fetch(gateway + "/v1/requests?range=1h", { headers: { Authorization: "Bearer " + key } })).json()).data.map((r) => r.id).filter((id) => !before.includes(id));

test("a reload, a link and Back lose nothing of a reply", async () => {
  const { page, complaints } = await playground();
  const text = page.locator(".turn.assistant .text");
  await send(page, slowly);
  await facts(page).waitFor();
  const whole = await text.textContent();
  for (const leave of [
    () => page.reload(),
    async () => { await page.goto(gateway + "/dashboard/keys"); await page.goBack(); },
    async () => { await page.goto(gateway + "/dashboard/keys"); await page.getByRole("link", { name: "Playground" }).click(); },
  ]) {
    await page.getByRole("button", { name: "New chat", exact: true }).click();
    const before = await calls();
    await send(page, slowly);
    await page.waitForFunction(() => document.querySelector(".turn.assistant .text")?.textContent.length > 20);
    await kept(page, "/events");
    await leave();
    await ready(page);
    await facts(page).waitFor();
    assert.equal(await text.textContent(), whole);
    assert.equal((await calls(before)).length, 1, "the reply was asked for again");
  }
  // Another chat may be shown meanwhile.
  await page.getByRole("button", { name: "New chat", exact: true }).click();
  await send(page, slowly);
  await text.waitFor();
  await page.getByRole("button", { name: "New chat", exact: true }).click();
  await page.locator("#chats .busy").waitFor();
  await page.locator("#chats .busy").waitFor({ state: "detached" });
  await chats(page).first().click();
  assert.equal(await text.textContent(), whole);
  assert.deepEqual(complaints, []);
});

test("a reload before the first word does not ask twice", async () => {
  const { page } = await playground();
  const before = await calls();
  await send(page, "[[sandbox:delay=4s]] Hello");
  await kept(page, '"live":{');
  await page.waitForTimeout(1000); // until the server has the call
  const repeated = page.waitForResponse((r) => r.request().method() === "POST" && r.url().endsWith("/v1/chat/completions"));
  await page.reload();
  assert.equal((await repeated).headers()["idempotent-replayed"], "true");
  await facts(page).waitFor();
  assert.equal((await calls(before)).length, 1);
});

test("a reply that is being written is read by one window", async () => {
  const { page, context } = await playground();
  await send(page, slowly);
  await page.waitForFunction(() => document.querySelector(".turn.assistant .text")?.textContent.length > 20);
  await kept(page, "/events");
  const other = await context.newPage();
  await other.goto(page.url());
  await facts(other).waitFor();
  await facts(page).waitFor();
  assert.equal(await other.locator(".turn.assistant .text").textContent(), await page.locator(".turn.assistant .text").textContent());
});

test("calls of functions and of MCP servers are cards", async () => {
  const { page, complaints } = await playground("sandbox/large");
  await settings(page);
  await page.getByRole("checkbox", { name: /^get_weather/ }).check();
  await send(page, "What is the weather in Paris? Use get_weather.");
  await page.getByLabel("Result", { exact: true }).fill('{"sky": "clear"}');
  await page.getByRole("button", { name: "Send results" }).click();
  await facts(page).nth(1).waitFor();
  assert.match(await page.locator(".turn .call").first().textContent(), /get_weather[^]*Paris[^]*clear/);

  await page.getByRole("button", { name: "New chat", exact: true }).click();
  await page.getByRole("checkbox", { name: /^get_weather/ }).uncheck();
  await page.getByRole("button", { name: "Add server" }).click();
  await page.getByRole("textbox", { name: "URL" }).fill("tools.example.com");
  await page.getByRole("button", { name: "Save server" }).click();
  await page.getByText("Enter an address that begins with https://").waitFor();
  await page.getByRole("textbox", { name: "URL" }).fill(gateway + "/mcp");
  await page.getByLabel("Name", { exact: true }).last().fill("gateway");
  await page.getByLabel("Authorization header").fill("Bearer " + key);
  await page.getByRole("button", { name: "Save server" }).click();
  assert.ok(await page.getByRole("checkbox", { name: /^gateway/ }).isChecked());
  await send(page, "[[sandbox:call=list_models]] Which models are there?");
  const card = page.locator("details.call");
  await facts(page).waitFor();
  assert.match(await card.locator("summary").textContent(), /done MCP gateway \/ list_models/);
  await card.locator("summary").click();
  assert.match(await card.textContent(), /sandbox\/embed/);
  const program = await code(page);
  assert.match(program, /\/v1\/responses[^]*\$MCP_TOKEN/);
  assert.ok(!program.includes(key), "the credentials are shown");
  await send(page, "And now?");
  await facts(page).nth(1).waitFor();
  // Servers are kept, their credentials are not.
  await kept(page, "And now?");
  assert.ok(!(await stored(page)).includes(key), "the credentials are kept");
  await page.reload();
  await ready(page);
  await settings(page);
  await page.getByRole("button", { name: "Edit gateway" }).click();
  assert.equal(await page.getByLabel("Authorization header").inputValue(), "");
  assert.deepEqual(complaints, []);
});

test("text of a model is formatted, and never markup", async () => {
  const { page, complaints } = await playground();
  const text = ["## Title", "Some **bold**, *soft* and `code` in snake_case_words.", "", "1. one", "2. two", "   - inner", "", "```js", "const a = \"<b>\"; // note", "```", "",
    "| a | b |", "|---|---|", "| 1 | 2 |", "", "> quoted", "", "<img src=x onerror=alert(1)><script>alert(1)</script>", "[bad](javascript:alert(1)) [good](https://example.com/a) ![p](https://example.com/x.png)",
    "[x](data:text/html,<script>alert(1)</script>)", "**" + "a*".repeat(300)].join("\n");
  const made = await page.evaluate((text) => {
    const el = document.createElement("div");
    document.body.append(el);
    el.append(window.sluiceText.markdown(text));
    const links = [...el.querySelectorAll("a")].map((a) => a.getAttribute("href"));
    return { heading: el.querySelector("h2")?.textContent, bold: el.querySelector("strong")?.textContent, soft: el.querySelector("em")?.textContent, items: el.querySelectorAll("li").length,
      inner: el.querySelector("li ul li")?.textContent, table: el.querySelectorAll("td").length, quote: el.querySelector("blockquote")?.textContent, word: el.querySelector(".c-word")?.textContent, note: el.querySelector(".c-note")?.textContent,
      bad: el.querySelectorAll("script, img, b, iframe").length, shows: el.textContent.includes("<script>alert(1)</script>"), snake: el.textContent.includes("snake_case_words"), links };
  }, text);
  assert.deepEqual(made, { heading: "Title", bold: "bold", soft: "soft", items: 3, inner: "inner", table: 2, quote: "quoted", word: "const", note: "// note", bad: 0, shows: true, snake: true, links: ["https://example.com/a", "https://example.com/x.png"] });
  // Whatever the text is, all of it is shown and none of it takes long.
  const nasty = ["*".repeat(20_000), "_a ".repeat(10_000), "[".repeat(20_000), "`".repeat(9_999) + "x", ">".repeat(5_000) + " deep", "- ".repeat(5_000) + "deep", "|".repeat(9_000) + "\n|-|\n", "~~a".repeat(9_000), "![](".repeat(5_000), "https://".repeat(5_000)];
  await page.evaluate((all) => { for (const text of all) window.sluiceText.markdown(text); }, nasty);
  assert.deepEqual(complaints, []);
});

test("up to four models side by side", async () => {
  const { page, complaints } = await playground();
  const compare = page.getByRole("button", { name: "Compare" });
  for (let i = 0; i < 3; i++) await compare.click();
  assert.ok(await compare.isDisabled());
  await page.locator("#model-2").selectOption("sandbox/large");
  await page.locator("#model-3").selectOption("sandbox/tiny");
  await page.locator("#model-4").selectOption("sandbox/reasoner");
  await send(page, "Hello, all");
  await facts(page).nth(3).waitFor();
  for (const [i, name] of ["small", "large", "tiny", "reasoner"].entries()) {
    assert.equal(await page.locator(".lane").nth(i).locator(".turn").count(), 2);
    assert.match(await page.locator(".lane").nth(i).locator(".turn.assistant .by").textContent(), new RegExp("sandbox/" + name));
  }
  await page.reload();
  await ready(page);
  assert.equal(await page.locator(".lane").nth(3).locator(".turn").count(), 2);
  await page.getByRole("button", { name: "Remove this model" }).nth(1).click();
  assert.equal(await page.locator(".lane").count(), 3);
  assert.match(await page.locator(".lane").nth(1).locator(".turn.assistant .by").textContent(), /sandbox\/tiny/);
  assert.deepEqual(complaints, []);
});

test("chats are found, named, pinned, deleted and put back", async () => {
  const { page, complaints } = await playground();
  for (const text of ["Tell me about locks and keys", "Tell me about rivers"]) {
    await page.getByRole("button", { name: "New chat", exact: true }).click();
    await send(page, text);
    await facts(page).waitFor();
  }
  await page.waitForFunction(() => !document.querySelector("#chats .busy")); // the facts come a moment before the end
  assert.deepEqual(await chats(page).allTextContents(), ["Tell me about rivers", "Tell me about locks and keys"]);
  await page.getByLabel("Search chats").fill("KEYS locks");
  await page.waitForFunction(() => document.querySelectorAll("#chats a").length === 1);
  await page.getByLabel("Search chats").fill("volcano");
  await page.getByText("No chats match.").waitFor();
  await page.getByLabel("Search chats").fill("");
  await page.waitForFunction(() => document.querySelectorAll("#chats a").length === 2);

  const actions = (name) => page.locator(".chat-row", { hasText: name }).locator("summary");
  await actions("locks").click();
  await page.getByRole("button", { name: "Pin", exact: true }).click();
  await page.waitForFunction(() => document.querySelector("#chats a").textContent.includes("locks"));
  assert.equal(await page.locator("#chats h2").first().textContent(), "Pinned");
  await actions("rivers").click();
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByLabel("Name of the chat").fill("Water");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Water" }).waitFor();
  await send(page, "And lakes?"); // the name stays
  await facts(page).nth(1).waitFor();
  await page.reload();
  await ready(page);
  assert.deepEqual(await chats(page).allTextContents(), ["Tell me about locks and keys", "Water"]);

  await actions("Water").click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll("#chats a").length === 1);
  assert.equal(await page.locator(".turn").count(), 0);
  await page.getByRole("button", { name: "Undo" }).click();
  await chats(page).getByText("Water").click();
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 4);
  await page.getByRole("button", { name: "Delete all" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete all" }).click();
  await page.getByText("Your chats appear here.").waitFor();
  await page.reload();
  await ready(page);
  assert.equal(await chats(page).count(), 0);
  assert.deepEqual(complaints, []);
});

test("presets, and two windows", async () => {
  const { page, context } = await playground();
  await settings(page);
  await page.locator("#system").fill("Answer in French.");
  await page.getByText("Presets", { exact: true }).click();
  await page.locator("#preset-name").fill("French");
  await page.getByRole("button", { name: "Save preset" }).click();
  await send(page, "First chat");
  await facts(page).waitFor();
  const other = await context.newPage();
  await other.goto(gateway + "/dashboard/playground");
  await ready(other);
  await other.getByRole("button", { name: "New chat", exact: true }).click();
  await settings(other);
  await other.locator("#system").fill("");
  await other.getByText("Presets", { exact: true }).click();
  await other.locator("#presets").selectOption("French");
  await other.waitForFunction(() => document.getElementById("system").value === "Answer in French.");
  await send(other, "Second chat");
  await facts(other).waitFor();
  // Neither window has overwritten the chat of the other.
  await chats(page).getByText("Second chat").waitFor();
  await send(page, "More of the first");
  await facts(page).nth(1).waitFor();
  await chats(other).getByText("First chat").click();
  await other.waitForFunction(() => document.querySelectorAll(".turn").length === 4);
  await send(other, "From the other window");
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 6);
  await other.locator(".chat-row", { hasText: "First chat" }).locator("summary").click();
  await other.getByRole("button", { name: "Delete", exact: true }).click();
  for (const window of [page, other]) await window.waitForFunction(() => ![...document.querySelectorAll("#chats a")].some((a) => a.textContent === "First chat"));
  // What the first window keeps of a draft does not bring the chat back; a message does.
  await message(page).fill("Draft");
  await page.evaluate(() => dispatchEvent(new Event("pagehide")));
  await other.reload();
  await ready(other);
  assert.deepEqual(await chats(other).allTextContents(), ["Second chat"]);
  await send(page, "Even more of the first");
  await chats(other).getByText("First chat").waitFor();
});

test("chats of an earlier version are taken over", async () => {
  const { page } = await playground();
  await page.evaluate(() => {
    const old = { id: "old", title: "An old chat", at: 1, compare: true, draft: "", settings: { model: "sandbox/small", "model-b": "sandbox/tiny", system: "Be brief." }, lanes: [{ messages: [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello", facts: { total: 1 } }] }, { messages: [{ role: "user", content: "Hi" }] }] };
    localStorage.setItem("sluice.play." + document.getElementById("playground").dataset.account, JSON.stringify({ chats: [old], presets: [] }));
  });
  await page.reload();
  await ready(page);
  await chats(page).getByText("An old chat").click();
  await page.waitForFunction(() => document.querySelectorAll(".lane").length === 2);
  assert.equal(await page.locator("#model-2").inputValue(), "sandbox/tiny");
  assert.equal(await page.locator("#system").inputValue(), "Be brief.");
  assert.equal(await page.locator(".turn").count(), 3);
});

test("the program is shown in four languages", async () => {
  const { page } = await playground();
  await message(page).fill("It's `quoted` text");
  await page.getByRole("button", { name: "Get code" }).click();
  for (const [name, id, want] of [["curl", "curl", "It'\\''s"], ["Python", "python", "client.chat.completions.create("], ["TypeScript", "typescript", "await client.chat.completions.create("], ["Go", "go", 'It\'s ` + "`" + `quoted']]) {
    await page.getByRole("tab", { name, exact: true }).click();
    const text = await page.locator("#code-" + id).textContent();
    assert.ok(text.includes(want) && text.includes(gateway), text);
  }
  await page.getByRole("tab", { name: "curl" }).click();
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.getByRole("tabpanel", { name: "Python" }).isVisible());
  await page.keyboard.press("Escape");
  // It is the call that is made.
  const program = await code(page);
  const body = await sent(page, () => message(page).press("Enter"));
  assert.deepEqual(JSON.parse(program.slice(program.indexOf("'{") + 1, -1).replaceAll("'\\''", "'")), body);
});

// drop drops or pastes a file.
const bring = (page, how, name, type, content) => page.evaluate(([how, name, type, content]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob(content), (c) => c.charCodeAt(0))], name, { type }));
  const el = document.getElementById("prompt");
  el.dispatchEvent(how === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}, [how, name, type, btoa(content)]);

test("files come by a button, paste and drop, within bounds", async () => {
  const { page, complaints } = await open({ storageState: state });
  // No model of the sandbox takes pictures, so the page is told that one does.
  await page.route("**/dashboard/playground*", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace("&#34;sandbox/tiny&#34;:{", "&#34;sandbox/tiny&#34;:{&#34;images&#34;:true,") });
  });
  await page.goto(gateway + "/dashboard/playground");
  await ready(page);
  await page.locator("#model").selectOption("sandbox/small");
  const png = atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==");
  await bring(page, "paste", "dot.png", "image/png", png);
  await page.getByText("This model does not accept images. Choose another model to send dot.png.").waitFor();
  await page.locator("#model").selectOption("sandbox/tiny");
  await bring(page, "paste", "dot.png", "image/png", png);
  await page.getByRole("button", { name: "Remove picture 1" }).waitFor();
  await bring(page, "drop", "report.pdf", "application/pdf", "%PDF-1.4");
  await bring(page, "drop", "voice.mp3", "audio/mpeg", "ID3");
  await page.locator("#file").setInputFiles({ name: "table.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2") });
  await page.getByRole("button", { name: "Remove table.csv" }).waitFor();
  await page.locator("#file").setInputFiles({ name: "film.mp4", mimeType: "video/mp4", buffer: Buffer.from("x") });
  await page.getByText("film.mp4 cannot be sent. Models take pictures, PDFs, WAV and MP3 sounds, and texts.").waitFor();
  await page.locator("#file").setInputFiles({ name: "big.txt", mimeType: "text/plain", buffer: Buffer.alloc(600 << 10, "x") });
  await page.getByText("big.txt has 600 KB. A text may have at most 512 KB.").waitFor();
  await page.getByRole("button", { name: "Remove voice.mp3" }).click();
  await page.getByRole("button", { name: "Get code" }).click();
  await page.keyboard.press("Escape");
  const body = await sent(page, () => send(page, "Look"));
  const content = body.messages[0].content;
  assert.deepEqual(content.map((p) => p.type), ["text", "image_url", "file", "text"]);
  assert.match(content[1].image_url.url, /^data:image\/png;base64,/);
  assert.deepEqual(content[2].file, { filename: "report.pdf", file_data: "data:application/pdf;base64," + btoa("%PDF-1.4") });
  assert.deepEqual(content[3], { type: "text", text: "table.csv:\n```\na,b\n1,2\n```" });
  // The message shows them, and a reload keeps them.
  await page.reload();
  await ready(page);
  assert.equal(await page.locator(".turn.user img").count(), 1);
  assert.deepEqual(await page.locator(".turn.user .file-chip").allTextContents(), ["report.pdf", "table.csv"]);
  assert.deepEqual(complaints, []);
});

test("replies are announced once, and keys do what they say", async () => {
  const { page } = await playground();
  await message(page).fill("One line");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("and another");
  assert.equal(await message(page).inputValue(), "One line\nand another");
  await page.keyboard.press("Enter");
  await facts(page).waitFor();
  await page.waitForFunction(() => /^sandbox\/small replied: ./.test(document.getElementById("announce").textContent));
  assert.equal(await page.locator("#announce").getAttribute("role"), "status");
  await page.keyboard.press("Control+Shift+O");
  await page.waitForFunction(() => !document.querySelector(".turn"));
  assert.ok(await message(page).evaluate((el) => el === document.activeElement));
});

test("a link shows a copy to everybody until it is deleted", async () => {
  const { page, complaints } = await playground("sandbox/reasoner");
  await settings(page);
  await page.locator("#system").fill("A secret instruction.");
  await send(page, "What is 2 + 3?");
  await facts(page).waitFor();
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("dialog").getByLabel("1 day").check();
  await page.getByRole("button", { name: "Create link" }).click();
  await page.locator("#share-made").waitFor();
  const link = await page.locator("#share-link").textContent();
  await page.getByRole("link", { name: "Your shared links" }).click();
  await page.getByRole("link", { name: "What is 2 + 3?" }).waitFor();
  for (const javaScriptEnabled of [true, false]) {
    const reader = await open({ javaScriptEnabled });
    const reply = await reader.page.goto(link);
    assert.equal(reply.status(), 200);
    assert.match(reply.headers()["x-robots-tag"], /noindex/);
    assert.equal(await reader.page.locator(".turn.user .text").textContent(), "What is 2 + 3?");
    assert.match(await reader.page.locator(".turn.assistant .text").textContent(), /5/);
    assert.ok(!(await reader.page.content()).includes("secret instruction"));
    assert.deepEqual(reader.complaints, []);
  }
  const reader = await open();
  await examine(reader.page, new URL(link).pathname, "play-shared-desk-light");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("The shared conversation was deleted.").waitFor();
  assert.equal((await reader.page.goto(link)).status(), 404);
  assert.deepEqual(complaints, []);
});

test("a session that has ended loses nothing", async () => {
  const { page, context } = await playground();
  await context.clearCookies();
  await send(page, "Still here?");
  await page.locator(".problem").getByText("You are not signed in.").waitFor();
  assert.equal(new URL(page.url()).pathname, "/dashboard/playground");
  assert.equal(await page.getByRole("link", { name: "Sign in" }).getAttribute("href"), "/signin?next=/dashboard/playground");
  await context.addCookies(state.cookies);
  await page.reload();
  await page.getByRole("button", { name: "Send this message again" }).click();
  await facts(page).waitFor();
});

for (const [colorScheme, sizes] of themes) {
  for (const [size, viewport] of sizes) {
    test(`with a conversation and models, ${colorScheme}, ${size}`, async () => {
      const { page, complaints } = await open({ colorScheme, viewport, storageState: state, reducedMotion: "reduce" });
      await page.goto(gateway + "/dashboard/playground");
      await ready(page);
      await page.locator("#model").selectOption("sandbox/reasoner");
      await send(page, "What is 2 + 3?");
      await facts(page).waitFor();
      for (const [name, path] of [["playground", "/dashboard/playground"], ["models", "/dashboard/models?compare=sandbox/small&compare=sandbox/large"], ["model", "/dashboard/models/sandbox/small"]]) {
        await examine(page, path, `play-${name}-${size}-${colorScheme}`);
      }
      assert.deepEqual(complaints, []);
    });
  }
}
