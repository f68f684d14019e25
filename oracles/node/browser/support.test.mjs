// Support from both sides: an account that its calls have switched off, its owner, and the staff who look after it.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, join, mail, signUp, subscribe, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();

async function chat(key, model = "sandbox/small") {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

// shoot takes pictures of the page in both themes and sizes, if somebody wants them.
async function shoot(page, name) {
  if (!process.env.SHOTS) return;
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, viewport] of [["desk", { width: 1280, height: 860 }], ["phone", { width: 390, height: 844 }]]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(viewport);
      await page.screenshot({ path: `${process.env.SHOTS}/${name}-${colorScheme}-${size}.png`, fullPage: true });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + " is wider than its window");
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 860 });
}

test("an account is switched off, its owner writes, staff restores and suspends it", async () => {
  const { page: ana, complaints } = await open();
  const { page: eve, complaints: others } = await open();
  const key = await signUp(ana, "ana@example.com");
  await join(eve, "eve@example.com");

  let status, calls = 0;
  for (status = 200; status === 200 && calls < 100; calls++) status = await chat(key);
  assert.equal(status, 401, `after ${calls} calls the key is off`);

  // The customer finds the way to support, although the keys are off.
  await ana.goto(gateway + "/dashboard");
  await ana.getByRole("alert").getByRole("link", { name: "Contact support" }).click();
  assert.equal(await ana.getByLabel("What is it about?").inputValue(), "restore");
  await shoot(ana, "contact");
  await ana.getByLabel("Subject").fill("Please restore my keys");
  await ana.getByLabel("Message").fill("It was a test.\nIt will not happen again.");
  await ana.getByRole("button", { name: "Send" }).click();
  await ana.getByText("Your message was sent to support.").waitFor();

  // Staff finds both in the queue: what the customer wrote, and that the keys are off.
  await eve.goto(gateway + "/support/queue");
  await eve.getByRole("link", { name: "Please restore my keys" }).waitFor();
  const off = eve.getByRole("row").filter({ hasText: "Keys off" }).filter({ hasText: "ana@example.com" });
  await shoot(eve, "queue");
  await off.getByRole("link", { name: "Keys switched off" }).click();
  await eve.getByRole("img", { name: /Abuse score over this month/ }).waitFor();
  for (const name of [/Requests by hour over/, /Pauses between calls/]) await eve.getByRole("slider", { name }).waitFor();
  await eve.getByText("sandbox/small").first().waitFor();
  await shoot(eve, "ticket");

  // They talk.
  await eve.goto(gateway + "/support/queue");
  await eve.getByRole("link", { name: "Please restore my keys" }).click();
  await eve.getByLabel("Message", { exact: true }).fill("What was it for?");
  await eve.getByRole("button", { name: "Send" }).click();
  await eve.getByText("Done.").waitFor();
  for (;;) if ((await mail("ana@example.com")).includes("What was it for?")) break;
  await ana.goto(gateway + "/dashboard/messages");
  await shoot(ana, "messages");
  await ana.getByRole("listitem").filter({ hasText: "Please restore my keys" }).filter({ hasText: "new" }).getByRole("link").click();
  await ana.getByText("What was it for?").waitFor();
  await ana.getByLabel("Message").fill("For a bot.");
  await ana.getByRole("button", { name: "Send" }).click();
  await ana.getByText("Your message was sent to support.").waitFor();
  await shoot(ana, "thread");

  // Staff restores the account, and the key works again.
  await eve.reload();
  await eve.getByText("For a bot.").waitFor();
  await eve.getByText("Restore", { exact: true }).first().click();
  const restore = eve.locator("form").filter({ has: eve.locator('input[value="restore"]') });
  await restore.getByLabel("Reason, for the audit log").fill("a test that went wrong");
  await restore.getByRole("button", { name: "Restore" }).click();
  await eve.getByText("Done.").waitFor();
  assert.equal(await chat(key), 200, "the key after staff restored it");

  // A suspension holds for the next request.
  await eve.getByText("Suspend", { exact: true }).first().click();
  const suspend = eve.locator("form").filter({ has: eve.locator('input[value="suspend"]') });
  await suspend.getByLabel("Reason, for the audit log").fill("resells access");
  await suspend.getByRole("button", { name: "Suspend" }).click();
  await eve.getByText("Done.").waitFor();
  assert.equal(await chat(key), 423, "the key after the suspension");
  await ana.goto(gateway + "/dashboard/messages");
  await ana.getByRole("alert").getByText("Your account is suspended: resells access").waitFor();

  // Everything is in the timeline, in words, and in the audit log.
  await eve.getByRole("link", { name: "ana@example.com" }).first().click();
  await eve.locator(".timeline").first().waitFor();
  let told = "";
  for (let older; ; await eve.goto(gateway + older)) { // a page of it has ten entries
    told += (await eve.locator(".timeline").allInnerTexts()).join("\n");
    const link = eve.getByRole("link", { name: "Show older" });
    if (!(await link.count())) break;
    older = await link.getAttribute("href");
  }
  for (const name of ["All keys switched off", "Ticket opened by the customer", "Ticket answered", "Restored after review", "All keys restored", "Suspended after review", "Account suspended"]) {
    assert.ok(told.includes(name), name);
  }
  await eve.getByRole("link", { name: "Audit log" }).click();
  for (const action of ["All keys switched off", "Ticket opened by the customer", "Ticket answered", "Restored after review", "All keys restored", "Suspended after review", "Account suspended"]) {
    await eve.getByText(action, { exact: true }).first().waitFor();
  }
  // The console is not there for a customer.
  assert.equal((await ana.goto(gateway + "/support/queue")).status(), 404);
  assert.deepEqual([...complaints, ...others], []);
});

test("a downgrade is a decision of staff", async () => {
  const { page: bob, complaints } = await open();
  const { page: max, complaints: others } = await open();
  await signUp(bob, "bob@example.com");
  await join(max, "max@example.com");
  await subscribe(bob, "Premium");
  await bob.getByText("Your plan is active.").waitFor();

  // The customer can only ask.
  const basic = bob.locator("section", { has: bob.getByRole("heading", { name: "Basic", exact: true }) }).first();
  assert.equal(await basic.getByRole("button").count(), 0, "the lower plan has no button");
  const refused = await bob.request.post(gateway + "/dashboard/plan/subscribe", { form: { plan: "basic" }, headers: { Origin: gateway }, maxRedirects: 0 });
  assert.ok(refused.status() >= 400, "a downgrade by a forged form is " + refused.status());
  await basic.getByRole("link", { name: "Downgrade to Basic" }).click();
  await bob.getByRole("dialog").getByRole("button", { name: "Request Basic" }).click();
  await bob.getByText("Your request was sent to support.").waitFor();

  await max.goto(gateway + "/support/queue?kind=downgrade");
  await max.getByRole("link", { name: "Downgrade to Basic" }).click();
  await max.getByRole("link", { name: "bob@example.com" }).first().click();
  await downgrade(max);
  await max.locator(".timeline li").filter({ hasText: "the customer asked" }).filter({ hasText: "max@example.com" }).first().waitFor();
  await bob.goto(gateway + "/dashboard/plan");
  await bob.getByText("To Basic on").waitFor();
  await bob.getByRole("button", { name: "Keep Premium" }).click();
  await bob.getByText("Your plan stays as it is.").first().waitFor();
  assert.deepEqual([...complaints, ...others], []);
});

// downgrade sets the lower plan on the account's page.
async function downgrade(page) {
  await page.getByText("Downgrade the subscription").first().click();
  const form = page.locator("form").filter({ has: page.getByRole("button", { name: "Downgrade" }) });
  await form.getByRole("combobox").first().selectOption("basic");
  await form.getByLabel(/Reason/).fill("the customer asked");
  await form.getByRole("button", { name: "Downgrade" }).click();
  await page.getByText("Done.").waitFor();
}

test("every page of the console, as pages are examined", async () => {
  const { page, context } = await open();
  await join(page, "kim@example.com");
  const { page: joe } = await open();
  const key = await signUp(joe, "joe@example.com");
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "sandbox/small", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  const request = response.headers.get("x-request-id");

  // Something of everything: an announcement, a drained target, a ticket, a token.
  await page.goto(gateway + "/support/announcements");
  await page.getByRole("link", { name: "New announcement" }).click();
  await page.getByLabel("Text", { exact: true }).fill("New models next week.");
  await page.getByRole("button", { name: "Announce", exact: true }).click();
  const sure = page.getByRole("dialog").filter({ hasText: "“New models next week.” appears above every page" });
  await sure.getByRole("button", { name: "Announce" }).click();
  await page.getByText("New models next week.").first().waitFor();
  await joe.goto(gateway + "/dashboard/messages/new");
  await joe.getByLabel("What is it about?").selectOption("other");
  await joe.getByLabel("Subject").fill("A question");
  await joe.getByLabel("Message").fill("How do I begin?");
  await joe.getByRole("button", { name: "Send" }).click();
  await page.goto(gateway + "/support/queue");
  const ticket = await page.getByRole("link", { name: "A question" }).first().getAttribute("href");
  await page.goto(gateway + "/support/accounts?q=joe@example.com");
  const account = new URL(page.url()).pathname;
  assert.match(account, /^\/support\/accounts\/acct_/);

  const paths = {
    overview: "/support/overview", queue: "/support/queue", ticket, accounts: "/support/accounts", account, log: account + "/log", costs: account + "/costs",
    requests: "/support/requests", request: "/support/requests?id=" + request, upstreams: "/support/upstreams",
    incidents: "/support/incidents", announcements: "/support/announcements", alerts: "/support/alerts", servers: "/support/servers", caches: "/support/caches", whatif: "/support/whatif", invoices: "/support/reconciliations", tokens: "/support/tokens",
  };
  const storageState = await context.storageState();
  for (const [colorScheme, sizes] of themes) {
    for (const [size, viewport] of sizes) {
      const { page, context, complaints } = await open({ colorScheme, viewport, storageState, reducedMotion: "reduce" });
      for (const [name, path] of Object.entries(paths)) await examine(page, path, `support-${name}-${size}-${colorScheme}`);
      assert.deepEqual(complaints, []);
      await context.close();
    }
  }
});
