// The pictures of the documents, taken of the pages of "sluice demo". "make pictures" sets PICTURES to the folder
// docs/pictures and replaces them; a soak takes them and throws them away, so that the command works when somebody needs
// it. Which page is shown to whom, and how large, is in docs/pictures/pages.json.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gateway, useBrowser } from "./visitor.mjs";

const open = useBrowser();
const list = JSON.parse(readFileSync(new URL("../../../docs/pictures/pages.json", import.meta.url)));

// follow opens the page that the first link of a name leads to.
const follow = async (page, from, name) => {
  await page.goto(gateway + from);
  await page.goto(gateway + (await page.getByRole("link", { name }).first().getAttribute("href")));
};

// What is done on a page before its picture is taken.
const prepare = {
  playground: async (page) => {
    await page.locator("#model").selectOption("claude-sonnet-5-5");
    await page.getByLabel("Message", { exact: true }).fill("Sort these words: pear, apple, fig, quince.");
    await page.keyboard.press("Enter");
    await page.locator(".turn.assistant .facts-line").waitFor();
  },
  videos: async (page) => {
    await page.waitForFunction(() => document.querySelectorAll("video").length >= 3);
    await page.waitForFunction(() => [...document.querySelectorAll("video")].every((video) => { video.preload = "auto"; return video.readyState >= 3; }));
  },
  "console-account": (page) => follow(page, "/support/accounts", /^mira@/),
  "console-ticket": (page) => follow(page, "/support/queue", /My script ran in a loop/),
};

// Pages whose path ends with a slash are found by their preparation.
for (const { name, page: path, as, width, height } of list) {
  test(name, { timeout: 120_000 }, async () => {
    for (const colorScheme of ["light", "dark"]) {
      const { page, context, complaints } = await open({ colorScheme, viewport: { width, height } });
      if (as) assert.equal((await page.goto(`${gateway}/demo/${as}`)).status(), 200, as);
      if (!path.endsWith("/")) assert.equal((await page.goto(gateway + path)).status(), 200, path);
      await prepare[name]?.(page);
      await page.evaluate(() => { document.activeElement?.blur(); window.scrollTo(0, 0); });
      const file = process.env.PICTURES && `${process.env.PICTURES}/${name}${colorScheme === "dark" ? "-dark" : ""}.png`;
      const image = await page.screenshot({ path: file });
      assert.ok(image.length > 10_000, name + " is empty");
      assert.deepEqual(complaints, [], name);
      await context.close();
    }
  });
}
