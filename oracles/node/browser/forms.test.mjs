// The forms of the account, of plans and billing, and of webhooks: with reloads, Back, two tabs and an expired session.
import assert from "node:assert/strict";
import test from "node:test";
import { gateway, link, mail, password, signUp, subscribe, useBrowser } from "./visitor.mjs";

const open = useBrowser();

// comeBack signs in after a session has ended, and checks that the form's page follows.
async function comeBack(page, email, heading) {
  await page.getByText("Your session has ended.").or(page.getByRole("heading", { name: "Sign in" })).first().waitFor();
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: heading, exact: true }).waitFor();
}

const expire = (context) => context.clearCookies({ name: /session/ });

// around loads the page that a form has led to again, and goes back and forward. Nothing may be sent a second time.
async function around(page) {
  const sent = [];
  const watch = (request) => { if (request.method() === "POST") sent.push(request.url()); };
  page.on("request", watch);
  await page.reload();
  await page.goBack();
  await page.goForward();
  page.off("request", watch);
  assert.deepEqual(sent, [], "a form was sent again");
}

test("the forms of the account", async () => {
  const { page, context, complaints } = await open();
  const email = "uma@example.com";
  await signUp(page, email);
  const dialog = (tab, name) => tab.goto(gateway + "/dashboard/account?" + name);

  // A wrong password: the cursor is in its field, and loading the page again sends nothing and leads to the dialog.
  await dialog(page, "email");
  await page.getByLabel("New e-mail").fill("uma@new.example.com");
  await page.getByLabel("Current password").fill("not the password");
  await page.getByRole("button", { name: "Send link" }).click();
  await page.getByText("The current password is wrong.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "f-current");
  assert.equal(await page.getByLabel("New e-mail").inputValue(), "uma@new.example.com");
  await page.goto(gateway + "/dashboard/account/email");
  await page.getByRole("dialog").getByRole("heading", { name: "Change your e-mail address" }).waitFor();

  // A new address: one mail, whatever is loaded again.
  await page.getByLabel("New e-mail").fill("uma@new.example.com");
  await page.getByLabel("Current password").fill(password);
  await page.getByRole("button", { name: "Send link" }).click();
  await page.getByText("We sent a link to the new address.").waitFor();
  await around(page);

  // Two tabs: the link opens in another one, and this one shows the new address.
  const late = await context.newPage();
  await late.goto(link(await mail("uma@new.example.com")));
  await late.getByRole("button", { name: "Confirm address" }).click();
  await late.getByText("Your e-mail address was changed.").waitFor();
  await around(late);
  await page.reload();
  await page.getByText("uma@new.example.com").first().waitFor();

  // The proof holds, so a new password needs no other; and it ends with the password. Two tabs: the second must know the
  // first one's.
  await dialog(late, "password");
  await dialog(page, "password");
  assert.equal(await page.getByLabel("Current password").count(), 0, "the proof holds");
  await page.getByLabel("New password").fill("another long password");
  await page.getByRole("button", { name: "Save password" }).click();
  await page.getByText("Your password was changed.").waitFor();
  await around(page);
  await late.getByLabel("New password").fill("a third long password");
  await late.getByRole("button", { name: "Save password" }).click();
  await late.getByText("The current password is wrong.").waitFor();
  await dialog(page, "password");
  await page.getByLabel("Current password").fill("another long password");
  await page.getByLabel("New password").fill(password);
  await page.getByRole("button", { name: "Save password" }).click();
  await page.getByText("Your password was changed.").waitFor();

  // An expired session: every form leads to the sign-in page, back to its dialog, and changes nothing.
  for (const [name, send] of [
    ["totp", async () => { await page.getByLabel("Current password").fill(password); await page.getByRole("button", { name: "Set up" }).click(); }],
    ["sessions", async () => { await page.getByRole("button", { name: "Sign out all others" }).click(); }],
    ["close", async () => {
      await page.getByLabel("Enter your e-mail address to confirm").fill("uma@new.example.com");
      await page.getByLabel("Current password").fill(password);
      await page.getByRole("button", { name: "Close account" }).click();
    }],
  ]) {
    await dialog(page, name);
    await expire(context);
    await send();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByLabel("E-mail").fill("uma@new.example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.waitForURL("**/dashboard/account?" + name);
    await page.getByRole("dialog").first().waitFor();
    assert.equal(await page.locator("#totp-secret").count(), 0);
  }
  assert.deepEqual(complaints, []);
});

test("the forms of plans and billing", async () => {
  const { page, context, complaints } = await open();
  const email = "vic@example.com";
  await signUp(page, email);

  // Paying, and Back to the form that paid: there is one plan and one invoice.
  await subscribe(page, "Basic");
  await page.getByText("Your plan is active.").waitFor();
  await around(page);
  const invoices = () => page.getByRole("link", { name: /as PDF$/ }).count();
  await page.goto(gateway + "/dashboard/plan");
  assert.equal(await invoices(), 1);
  await page.goBack();
  await page.goBack();
  await page.goto(gateway + "/dashboard/plan");
  assert.equal(await invoices(), 1, "Back pays nothing");

  // The details of invoices. All that is wrong is said at once, at its field.
  await page.goto(gateway + "/dashboard/account?details");
  await page.getByLabel("Name or company").fill("Vic & Sons");
  await page.getByLabel("Address").fill("1\n2\n3\n4\n5\n6\n7");
  await page.getByLabel("Tax ID").fill("DE123");
  await page.getByLabel("Country").selectOption("Germany");
  await page.getByLabel("Billing e-mail").fill("nobody");
  await page.locator("dialog[data-modal] form").evaluate((form) => { form.noValidate = true; });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("An address has at most").waitFor();
  assert.deepEqual(await page.locator("dialog[data-modal] [aria-invalid=true]").evaluateAll((all) => all.map((el) => el.name)), ["address", "email"]);
  await page.getByLabel("Address").fill("Road 1\n12345 Town");
  await page.getByLabel("Billing e-mail").fill("books@example.com");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Invoices show these details from the next payment on.").waitFor();
  await around(page);
  await page.getByText("Vic & Sons · Germany · DE123").waitFor();

  // Two tabs: what one has cancelled, the other cannot cancel again; it is told how things are.
  const late = await context.newPage();
  await late.goto(gateway + "/dashboard/plan?cancel");
  await page.goto(gateway + "/dashboard/plan");
  await page.getByRole("link", { name: "Cancel plan" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel Basic" }).click();
  await page.getByText("Your plan was cancelled.").waitFor();
  await around(page);
  await page.getByRole("button", { name: "Keep Basic" }).waitFor();
  await late.getByRole("dialog").getByRole("button", { name: "Cancel Basic" }).click();
  await late.getByRole("button", { name: "Keep Basic" }).click();
  await late.getByText("Your plan was resumed.").waitFor();

  // Two tabs that upgrade: one payment.
  for (const tab of [page, late]) {
    await tab.goto(gateway + "/dashboard/plan");
    await tab.locator("section", { has: tab.getByRole("heading", { name: "Premium" }) }).getByRole("link", { name: "Upgrade" }).click();
    await tab.locator("#amount").waitFor();
  }
  await page.getByRole("button", { name: /^Pay .* and upgrade$/ }).click();
  await page.getByText("Your new plan is active.").waitFor();
  await around(page);
  await late.getByRole("button", { name: /^Pay .* and upgrade$/ }).click();
  await late.locator("main").waitFor();
  await page.goto(gateway + "/dashboard/plan");
  assert.equal(await invoices(), 2, "one payment for the upgrade");

  // An expired session.
  await page.goto(gateway + "/dashboard/account?details");
  await page.getByLabel("Name or company").fill("lost");
  await expire(context);
  await page.getByRole("button", { name: "Save" }).click();
  await comeBack(page, email, "Billing details");
  assert.equal(await page.getByLabel("Name or company").inputValue(), "Vic & Sons");
  await page.goto(gateway + "/dashboard/plan?cancel");
  await expire(context);
  await page.getByRole("dialog").getByRole("button", { name: "Cancel Premium" }).click();
  await comeBack(page, email, "Plan and billing");
  await page.getByRole("link", { name: "Cancel plan" }).waitFor();
  assert.deepEqual(complaints, []);
});

test("the forms of webhooks", async () => {
  const { page, context, complaints } = await open();
  const email = "wes@example.com";
  await signUp(page, email);
  await page.goto(gateway + "/dashboard/webhooks");
  const cards = () => page.getByRole("button", { name: "Send test" }).count();

  // A refused form keeps what was typed; its address leads back to the page.
  await page.getByRole("link", { name: "New webhook" }).click();
  await page.getByLabel("URL").fill("https://example.com/hook");
  for (const box of await page.locator("input[name=types]").all()) await box.uncheck();
  await page.getByRole("button", { name: "Create webhook" }).click();
  await page.locator(".wrong").first().waitFor();
  assert.equal(await page.getByLabel("URL").inputValue(), "https://example.com/hook");
  await page.goto(page.url());
  assert.equal(await cards(), 0);

  // The secret survives one reload, and Back makes no second webhook.
  const create = async (url) => {
    await page.goto(gateway + "/dashboard/webhooks?new");
    await page.getByLabel("URL").fill(url);
    await page.locator("input[name=types]").first().check();
    await page.getByRole("button", { name: "Create webhook" }).click();
  };
  await create("https://example.com/hook");
  const secret = await page.locator("#new-secret").textContent();
  assert.match(secret, /^whsec_/);
  await page.reload();
  assert.equal(await page.locator("#new-secret").textContent(), secret);
  await around(page);
  assert.equal(await page.locator("#new-secret").count(), 0, "the secret is shown twice at most");
  assert.equal(await cards(), 1);

  // A test, and mail.
  await page.getByRole("button", { name: "Send test" }).click();
  await page.getByText("A test is on its way.").waitFor();
  await around(page);
  assert.equal(await page.locator("tbody tr strong").count(), 1, "one test was sent");
  await page.getByRole("button", { name: "Mail me about videos" }).click();
  await page.getByText("You will get an e-mail").waitFor();
  await around(page);

  // Two tabs: what one has deleted, the other cannot test.
  const late = await context.newPage();
  await late.goto(gateway + "/dashboard/webhooks");
  await page.getByRole("link", { name: "Delete https://example.com/hook" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("The webhook was deleted.").waitFor();
  await around(page);
  await late.getByRole("button", { name: "Send test" }).click();
  await late.getByText(/no such webhook|does not exist/i).waitFor();

  // An expired session.
  await page.goto(gateway + "/dashboard/webhooks?new");
  await page.getByLabel("URL").fill("https://example.com/lost");
  await expire(context);
  await page.getByRole("button", { name: "Create webhook" }).click();
  await comeBack(page, email, "Webhooks");
  assert.equal(await cards(), 0);
  assert.deepEqual(complaints, []);
});
