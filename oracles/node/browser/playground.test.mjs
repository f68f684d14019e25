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
  await opened.page.locator("#model").selectOption(model);
  return opened;
}

const message = (page) => page.getByLabel("Message", { exact: true });

async function send(page, text) {
  await message(page).fill(text);
  await page.keyboard.press("Enter");
}

const facts = (page) => page.locator(".turn.assistant .facts-line");

test("times are those of the reply, and a reload keeps the chat", async () => {
  const { page, complaints } = await playground();
  await send(page, "[[sandbox:delay=400ms]] Say hello to the reader.");
  await facts(page).waitFor();
  const said = await facts(page).textContent();
  const first = said.match(/first token (\d+) ms|first token ([\d.]+) s/);
  assert.ok(Number(first[1] ?? first[2] * 1000) >= 400, said);
  assert.match(said, /total .* in · \d+ out · no list price/);
  await page.locator("#system").fill("You are terse.");
  await message(page).fill("A draft");
  await page.waitForFunction(() => Object.values(localStorage).some((v) => v.includes("A draft")));
  await page.reload();
  assert.equal(await page.locator(".turn").count(), 2);
  assert.equal(await page.locator("#system").inputValue(), "You are terse.");
  assert.equal(await message(page).inputValue(), "A draft");
  assert.match(await page.locator("#code-curl").textContent(), /You are terse[^]*Say hello[^]*A draft/);
  assert.deepEqual(complaints, []);
});

test("functions that are no JSON are said beside the button, and nothing is lost", async () => {
  const { page } = await playground();
  await page.getByText("Tools", { exact: true }).click();
  await page.getByLabel("Functions").fill("[{");
  await page.getByText("Tools", { exact: true }).click(); // closed again
  await send(page, "Hello");
  await page.getByText("The functions are not valid JSON.").waitFor();
  assert.ok(await page.getByLabel("Functions").isVisible(), "the section with the mistake is closed");
  assert.equal(await message(page).inputValue(), "Hello");
  assert.equal(await page.locator(".turn").count(), 0);
  await page.getByLabel("Functions").fill("");
  await message(page).press("Enter");
  await facts(page).waitFor();
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
  assert.doesNotMatch(await page.locator("#code-curl").textContent(), /First/);
  // A reply that breaks off is one, too.
  await send(page, "[[sandbox:cut=3]] Third");
  await page.locator(".turn.user .wrong").waitFor();
  assert.equal(await page.locator(".turn.assistant").count(), 1);
  await page.reload();
  await page.locator(".turn.user .wrong").waitFor();
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

test("stop, retry and edit", async () => {
  const { page } = await playground();
  await send(page, "[[sandbox:tokens=2000]] [[sandbox:chunk_delay=20ms]] Slowly");
  await page.locator(".turn.assistant .text").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("stopped").waitFor();
  await page.locator(".turn.user").first().hover();
  await page.getByRole("button", { name: "Edit this message" }).click();
  assert.match(await message(page).inputValue(), /Slowly/);
  assert.equal(await page.locator(".turn").count(), 0);
  await send(page, "Quickly");
  await facts(page).waitFor();
  const before = await facts(page).textContent();
  await page.getByRole("button", { name: "Ask for another reply" }).click();
  await page.waitForFunction((text) => { const el = document.querySelector(".facts-line"); return el && el.textContent !== text; }, before);
  assert.equal(await page.locator(".turn").count(), 2);
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

test("calls of functions and of MCP servers are cards", async () => {
  const { page, complaints } = await playground("sandbox/large");
  await page.getByText("Tools", { exact: true }).click();
  await page.getByRole("button", { name: "Insert example" }).click();
  await send(page, "What is the weather in Paris? Use get_weather.");
  await page.getByLabel("Result").fill('{"sky": "clear"}');
  await page.getByRole("button", { name: "Send results" }).click();
  await facts(page).nth(1).waitFor();
  assert.match(await page.locator(".turn .call").first().textContent(), /get_weather[^]*Paris[^]*clear/);

  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByLabel("Functions").fill("");
  await page.getByLabel("MCP server URL").fill(gateway + "/mcp");
  await page.getByLabel("Authorization header").fill("Bearer " + key);
  await send(page, "[[sandbox:call=list_models]] Which models are there?");
  const card = page.locator("details.call");
  await facts(page).waitFor();
  assert.match(await card.locator("summary").textContent(), /done MCP .* \/ list_models/);
  await card.locator("summary").click();
  assert.match(await card.textContent(), /sandbox\/embed/);
  const code = await page.locator("#code-curl").textContent();
  assert.match(code, /\/v1\/responses[^]*\$MCP_TOKEN/);
  assert.ok(!code.includes(key) && !(await page.evaluate(() => JSON.stringify(localStorage))).includes(key), "the credentials are kept");
  await send(page, "And now?");
  await facts(page).nth(1).waitFor();
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
    return { heading: el.querySelector("h4")?.textContent, bold: el.querySelector("strong")?.textContent, soft: el.querySelector("em")?.textContent, items: el.querySelectorAll("li").length,
      inner: el.querySelector("li ul li")?.textContent, table: el.querySelectorAll("td").length, quote: el.querySelector("blockquote")?.textContent, word: el.querySelector(".c-word")?.textContent, note: el.querySelector(".c-note")?.textContent,
      bad: el.querySelectorAll("script, img, b, iframe").length, shows: el.textContent.includes("<script>alert(1)</script>"), snake: el.textContent.includes("snake_case_words"), links };
  }, text);
  assert.deepEqual(made, { heading: "Title", bold: "bold", soft: "soft", items: 3, inner: "inner", table: 2, quote: "quoted", word: "const", note: "// note", bad: 0, shows: true, snake: true, links: ["https://example.com/a", "https://example.com/x.png"] });
  // Whatever the text is, all of it is shown and none of it takes long.
  const nasty = ["*".repeat(20_000), "_a ".repeat(10_000), "[".repeat(20_000), "`".repeat(9_999) + "x", ">".repeat(5_000) + " deep", "- ".repeat(5_000) + "deep", "|".repeat(9_000) + "\n|-|\n", "~~a".repeat(9_000), "![](".repeat(5_000), "https://".repeat(5_000)];
  await page.evaluate((all) => { for (const text of all) window.sluiceText.markdown(text); }, nasty);
  assert.deepEqual(complaints, []);
});

test("two models side by side", async () => {
  const { page } = await playground();
  await page.getByLabel("Compare two models").check();
  await page.locator("#model-b").selectOption("sandbox/large");
  await send(page, "Hello, both");
  await facts(page).nth(1).waitFor();
  assert.equal(await page.locator(".lane").nth(0).locator(".turn").count(), 2);
  assert.equal(await page.locator(".lane").nth(1).locator(".turn").count(), 2);
  assert.match(await page.locator(".lane").nth(1).locator(".turn.assistant .by").textContent(), /sandbox\/large/);
  await page.reload();
  assert.equal(await page.locator(".lane").nth(1).locator(".turn").count(), 2);
});

test("presets, chats and two windows", async () => {
  const { page, context } = await playground();
  await page.locator("#system").fill("Answer in French.");
  await page.getByText("Presets and chats").click();
  await page.getByLabel("Name", { exact: true }).fill("French");
  await page.getByRole("button", { name: "Save preset" }).click();
  await send(page, "First chat");
  await facts(page).waitFor();
  const other = await context.newPage();
  await other.goto(gateway + "/dashboard/playground");
  await other.getByRole("button", { name: "New chat" }).click();
  await other.locator("#system").fill("");
  await other.getByText("Presets and chats").click();
  await other.locator("#presets").selectOption("French");
  assert.equal(await other.locator("#system").inputValue(), "Answer in French.");
  await send(other, "Second chat");
  await facts(other).waitFor();
  // Neither window has overwritten the chat of the other.
  await page.locator("#chats").getByText("Second chat").waitFor({ state: "attached" });
  await send(page, "More of the first");
  await facts(page).nth(1).waitFor();
  await other.locator("#chats").selectOption({ label: "First chat" });
  assert.equal(await other.locator(".turn").count(), 4);
  await other.getByRole("button", { name: "Delete this chat" }).click();
  await other.waitForFunction(() => ![...document.querySelectorAll("#chats option")].some((o) => o.textContent === "First chat"));
  await page.waitForFunction(() => ![...document.querySelectorAll("#chats option")].some((o) => o.textContent === "First chat"));
  // What the first window keeps of a draft does not bring the chat back; a message does.
  await message(page).fill("Draft");
  await page.locator("#system").fill("Answer in Latin.");
  await page.evaluate(() => dispatchEvent(new Event("pagehide")));
  await other.reload();
  assert.deepEqual(await other.locator("#chats option").allTextContents(), ["New chat", "Second chat"]);
  await send(page, "Even more of the first");
  await other.locator("#chats").getByText("First chat").waitFor({ state: "attached" });
});

test("the program is shown in four languages", async () => {
  const { page } = await playground();
  await message(page).fill("It's `quoted` text");
  for (const [name, id, want] of [["curl", "curl", "It'\\''s"], ["Python", "python", "client.chat.completions.create("], ["TypeScript", "typescript", "await client.chat.completions.create("], ["Go", "go", 'It\'s ` + "`" + `quoted']]) {
    await page.getByRole("tab", { name, exact: true }).click();
    const text = await page.locator("#code-" + id).textContent();
    assert.ok(text.includes(want) && text.includes(gateway), text);
  }
  await page.getByRole("tab", { name: "curl" }).click();
  await page.keyboard.press("ArrowRight");
  assert.ok(await page.getByRole("tabpanel", { name: "Python" }).isVisible());
});

test("pictures only for models that take them", async () => {
  const { page } = await playground();
  assert.ok(await page.getByRole("button", { name: "Add pictures" }).isDisabled());
});

test("a session that has ended loses nothing", async () => {
  const { page, context } = await playground();
  await context.clearCookies();
  await send(page, "Still here?");
  await page.getByText("You are not signed in.").waitFor();
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
      await page.locator("#model").selectOption("sandbox/reasoner");
      await send(page, "What is 2 + 3?");
      await facts(page).waitFor();
      for (const [name, path] of [["playground", "/dashboard/playground"], ["models", "/dashboard/models?compare=sandbox/small&compare=sandbox/large"], ["model", "/dashboard/models/sandbox/small"]]) {
        await examine(page, path, `play-${name}-${size}-${colorScheme}`);
        const bytes = await page.evaluate(() => performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize || 0), 0));
        assert.ok(bytes < 120 << 10, `${path} takes ${bytes} bytes`);
      }
      assert.deepEqual(complaints, []);
    });
  }
}
