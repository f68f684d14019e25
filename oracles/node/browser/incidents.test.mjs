// An incident from both sides: staff writes about it in the console, and everybody reads it on the status page.
import assert from "node:assert/strict";
import test from "node:test";
import { examine, gateway, join, link, mail, themes, useBrowser } from "./visitor.mjs";

const open = useBrowser();

test("staff writes about an incident, a stranger reads it and gets it by mail", async () => {
  const { page: staff, context, complaints } = await open();
  const { page: stranger, complaints: others } = await open();
  await join(staff, "ops@example.com");

  await stranger.goto(gateway + "/status");
  await stranger.getByRole("heading", { name: "All systems operational" }).waitFor();
  await stranger.getByRole("link", { name: "Get updates" }).click();
  await stranger.getByLabel("E-mail address").fill("reader@example.com");
  await stranger.getByRole("button", { name: "Subscribe" }).click();
  await stranger.getByText("Check the inbox of reader@example.com").waitFor();
  await stranger.goto(link(await mail("reader@example.com")));
  await stranger.getByRole("button", { name: "Confirm" }).click();
  await stranger.getByRole("heading", { name: "You are subscribed" }).waitFor();

  // The dialog names what is published; nothing is before it is confirmed.
  await staff.goto(gateway + "/support/incidents");
  await staff.getByRole("link", { name: "New incident" }).click();
  const form = staff.locator("form").filter({ has: staff.locator("input[value=incident]") });
  await form.getByLabel("Title").fill("Calls are slow");
  await form.getByLabel("Text").fill("We look into it.");
  await form.getByLabel("API").check();
  await form.getByLabel("Affected models").fill("sandbox/small");
  await form.getByLabel("Severity").selectOption("major");
  await form.getByRole("button", { name: "Publish" }).click();
  const dialog = staff.getByRole("dialog").filter({ hasText: "Everybody sees it on the status page" });
  await dialog.getByRole("heading", { name: "Publish “Calls are slow”?" }).waitFor();
  await dialog.getByRole("button", { name: "Publish" }).click();
  await staff.getByRole("heading", { name: "Calls are slow" }).waitFor();
  const own = new URL(staff.url()).pathname, shown = own.replace("/support/", "/status/");
  assert.match(own, /^\/support\/incidents\/inc_/);

  await stranger.goto(gateway + "/status");
  await stranger.getByRole("heading", { name: "We are working on an incident" }).waitFor();
  await stranger.getByRole("article").filter({ hasText: "We look into it." }).getByRole("link", { name: "Calls are slow" }).waitFor();
  for (;;) if ((await mail("reader@example.com")).includes("We look into it.")) break;

  // The days of a strip can be read with the keyboard.
  const strip = stranger.getByRole("slider", { name: /^Uptime of sandbox\/small in the last 90 days/ });
  await strip.focus();
  await stranger.keyboard.press("ArrowLeft");
  assert.equal(await strip.getAttribute("aria-valuenow"), "29");
  await stranger.keyboard.press("ArrowRight");
  assert.match(await strip.getAttribute("aria-valuetext"), /Calls are slow/);
  await stranger.getByText("sandbox/small", { exact: true }).first().click();
  await stranger.getByRole("link", { name: "All figures of sandbox/small" }).waitFor();

  const storageState = await context.storageState();
  for (const [colorScheme, sizes] of themes) {
    for (const [size, viewport] of sizes) {
      const { page, context, complaints } = await open({ colorScheme, viewport, storageState });
      for (const [name, path] of Object.entries({ incidents: "/support/incidents", own, status: "/status", shown, history: "/status/history", subscribe: "/status/subscribe" })) {
        await examine(page, path, `incident-${name}-${size}-${colorScheme}`);
      }
      assert.deepEqual(complaints, []);
      await context.close();
    }
  }

  await staff.getByLabel("Status", { exact: true }).selectOption("resolved");
  await staff.locator("form").filter({ has: staff.locator("select[name=status]") }).getByLabel("Text").fill("It is over.");
  await staff.getByRole("button", { name: "Publish" }).click();
  await dialog.getByText("“It is over.”").waitFor();
  await dialog.getByRole("button", { name: "Publish" }).click();
  await staff.getByText("Resolved", { exact: true }).first().waitFor();
  await stranger.goto(gateway + "/status");
  await stranger.getByRole("heading", { name: "All systems operational" }).waitFor();
  await stranger.getByRole("article").filter({ hasText: "It is over." }).waitFor();
  assert.deepEqual(complaints.concat(others), []);
});
