// Passkeys, with the authenticator that Chromium has for tests: added, used in both ways, proof for a change, removed;
// with a reload, Back, two tabs and an expired session.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, mail, password, signUp, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();

// authenticator gives a window a device that answers at once.
async function authenticator(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  return {
    verifies: (isUserVerified) => cdp.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified }),
    count: async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials.length,
  };
}

async function add(page, name) {
  await page.goto(gateway + "/dashboard/account?passkey");
  const form = page.locator("form[data-passkey=create]");
  await form.getByLabel("Name").fill(name);
  const current = form.getByLabel("Current password"); // unless a proof holds
  if (await current.count()) await current.fill(password);
  await form.getByRole("button", { name: "Create passkey" }).click();
}

// names returns how many passkeys the account has. The page shows their dialog afterwards.
async function names(page) {
  await page.goto(gateway + "/dashboard/account?passkeys");
  return page.getByRole("dialog").getByRole("link", { name: /^Remove / }).count();
}

async function signOut(page) {
  await page.goto(gateway + "/dashboard");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
}

test("a passkey is added, used and removed", async () => {
  const { page, context, complaints } = await open();
  const device = await authenticator(page);
  await signUp(page, "pia@example.com");

  // A wrong password is told before the device makes a passkey.
  await page.goto(gateway + "/dashboard/account?passkeys");
  await page.getByRole("link", { name: "Add a passkey" }).click();
  const form = page.locator("form[data-passkey=create]");
  await form.getByLabel("Name").fill("laptop");
  await form.getByLabel("Current password").fill("not the password");
  await form.getByRole("button", { name: "Create passkey" }).click();
  await form.getByText("The current password is wrong.").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), "current");
  assert.equal(await device.count(), 0);

  await add(page, "laptop");
  await page.getByText("The passkey was added.").waitFor();
  assert.match(await page.locator("#recovery-codes").textContent(), /^(\w{4}-){3}\w{4}\n/);
  assert.match(await mail("pia@example.com"), /passkey/);
  await page.reload();
  assert.equal(await names(page), 1, "a reload adds no second one");
  await page.goBack();
  await page.goForward();
  assert.equal(await names(page), 1, "nor do Back and Forward");
  assert.equal(await device.count(), 1);

  // The same device again: the browser refuses, and the page says why.
  await add(page, "again");
  await page.getByText("This device already has a passkey for your account.").waitFor();

  // As the second step, and back to where one was.
  await signOut(page);
  await page.goto(gateway + "/dashboard/keys");
  await page.getByLabel("E-mail").fill("pia@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Two-step sign-in" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Use a passkey" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Keys", exact: true }).waitFor();
  await page.goBack();
  await page.goto(gateway + "/dashboard/account?passkeys");
  await page.getByText("last used just now").waitFor();

  // Without a password. A device that does not verify its user is not enough.
  await signOut(page);
  await device.verifies(false);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByText("No passkey was chosen.").waitFor();
  await device.verifies(true);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();

  // An expired session leads to the form and back; nothing was removed.
  const remove = async (tab) => {
    await tab.goto(gateway + "/dashboard/account?passkeys");
    await tab.getByRole("link", { name: "Remove laptop" }).click();
    await tab.getByRole("dialog").getByText("Remove laptop?").waitFor();
    const current = tab.getByLabel("Current password");
    if (await current.count()) await current.fill(password);
  };
  await remove(page);
  await context.clearCookies({ name: /session/ });
  await page.getByRole("button", { name: "Remove passkey" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByRole("heading", { name: "Passkeys", exact: true }).waitFor();
  assert.equal(await names(page), 1);

  // Two tabs: the one that comes too late is told.
  const late = await context.newPage();
  await remove(late);
  await late.getByLabel("Recovery code").fill("000000");
  await remove(page);
  await page.getByRole("button", { name: "Remove passkey" }).click();
  await page.getByText("The passkey was removed.").waitFor();
  assert.equal(await names(page), 0);
  await late.getByRole("button", { name: "Remove passkey" }).click();
  await late.getByText("This passkey no longer exists.").waitFor();

  // A passkey that was removed does not sign in.
  await signOut(page);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByText("This passkey was not accepted.").waitFor();
  assert.deepEqual(complaints, []);
});

test("passkeys in four forms", async () => {
  const { page: setup, context } = await open();
  await authenticator(setup);
  await signUp(setup, "quinn@example.com");
  await add(setup, "the security key on the long blue ribbon");
  await setup.getByText("The passkey was added.").waitFor();
  const storageState = await context.storageState();
  for (const [colorScheme, sizes] of themes) {
    for (const [size, viewport] of sizes) {
      const { page, context: own } = await open({ colorScheme, viewport, storageState });
      await examine(page, "/dashboard/account?passkeys", `passkeys-account-${size}-${colorScheme}`);
      await own.clearCookies();
      await examine(page, "/signin", `passkeys-signin-${size}-${colorScheme}`);
      await page.getByLabel("E-mail").fill("quinn@example.com");
      await page.getByLabel("Password").fill(password);
      await page.getByRole("button", { name: "Sign in", exact: true }).click();
      await page.getByRole("heading", { name: "Two-step sign-in" }).waitFor();
      await examine(page, "/signin/code", `passkeys-code-${size}-${colorScheme}`);
      await own.close();
    }
  }
});

test("without scripts a recovery code signs in", async () => {
  const { page: setup } = await open();
  await authenticator(setup);
  await signUp(setup, "rob@example.com");
  await add(setup, "phone");
  const [code] = (await setup.locator("#recovery-codes").textContent()).split("\n");
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(gateway + "/signin");
  await page.getByLabel("E-mail").fill("rob@example.com");
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByLabel("Recovery code").fill(code);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
});
