// What pages that call the API show when a call is refused or fails. Each click is one call: a browser repeats a POST by
// itself when its connection is closed without a reply.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, signUp, useBrowser } from "./visitor.mjs";

const open = useBrowser();

// somebody signs up: without a plan, and with a few calls a minute. made is how many calls they have made.
async function somebody(name) {
  const { page, context } = await open();
  const key = await signUp(page, name + "@example.com");
  return { key, state: await context.storageState(), made: 0 };
}

// seen waits until the server knows all calls of somebody: it writes them down shortly after they have ended.
async function seen(page, who) {
  const calls = async () => {
    const reply = await fetch(gateway + "/v1/requests?range=1h&limit=100", { headers: { Authorization: "Bearer " + who.key } });
    assert.equal(reply.status, 200);
    return (await reply.json()).data.length;
  };
  for (let i = 0; i < 300 && await calls() < who.made; i++) await page.waitForTimeout(100);
  assert.equal(await calls(), who.made, "one click makes one call");
}

// useUp makes calls until one is refused.
async function useUp(who) {
  for (;;) {
    const reply = await fetch(gateway + "/v1/chat/completions", { method: "POST", headers: { Authorization: "Bearer " + who.key, "Content-Type": "application/json" }, body: JSON.stringify({ model: "sandbox/small", messages: [{ role: "user", content: "hi" }] }) });
    who.made++;
    if (reply.status === 429) return;
    assert.equal(reply.status, 200);
  }
}

for (const streamed of [true, false]) {
  const way = streamed ? "streamed" : "not streamed";
  let who;
  test("somebody signs up, " + way, async () => { who = await somebody(streamed ? "stella" : "walter"); });
  for (const [name, status, model, text, shown] of [
    ["400", 400, "sandbox/small", "[[sandbox:error=400]] Hello", /./],
    ["402", 402, "sandbox/large", "Hello", /plan/],
    ["503", 503, "sandbox/small", "[[sandbox:error=503]] Hello", /./],
    ["a reply that breaks off", streamed ? 200 : 503, "sandbox/small", "[[sandbox:cut=3]] Hello", /./],
    ["429", 429, "sandbox/small", "Hello", /requests a minute/],
  ]) {
    test(`the playground shows ${name}, ${way}`, async () => {
      const { page, complaints } = await open({ storageState: who.state });
      await page.goto(gateway + "/dashboard/playground");
      await page.locator(".play.ready").waitFor();
      // The page offers no model that the plan lacks; a plan may end while the page is open.
      if (status === 402) await page.evaluate((id) => document.getElementById("model").add(new Option(id)), model);
      await page.locator("#model").selectOption(model);
      await page.evaluate((on) => { document.getElementById("stream").checked = on; }, streamed);
      if (status === 429) await useUp(who);
      await page.getByLabel("Message", { exact: true }).fill(text);
      const answered = page.waitForResponse((r) => r.request().method() === "POST" && r.url().endsWith("/v1/chat/completions"));
      await page.getByRole("button", { name: "Send", exact: true }).click();
      who.made++;
      const reply = await answered;
      assert.equal(reply.status(), status);
      const wrong = page.locator(".turn.user .wrong");
      await wrong.waitFor();
      const said = await wrong.textContent();
      assert.match(said, shown);
      assert.doesNotMatch(said, /cannot be reached|Failed to fetch|cut off\.$/);
      if (status !== 200) assert.equal(said, (await reply.json()).error.message);
      await seen(page, who);
      assert.deepEqual(complaints, []);
    });
  }
  if (streamed) continue;
  test("the videos page shows 400 and 429", async () => {
    const { page, complaints } = await open({ storageState: who.state });
    await page.goto(gateway + "/dashboard/videos");
    for (const [status, seconds, shown] of [[400, "99", /n_seconds/], [429, "5", /requests a minute/]]) {
      if (status === 429) await useUp(who); // a minute may have passed
      await page.getByLabel("Prompt").fill("A lighthouse");
      await page.evaluate((seconds) => { document.getElementById("video-form").noValidate = true; document.getElementById("video-seconds").value = seconds; }, seconds);
      const answered = page.waitForResponse((r) => r.request().method() === "POST" && r.url().endsWith("/jobs"));
      await page.getByRole("button", { name: "Create" }).click();
      who.made++;
      const reply = await answered;
      assert.equal(reply.status(), status);
      const { message } = (await reply.json()).error;
      assert.match(message, shown);
      await page.locator("#video-problem").getByText(message, { exact: true }).waitFor();
      await seen(page, who);
    }
    assert.deepEqual(complaints, []);
  });
}
