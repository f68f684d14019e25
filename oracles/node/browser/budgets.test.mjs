// The pages of budgets and sessions: a form by keyboard, with what is wrong beside its fields, and adding to a session.
import assert from "node:assert/strict";
import test from "node:test";
import { desk, examine, gateway, phone, signUp, useBrowser } from "./visitor.mjs";

const open = useBrowser();

// create fills in the form of a new budget.
async function create(page, name, amount, choose = async () => {}) {
  await page.goto(gateway + "/dashboard/budgets?new");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await dialog.getByLabel("Amount in dollars").fill(amount);
  await choose(dialog);
  await dialog.getByRole("button", { name: "Create budget" }).click();
}

test("a budget: made, refused, changed, deleted", async () => {
  const { page, complaints } = await open();
  await signUp(page, "kim@example.com");
  await page.goto(gateway + "/dashboard/budgets");
  await page.getByRole("link", { name: "Create the first budget" }).click();
  const dialog = page.getByRole("dialog");
  // The fields of a choice are there once it is made.
  assert.equal(await dialog.getByLabel("Tag", { exact: true }).isVisible(), false);
  await dialog.getByLabel("Requests with a tag").check();
  await dialog.getByLabel("Tag", { exact: true }).fill("team=search");
  await dialog.getByLabel("Name", { exact: true }).fill("search");
  await dialog.getByLabel("Amount in dollars").fill("plenty");
  await page.keyboard.press("Enter");
  await dialog.getByText("Enter an amount in dollars").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "amount");
  assert.equal(await dialog.getByLabel("Tag", { exact: true }).inputValue(), "team=search");
  await dialog.getByLabel("Amount in dollars").fill("12.50");
  await page.keyboard.press("Enter");
  await page.getByText("The budget was created.").waitFor();
  const card = page.getByRole("region", { name: "search" });
  await card.getByRole("img", { name: "Spent $0.00, reserved $0.00, left $12.50 of $12.50" }).waitFor();
  await card.getByText("Requests with the tag team=search").waitFor();
  await card.getByRole("link", { name: "Edit search" }).click();
  await dialog.getByLabel("Only warn").check();
  await dialog.getByRole("button", { name: "Save" }).click();
  await card.getByText("warns only").waitFor();
  await card.getByRole("link", { name: "Delete search" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("The budget was deleted.").waitFor();
  assert.deepEqual(complaints, []);
});

test("adding to a session", async () => {
  const { page, complaints } = await open();
  await signUp(page, "lea@example.com");
  await create(page, "agents", "2", (dialog) => dialog.getByLabel("Requests of each session").check());
  await page.getByText("The budget was created.").waitFor();
  const id = new URL(await page.getByRole("link", { name: "Edit agents" }).getAttribute("href"), gateway).searchParams.get("edit");
  await page.goto(gateway + "/dashboard/budgets/raise?count=" + encodeURIComponent(id + "/run-1"));
  await page.getByRole("button", { name: "Add $5" }).click();
  await page.getByText("The amount was added.").waitFor();
  await page.getByRole("img", { name: "left $7.00 of $7.00" }).waitFor();
  // Enter adds what was typed, and not the first amount that is offered.
  await page.getByLabel("Another amount in dollars").fill("0.5");
  await page.keyboard.press("Enter");
  await page.getByRole("img", { name: "left $7.50 of $7.50" }).waitFor();
  await page.reload();
  await page.getByRole("img", { name: "left $7.50 of $7.50" }).waitFor();
  assert.deepEqual(complaints, []);
});

// call asks a model as a part of a session.
async function call(key, session, tags) {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json", "x-sluice-session": session, "x-sluice-tags": tags },
    body: JSON.stringify({ model: "sandbox/small", messages: [{ role: "user", content: "Hello" }] }),
  });
  assert.equal(response.status, 200, await response.text());
}

test("sessions are live, and the focus stays where it is", async () => {
  const { page, complaints } = await open();
  const key = await signUp(page, "mia@example.com");
  await call(key, "run-1", "team=search");
  await page.goto(gateway + "/dashboard/sessions");
  const row = page.getByRole("row", { name: "run-1" });
  await row.waitFor();
  await page.evaluate(() => { window.sameDocument = true; });
  await page.getByRole("link", { name: "run-1" }).focus();
  await call(key, "run-2", "team=search");
  await page.getByRole("link", { name: "run-2" }).waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument && document.activeElement.textContent), "run-1");
  await page.getByRole("link", { name: "run-1" }).click();
  const calls = page.locator("#session tbody tr");
  await calls.first().waitFor();
  assert.equal(await calls.count(), 1);
  await page.evaluate(() => { window.sameDocument = true; });
  await call(key, "run-1", "team=search");
  await calls.nth(1).waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument), true);
  await calls.first().getByRole("link").click();
  await page.getByText("team=search").waitFor();
  await page.getByRole("link", { name: "run-1" }).click();
  await page.getByRole("heading", { name: "run-1" }).waitFor();
  assert.deepEqual(complaints, []);
});

test("a key whose sessions are bounded", async () => {
  const { page, complaints } = await open();
  await signUp(page, "nia@example.com");
  await page.goto(gateway + "/dashboard/keys?new");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name", { exact: true }).fill("agent");
  await dialog.getByLabel("Limit per session, in dollars").fill("2");
  await page.keyboard.press("Enter");
  await page.locator("#new-key").waitFor();
  await page.getByRole("link", { name: "Session limit of agent" }).click();
  assert.equal(await dialog.getByLabel("Sessions of").evaluate((s) => s.selectedOptions[0].textContent), "agent");
  await dialog.getByLabel("Name", { exact: true }).fill("of a day");
  await dialog.getByLabel("Amount in dollars").fill("10");
  await dialog.getByRole("button", { name: "Create budget" }).click();
  await page.getByText("The budget was created.").waitFor();
  assert.equal(await page.getByText("Each session has the amount for its requests with the key agent").count(), 2);
  assert.deepEqual(complaints, []);
});

test("budgets and sessions in four forms", async () => {
  const { page: setup, context } = await open();
  const key = await signUp(setup, "pat@example.com");
  for (const [session, tags] of [["0197c2d4-7a1b-7c3d-8e5f-123456789abc", "team=search, env=prod"], ["ses_f84c6ba38ffe6UeTRaX25G3KTr", "team=reporting-and-other-long-names-of-departments"], ["0197c2d4-7a1b-7c3d-8e5f-123456789abc", "team=search"]]) await call(key, session, tags);
  await create(setup, "everything of the reporting department", "100");
  await create(setup, "nothing", "0");
  await create(setup, "agents", "2", (dialog) => dialog.getByLabel("Requests of each session").check());
  const id = new URL(await setup.getByRole("link", { name: "Edit agents" }).getAttribute("href"), gateway).searchParams.get("edit");
  const storageState = await context.storageState();
  for (const [colorScheme, [size, viewport]] of [["light", desk], ["dark", phone], ["light", phone], ["dark", desk]]) {
    const { page, context: own } = await open({ colorScheme, viewport, storageState, reducedMotion: "reduce" });
    for (const [name, path] of [["list", ""], ["new", "?new"], ["edit", "?edit=" + id], ["delete", "?delete=" + id], ["raise", "/raise?count=" + encodeURIComponent(id + "/run-1")]]) {
      await examine(page, "/dashboard/budgets" + path, `budgets-${name}-${size}-${colorScheme}`);
    }
    await examine(page, "/dashboard/sessions", `sessions-${size}-${colorScheme}`);
    await examine(page, "/dashboard/sessions/0197c2d4-7a1b-7c3d-8e5f-123456789abc", `session-${size}-${colorScheme}`);
    await examine(page, "/dashboard/costs", `costs-tags-${size}-${colorScheme}`);
    await examine(page, "/dashboard/keys?new", `keys-new-${size}-${colorScheme}`);
    await own.close();
  }
});
