// One customer's way through the pages, from signing up to cancelling.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, link, mail, password, signUp, subscribe, useBrowser } from "./visitor.mjs";

const open = useBrowser();

async function chat(key, model = "sandbox/small") {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "a secret that no page shows" }] }),
  });
  await response.text();
  return { status: response.status, id: response.headers.get("x-request-id") };
}

test("sign up, subscribe, call, watch, upgrade, regenerate, cancel", async () => {
  const { page, complaints } = await open();
  const master = await signUp(page, "ana@example.com");
  assert.equal((await chat(master, "sandbox/large")).status, 402, "a paid model without a plan");

  await subscribe(page, "Basic");
  await page.getByText("Your plan is active.").waitFor();
  assert.equal((await chat(master, "sandbox/large")).status, 200, "a paid model after subscribing");

  await page.getByRole("link", { name: "Keys" }).click();
  await page.getByRole("link", { name: "New key" }).click();
  await page.getByLabel("Name", { exact: true }).fill("laptop");
  await page.getByRole("button", { name: "Create key" }).click();
  const sub = await page.locator("#new-key").textContent();
  const called = await chat(sub);
  assert.equal(called.status, 200, "a call with the sub-key");
  await page.reload();
  assert.equal(await page.locator("#new-key").textContent(), sub, "the key after a reload");
  await page.reload();
  assert.ok(!(await page.content()).includes(sub), "the key is on a page after its one showing");

  await page.getByRole("link", { name: "Activity" }).click();
  const row = page.locator("table.requests tbody tr").filter({ has: page.locator(`a[href*="${called.id}"]`) });
  await row.waitFor();
  assert.match(await row.textContent(), /200.*sandbox\/small.*laptop/s);
  assert.ok(!(await page.content()).includes("a secret that no page shows"));
  await page.locator("main .graph").first().waitFor();

  await page.getByRole("link", { name: "Plan and billing" }).click();
  await page.locator("section", { has: page.getByRole("heading", { name: "Premium" }) }).getByRole("link", { name: "Upgrade" }).click();
  const shown = await page.locator("#amount").textContent();
  assert.match(shown, /^\$1[0-5](\.\d\d)?$/, "the difference for nearly a whole month");
  await page.getByRole("button", { name: /^Pay .* and upgrade$/ }).click();
  await page.getByText("Your new plan is active.").waitFor();
  const invoice = page.getByRole("row").filter({ hasText: "Upgrade to Premium" });
  assert.ok((await invoice.textContent()).includes(shown), "the shown amount was charged");
  assert.equal((await chat(sub, "sandbox/reasoner")).status, 200, "a premium model after the upgrade");

  await page.getByRole("link", { name: "Keys" }).click();
  await page.getByRole("link", { name: "Regenerate" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Regenerate" }).click();
  const renewed = await page.locator("#new-key").textContent();
  assert.equal((await chat(master)).status, 401, "the old master key");
  assert.equal((await chat(renewed)).status, 200, "the new master key");

  await page.getByRole("link", { name: "Plan and billing" }).click();
  await page.getByRole("link", { name: "Cancel plan" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel Premium" }).click();
  await page.getByText("Your plan was cancelled.").waitFor();
  assert.equal((await chat(sub, "sandbox/reasoner")).status, 200, "the plan until the period ends");
  await page.getByRole("button", { name: "Keep Premium" }).click();
  await page.getByText("Your plan was resumed.").waitFor();
  assert.deepEqual(complaints, []);
});

test("cards that decline or ask", async () => {
  const { page, complaints } = await open();
  await signUp(page, "carl@example.com");
  await subscribe(page, "Basic", "4000000000000002");
  await page.getByText("declined").waitFor();
  await page.locator('input[value="4000002500003155"]').check();
  await page.getByRole("button", { name: /^Pay / }).click();
  await page.getByRole("button", { name: "Confirm payment" }).click();
  await page.getByText("Your plan is active.").waitFor();
  assert.deepEqual(complaints, []);
});

test("the playground streams, shows reasoning apart, and takes tool results", async () => {
  const { page, complaints } = await open();
  await signUp(page, "paul@example.com");
  await subscribe(page, "Premium");
  await page.getByText("Your plan is active.").waitFor();
  await page.goto(gateway + "/dashboard/playground?model=sandbox/reasoner");
  const replies = page.locator(".turn.assistant");
  await page.getByRole("button", { name: /^Settings/ }).click();
  await page.locator("#settings").getByText("Parameters", { exact: true }).click();
  await page.getByLabel("Reasoning effort").selectOption("high");
  await page.getByLabel("Message", { exact: true }).fill("What is 2 + 3?");
  await page.keyboard.press("Enter");
  await replies.first().locator(".facts-line").waitFor();
  assert.notEqual((await replies.first().locator(".thought").textContent()).trim(), "");
  assert.notEqual((await replies.first().locator(".text").textContent()).trim(), "");
  await page.getByRole("button", { name: "Get code" }).click();
  assert.match(await page.locator("#code-curl").textContent(), /chat\/completions[^]*What is 2 \+ 3/);
  await page.keyboard.press("Escape");

  await page.getByRole("button", { name: "New chat", exact: true }).click();
  await page.locator("#model").selectOption("sandbox/small");
  await page.getByRole("checkbox", { name: /^get_weather/ }).check();
  await page.getByLabel("Message", { exact: true }).fill("What is the weather in Paris? Use get_weather.");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByLabel("Result", { exact: true }).first().fill('{"sky": "clear"}');
  await page.getByRole("button", { name: "Send results" }).click();
  await replies.nth(1).locator(".facts-line").waitFor();
  await page.goto(gateway + "/dashboard/activity");
  await page.getByRole("row").filter({ hasText: "Dashboard" }).first().waitFor();
  assert.deepEqual(complaints, []);
});

test("a video is made, played and downloaded", async () => {
  const { page, complaints } = await open();
  await signUp(page, "vera@example.com");
  await page.goto(gateway + "/dashboard/videos");
  await page.getByLabel("Prompt").fill("A lighthouse at dusk");
  await page.getByLabel("Size").selectOption("480x480");
  await page.getByLabel("Seconds").fill("1");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("link", { name: "Download" }).waitFor({ timeout: 60_000 });
  const width = await page.locator(".clips video").evaluate((video) => new Promise((done) => {
    if (video.readyState >= 1) done(video.videoWidth);
    else video.addEventListener("loadedmetadata", () => done(video.videoWidth), { once: true });
  }));
  assert.equal(width, 480);
  const waiting = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  assert.match((await waiting).suggestedFilename(), /\.mp4$/);

  // A video that was cancelled can be tried again, and one that is over deleted. The focus stays on the page.
  await page.getByLabel("Prompt").fill("A ship at dawn");
  await page.getByLabel("Size").selectOption("480x480");
  await page.getByLabel("Seconds").fill("1");
  await page.getByRole("button", { name: "Create" }).click();
  const clip = page.locator(".clip", { hasText: "A ship at dawn" });
  await clip.getByRole("link", { name: "Download" }).waitFor({ timeout: 60_000 });
  await clip.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal(await clip.count(), 1, "the question answered with no deletes nothing");
  await clip.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await clip.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.closest(".clip") !== null), true, "the focus is on another video");
  await page.reload();
  await page.locator(".clip", { hasText: "A lighthouse at dusk" }).waitFor();
  assert.equal(await clip.count(), 0, "a deleted video is gone");
  assert.deepEqual(complaints, []);
});

test("password, address, sessions and closing", async () => {
  const { page, complaints } = await open();
  const key = await signUp(page, "dora@example.com");
  const { page: other } = await open();
  await other.goto(gateway + "/dashboard/account");
  await other.getByLabel("E-mail").fill("dora@example.com");
  await other.getByLabel("Password").fill(password);
  await other.getByRole("button", { name: "Sign in", exact: true }).click();
  await other.getByRole("heading", { name: "Account", exact: true }).waitFor();

  await page.goto(gateway + "/dashboard/account?sessions");
  await page.getByRole("dialog").getByRole("listitem").getByRole("button", { name: /^Sign out / }).click();
  await page.getByText("That session was signed out.").waitFor();
  await other.reload();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();

  // Forgot the password: the link sets a new one, signs in, and signs out everywhere else.
  await other.getByRole("link", { name: "Forgot your password?" }).click();
  await other.getByLabel("E-mail").fill("dora@example.com");
  await other.getByRole("button", { name: "Send link" }).click();
  await other.getByRole("heading", { name: "Check your e-mail" }).waitFor();
  await other.goto(link(await mail("dora@example.com")));
  await other.getByLabel("New password").fill(password);
  await other.getByRole("button", { name: "Set password" }).click();
  await other.getByText("Your password was set.").waitFor();
  await page.reload();
  await page.getByLabel("E-mail").fill("dora@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Account", exact: true }).waitFor();
  await page.goto(gateway + "/dashboard/account?sessions");
  await page.getByRole("dialog").getByRole("button", { name: "Sign out all others" }).click();
  await page.getByText("All other sessions were signed out.").waitFor();
  await other.reload();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();

  // One proof is enough for a new address and a new password.
  await page.getByRole("link", { name: /^Change ?: E-mail$/ }).click();
  await page.getByLabel("New e-mail").fill("dora@new.example.com");
  await page.getByLabel("Current password").fill(password);
  await page.getByRole("button", { name: "Send link" }).click();
  await page.goto(link(await mail("dora@new.example.com")));
  await page.getByRole("button", { name: "Confirm address" }).click();
  await page.getByText("Your e-mail address was changed.").waitFor();

  await page.goto(gateway + "/dashboard/account?password");
  assert.equal(await page.getByLabel("Current password").count(), 0, "the proof holds");
  await page.getByLabel("New password").fill("another long password");
  await page.getByRole("button", { name: "Save password" }).click();
  await page.getByText("Your password was changed.").waitFor();

  await page.goto(gateway + "/dashboard/account?close");
  await page.getByLabel("Enter your e-mail address to confirm").fill("dora@new.example.com");
  await page.getByLabel("Current password").fill("another long password");
  await page.getByRole("button", { name: "Close account" }).click();
  await page.getByText("Your account was closed.").waitFor();
  assert.equal((await chat(key)).status, 401, "the key of a closed account");
  assert.deepEqual(complaints, []);
});
