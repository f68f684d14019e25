// The Keys page and the forms around signing in: by keyboard, with reloads, Back, two tabs, an expired session, and
// without scripts.
import assert from "node:assert/strict";
import test from "node:test";
import { desk, examine, gateway, password, phone, signUp, useBrowser } from "./visitor.mjs";

const open = useBrowser();

async function call(key, model = "sandbox/small") {
  const response = await fetch(gateway + "/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: "Bearer " + key, "Content-Type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
  });
  return { status: response.status, body: await response.text() };
}

const rows = (page) => page.locator("tbody tr").count();

test("a key by keyboard: made, limited, reloaded, deleted", async () => {
  const { page, context, complaints } = await open();
  await signUp(page, "kim@example.com");
  await page.goto(gateway + "/dashboard/keys");
  await page.getByRole("link", { name: "New key" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("heading", { name: "New key" }).waitFor();
  assert.ok(await page.evaluate(() => document.querySelector("dialog[open]").matches(":modal")), "the dialog is modal");
  // Esc closes it and leaves the page without it; Back opens it again.
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  assert.equal(new URL(page.url()).search, "");
  await page.getByRole("link", { name: "New key" }).focus();
  await page.keyboard.press("Enter");
  await dialog.getByLabel("Name", { exact: true }).focus();
  await page.keyboard.type("nightly job");
  await dialog.getByText("Limits", { exact: true }).focus();
  await page.keyboard.press("Enter");
  await dialog.getByLabel("Requests a minute").focus();
  await page.keyboard.type("no number");
  await page.keyboard.press("Enter");
  // What is wrong stands beside its field, which has the cursor; what was typed is still there.
  await dialog.getByText("Enter a whole number from 1").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "requests_per_minute");
  assert.equal(await dialog.getByLabel("Name", { exact: true }).inputValue(), "nightly job");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("2");
  await dialog.getByLabel("sandbox/small").focus();
  await page.keyboard.press("Space");
  await dialog.getByRole("button", { name: "Create key" }).focus();
  await page.keyboard.press("Enter");
  const key = await page.locator("#new-key").textContent();
  assert.match(key, /^service-\w{46}$/);
  assert.equal(await rows(page), 1);

  await page.reload();
  assert.equal(await page.locator("#new-key").textContent(), key, "the key survives one reload");
  assert.equal(await rows(page), 1, "a reload makes no second key");
  await page.reload();
  assert.equal(await page.locator("#new-key").count(), 0, "the key survives one reload only");
  await page.goBack();
  await page.goForward();
  assert.equal(await rows(page), 1, "Back and Forward make no second key");

  assert.equal((await call(key, "sandbox/tiny")).status, 403, "a model that the key may not call");
  for (const want of [200, 200, 429]) assert.equal((await call(key)).status, want);
  assert.match((await call(key)).body, /The key \\"nightly job\\" may make 2 requests a minute/);

  // The same name again.
  await page.goto(gateway + "/dashboard/keys?new");
  await dialog.getByLabel("Name", { exact: true }).fill("Nightly Job");
  await page.keyboard.press("Enter");
  await dialog.getByText("already has a key called").waitFor();

  // Edit, in two tabs: the one that comes too late is told.
  const late = await context.newPage();
  await page.goto(gateway + "/dashboard/keys");
  await late.goto(gateway + "/dashboard/keys");
  await late.getByRole("link", { name: "Edit nightly job" }).click();
  await page.getByRole("link", { name: "Edit nightly job" }).click();
  assert.equal(await dialog.getByLabel("Requests a minute").inputValue(), "2");
  await dialog.getByLabel("Requests a minute").fill("");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("The key was changed.").waitFor();
  await page.getByText("Models sandbox/small.").waitFor();
  await page.getByRole("link", { name: "Delete nightly job" }).click();
  assert.match(await dialog.textContent(), /Delete nightly job\?.*nightly job.*…\w{4}/s, "the dialog names the key");
  await dialog.getByRole("button", { name: "Delete" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("The key was deleted.").waitFor();
  assert.equal((await call(key)).status, 401);
  await late.getByRole("button", { name: "Save" }).click();
  await late.getByText("This key no longer exists.").waitFor();

  // A session that has ended leads back, and nothing was changed.
  await page.goto(gateway + "/dashboard/keys?new");
  await dialog.getByLabel("Name", { exact: true }).fill("lost");
  await context.clearCookies({ name: /session/ });
  await dialog.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByLabel("E-mail").fill("kim@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Keys", exact: true }).waitFor();
  await page.getByText("No sub-keys yet.").waitFor();
  assert.deepEqual(complaints, []);
});

test("keys without scripts", async () => {
  const { page } = await open({ javaScriptEnabled: false });
  await signUp(page, "nora@example.com");
  await page.goto(gateway + "/dashboard/keys");
  await page.getByRole("link", { name: "New key" }).click();
  await page.getByLabel("Name", { exact: true }).fill("plain");
  await page.getByRole("button", { name: "Create key" }).click();
  assert.match(await page.locator("#new-key").textContent(), /^service-/);
  await page.getByRole("link", { name: "Regenerate" }).click();
  await page.getByRole("button", { name: "Regenerate" }).click();
  assert.match(await page.locator("#new-key").textContent(), /^service-/);
  await page.getByRole("link", { name: "Delete plain" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByText("The key was deleted.").waitFor();
});

test("forms that send mail or set up two steps can be loaded again", async () => {
  const { page } = await open();
  await signUp(page, "otto@example.com");
  await page.goto(gateway + "/dashboard/account?totp");
  await page.getByLabel("Current password").fill(password);
  await page.getByRole("button", { name: "Set up" }).click();
  const secret = await page.locator("#totp-secret").textContent();
  await page.getByLabel("Code").fill("000000");
  await page.getByRole("button", { name: "Turn on" }).click();
  await page.getByText("This code is wrong").waitFor();
  assert.equal(await page.locator("#totp-secret").textContent(), secret, "a wrong code keeps the enrolment");
  assert.equal(await page.evaluate(() => document.activeElement.name), "code");
  assert.ok(await page.evaluate(() => { const b = document.activeElement.getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight; }), "the field is in view");
  await page.goto(gateway + "/dashboard/account/totp"); // the address of the form, opened again
  assert.equal(await page.locator("#totp-secret").textContent(), secret, "opening the address again keeps it, too");
});

test("dialogs in four forms", async () => {
  const { page: setup, context } = await open();
  await signUp(setup, "pat@example.com");
  for (const [name, rpm] of [["laptop", ""], ["nightly job of the reporting department", "5"]]) {
    await setup.goto(gateway + "/dashboard/keys?new");
    await setup.getByLabel("Name", { exact: true }).fill(name);
    await setup.getByText("Limits", { exact: true }).click();
    await setup.getByLabel("Requests a minute").fill(rpm);
    if (rpm) await setup.getByLabel("Addresses").fill("203.0.113.0/24, 2001:db8::/32");
    await setup.getByRole("button", { name: "Create key" }).click();
    await setup.locator("#new-key").waitFor();
  }
  const edit = (await setup.getByRole("link", { name: /Edit nightly/ }).getAttribute("href"));
  const storageState = await context.storageState();
  for (const [colorScheme, [size, viewport]] of [["light", desk], ["dark", phone], ["light", phone], ["dark", desk]]) {
    const { page, context: own } = await open({ colorScheme, viewport, storageState, reducedMotion: "reduce" });
    await examine(page, "/dashboard/keys", `keys-list-${size}-${colorScheme}`);
    await examine(page, edit, `keys-edit-${size}-${colorScheme}`);
    await examine(page, edit.replace("edit", "delete"), `keys-delete-${size}-${colorScheme}`);
    await own.close();
  }
});
