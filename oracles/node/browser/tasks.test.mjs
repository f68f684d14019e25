// What staff does every day, in the demonstration: the clicks are counted, and are those of docs/care/console.md. The queue is
// worked through with keys, and without scripts.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gateway, useBrowser } from "./visitor.mjs";

const open = useBrowser();

async function staff(options) {
  const opened = await open(options);
  await opened.page.goto(gateway + "/demo/console");
  return opened;
}

// worker works from the overview on, and counts what is clicked or chosen.
async function worker() {
  const { page, complaints } = await staff();
  const w = {
    page, complaints, clicks: 0,
    async click(locator) {
      w.clicks++;
      await locator.click();
    },
    link: (name) => w.click(page.locator("#main").getByRole("link", { name, exact: true }).first()),
    go: (name) => w.click(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true })),
    async choose(menu, value) {
      w.clicks++;
      await menu.selectOption(value);
    },
    // find looks for a customer or a request with the search over everything.
    async find(text) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search" }).fill(text);
      await w.click(page.getByRole("option").filter({ hasText: text }).first());
    },
    // form opens the form of an action and returns it.
    async form(title) {
      await w.click(page.getByText(title, { exact: true }));
      return page.locator("details.action[open] form");
    },
    done: (text) => page.getByText(text).first().waitFor(),
  };
  return w;
}

// refusedRequest returns the id of a request of the customer that was refused.
async function refusedRequest(page, email) {
  await page.goto(gateway + "/support/requests?account=" + email);
  return new URL(await page.locator("table a").first().getAttribute("href"), gateway).searchParams.get("id");
}

const tasks = {
  "Restore keys after a review": async (w) => {
    await w.go("Queue");
    await w.link("My script ran in a loop");
    // All that the review needs is here.
    for (const text of ["Refused, 7 days", "Total paid", "Earlier decisions", "Abuse score this month"]) await w.page.getByText(text).first().waitFor();
    await w.click(w.page.locator(".steps-of").getByText("Restore", { exact: true }));
    await w.page.locator(".step-restore").getByLabel("Reason, for the audit log").fill("a loop, which is mended");
    await w.click(w.page.getByRole("button", { name: "Restore 2 keys" }));
    await w.done("Done.");
  },
  "Answer a ticket": async (w) => {
    await w.go("Queue");
    await w.link("Payment failed");
    await w.page.getByRole("heading", { name: "Payment failed" }).waitFor();
    await w.page.waitForLoadState();
    await w.page.keyboard.press("r");
    await w.page.keyboard.type("Please update your card.");
    await w.click(w.page.getByRole("button", { name: "Send" }));
    await w.done("Done.");
  },
  "Snooze a ticket for three days": async (w) => {
    await w.go("Queue");
    await w.click(w.page.getByLabel("Snooze: From Premium to Basic"));
    await w.click(w.page.locator("details[open]").getByRole("button", { name: "3 days" }));
    await w.done("“From Premium to Basic” is snoozed");
    await w.page.getByRole("button", { name: "Undo" }).click(); // the next task needs it
    await w.page.getByRole("link", { name: "From Premium to Basic" }).waitFor();
  },
  "Downgrade the plan that a ticket is about, and close it": async (w) => {
    await w.go("Queue");
    await w.link("From Premium to Basic");
    const form = await w.form("Downgrade the subscription");
    await form.getByText("Downgrade jonas@tidewater.example from Premium to Basic").waitFor();
    await form.getByLabel("Reason").fill("the customer asked");
    await w.click(form.getByRole("button", { name: "Downgrade" }));
    await w.done("Done.");
    await w.click(w.page.getByRole("button", { name: "Close", exact: true }));
    await w.page.getByText("Closed on").waitFor();
  },
  "Drain a provider with three targets": async (w) => {
    await w.go("Upstreams");
    await w.link("Drain openai");
    const dialog = w.page.getByRole("dialog");
    await dialog.getByText("No new calls go to openai (3 targets, 3 models).").waitFor();
    await dialog.getByLabel("Reason").fill("their incident");
    await w.click(dialog.getByRole("button", { name: "Drain openai" }));
    await w.page.getByRole("heading", { name: "Drained now" }).waitFor();
    await w.page.getByRole("button", { name: "Enable openai", exact: true }).first().click();
    await w.done("Done.");
  },
  "Find out why a request failed": async (w) => {
    const id = await refusedRequest(w.page, "mira@tidewater.example");
    await w.page.goto(gateway + "/support/overview");
    await w.find(id);
    await w.page.getByRole("heading", { name: id }).waitFor();
    await w.page.getByText("refused").first().waitFor();
  },
  "Grant an account another plan": async (w) => {
    await w.find("lena@tidewater.example");
    const form = await w.form("Grant a plan");
    await w.choose(form.getByLabel("Plan"), "premium");
    await form.getByText("Grant Premium to lena@tidewater.example").waitFor();
    await form.getByLabel("Reason").fill("a trial");
    await w.click(form.getByRole("button", { name: "Grant" }));
    await w.done("Done.");
  },
  "Refund a part of a payment": async (w) => {
    await w.find("mira@tidewater.example");
    const form = await w.form("Refund a payment");
    await form.getByLabel("Amount in dollars").fill("40.00");
    await form.getByLabel("Reason").fill("an outage");
    await w.click(form.getByRole("button", { name: "Refund" }));
    const dialog = w.page.getByRole("dialog");
    await dialog.getByRole("heading", { name: /^Refund \$40\.00 of \$\d+\.\d\d \(invoice \d+ of .*\) to mira@tidewater\.example\?$/ }).waitFor();
    await w.click(dialog.getByRole("button", { name: "Refund" }));
    await w.done("Done.");
  },
  "Suspend an account": async (w) => {
    await w.find("sofia@tidewater.example");
    const form = await w.form("Suspend the account");
    await form.getByText(/^Suspend sofia@tidewater\.example with \d+ keys?\.$/).waitFor();
    await form.getByLabel("Reason").fill("resells access");
    await w.click(form.getByRole("button", { name: "Suspend" }));
    await w.done("Done.");
  },
  "Find the busiest account of the last hour, and its customer": async (w) => {
    const first = w.page.getByRole("region", { name: "Busiest accounts", exact: true }).getByRole("row").nth(1).getByRole("link");
    const email = await first.textContent();
    await w.click(first);
    await w.page.getByRole("heading", { name: email }).waitFor();
  },
};

test("ten tasks, and how many clicks they take", async () => {
  const page = readFileSync(new URL("../../../docs/care/console.md", import.meta.url), "utf8");
  const said = Object.fromEntries([...page.matchAll(/^\| (.+?) \| [^|]+ \| (\d+) \|$/gm)].map(([, task, clicks]) => [task, Number(clicks)]));
  const counted = {};
  for (const [name, work] of Object.entries(tasks)) {
    const w = await worker();
    await w.page.goto(gateway + "/support/overview");
    w.clicks = 0;
    await work(w).catch((error) => { throw new Error(name + ": " + error.message); });
    counted[name] = w.clicks;
    assert.deepEqual(w.complaints, [], name);
    await w.page.context().close();
  }
  assert.deepEqual(counted, said, "the clicks, and those of docs/care/console.md");
});

test("the queue is worked through with keys", async () => {
  const { page, complaints } = await staff({ timezoneId: "Europe/Berlin" });
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  await page.goto(gateway + "/support/queue?view=answered");
  const subjects = await page.locator("[data-open]").allTextContents();
  assert.ok(subjects.length >= 2, "tickets that were answered: " + subjects);

  // ? shows the keys and hides them, j and k move, Enter opens.
  await page.keyboard.press("?");
  await page.getByText("Assign the ticket to me").waitFor();
  await page.keyboard.press("?");
  assert.equal(await page.getByText("Assign the ticket to me").isVisible(), false);
  await page.keyboard.press("j");
  assert.equal(await focused(), subjects[0]);
  await page.keyboard.press("j");
  assert.equal(await focused(), subjects[1]);
  await page.keyboard.press("k");
  assert.equal(await focused(), subjects[0]);
  // One that nobody of the staff has yet is assigned.
  const free = await page.locator("tr[data-row]").evaluateAll((rows) => rows.findIndex((row) => row.querySelector("[aria-keyshortcuts=a]")));
  assert.ok(free >= 0, "a ticket that is not assigned");
  for (let i = 0; i < free; i++) await page.keyboard.press("j");
  await page.keyboard.press("a");
  await page.locator("tr", { hasText: subjects[free] }).getByText("ines@tidewater.example").waitFor();
  await page.waitForFunction((text) => document.activeElement.textContent.trim() === text, subjects[free]); // the row is kept
  await page.goto(gateway + "/support/queue?view=answered");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("s");
  await page.locator("details[open]").getByText(`Snooze “${subjects[1]}”`).waitFor();

  // A moment is picked in the zone of the reader, said in UTC, and kept.
  await page.locator("details[open]").getByLabel("Or until").fill("2027-01-05T09:00");
  await page.getByText("5 Jan 2027 08:00 UTC").waitFor();
  await page.locator("details[open]").getByLabel("Or until").press("e"); // no key of the queue while somebody types
  assert.equal(await page.locator("[data-open]").count(), subjects.length);
  await page.locator("details[open]").getByRole("button", { name: "Snooze until then" }).click();
  const note = page.getByRole("status").filter({ hasText: `“${subjects[1]}” is snoozed` });
  assert.equal(await note.evaluate((el) => getComputedStyle(el).position), "fixed", "the note pushes the table down");
  assert.equal(await note.locator("time").getAttribute("datetime"), "2027-01-05T08:00:00Z");
  await note.getByRole("button", { name: "Undo" }).click();
  await page.goto(gateway + "/support/queue?view=answered");
  await page.keyboard.press("j");
  const closed = await focused();
  await page.keyboard.press("e");
  await page.getByRole("status").filter({ hasText: `“${closed}” is closed` }).waitFor();
  await page.getByRole("button", { name: "Undo" }).click();

  // On the page of a ticket, and not in its fields.
  await page.goto(gateway + "/support/queue?view=closed");
  await page.keyboard.press("j");
  const opened = await focused();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: opened }).waitFor();
  await page.waitForLoadState();
  await page.keyboard.press("r");
  await page.keyboard.type("ajkse?");
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "ajkse?");
  assert.deepEqual(complaints, []);
});

test("the queue and a drain without scripts", async () => {
  const { page } = await staff({ javaScriptEnabled: false });
  await page.goto(gateway + "/support/queue?view=answered");
  const subject = await page.locator("[data-open]").first().textContent();
  await page.getByRole("button", { name: "Close: " + subject }).first().click();
  await page.getByRole("status").filter({ hasText: `“${subject}” is closed` }).getByRole("button", { name: "Undo" }).click();
  await page.goto(gateway + "/support/queue");
  await page.getByRole("link", { name: subject }).first().click();
  await page.getByRole("heading", { name: subject }).waitFor();
  // One that is neither about the plan nor about a payment has decisions.
  await page.goto(gateway + "/support/queue?view=closed");
  await page.getByRole("link", { name: "Claude Haiku answers 503" }).click();
  await page.locator(".steps-of").getByText("Warn", { exact: true }).click();
  await page.locator(".step-warn").getByRole("button", { name: "Warn" }).waitFor();
  assert.equal(await page.locator(".step-answer").isVisible(), false, "two forms are seen at once");
  await page.goto(gateway + "/support/upstreams");
  await page.getByRole("link", { name: "Drain azure", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("without scripts");
  await dialog.getByLabel("Until").fill("2027-01-05T09:00");
  await dialog.getByRole("button", { name: "Drain azure" }).click();
  const row = page.getByRole("row").filter({ hasText: "without scripts" }).first();
  assert.equal(await row.locator("time").nth(1).getAttribute("datetime"), "2027-01-05T09:00:00Z");
  await row.getByRole("button", { name: "Enable azure" }).click();
  await page.getByText("Done.").first().waitFor();
});
