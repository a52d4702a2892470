// How heavy a portal is in a browser: bytes and requests of a page, alone and with what it loads, how long until its
// content can be used, and how long a page that is open takes to be written anew. Muster's, or OpenPAI's beside it (see
// tests/portal/try.sh), over the same jobs.
//
// Usage: NODE_PATH=target/browser/node_modules node tests/browser/pace.cjs muster|openpai URL PASSWORD_FILE USER~JOB
//
// Prints one line of JSON. Times are medians of five, in milliseconds; the browser and what it asks share the machine.
"use strict";
const fs = require("node:fs");
const { chromium } = require("playwright-core");

const [portal, url, passwordFile, job] = process.argv.slice(2);
const password = fs.readFileSync(passwordFile, "utf8").trim();
const [user, name] = job.split("~");
const TIMES = 5;
const PORTALS = {
  muster: {
    async enter(page) {
      await page.goto(`${url}/login`);
      await page.fill("[name=user]", "admin");
      await page.fill("[name=password]", password);
      await Promise.all([page.waitForURL((it) => it.pathname === "/"), page.click("main form button")]);
    },
    pages: {
      jobs: ["/jobs", "tbody a[href^='/jobs/']"],
      job: [`/jobs/${job}`, "text=The job as it was submitted"],
    },
    isRenewed: true,
  },
  openpai: {
    async enter(page) {
      await page.goto(`${url}/index.html`);
      await page.getByText("Sign in", { exact: true }).first().click();
      const fields = page.locator(".ms-Dialog-main input");
      await fields.nth(0).fill("admin");
      await fields.nth(1).fill(password);
      await Promise.all([page.waitForURL("**/home.html"), page.keyboard.press("Enter")]);
    },
    pages: {
      jobs: ["/job-list.html", ".ms-DetailsRow a"],
      job: [`/job-detail.html?username=${user}&jobName=${name}`, `text=${name}`],
    },
  },
};
const { enter, pages, isRenewed } = PORTALS[portal];

const median = (numbers) => Math.round(numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)] * 10) / 10;

async function loggedIn(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await enter(page);
  await page.waitForLoadState("networkidle");
  return { context, state: await context.storageState() };
}

// One visit in a context: bytes on the wire, requests, and the time until its content is there.
async function visit(context, [path, content]) {
  const page = await context.newPage();
  const wire = await context.newCDPSession(page);
  const seen = { bytes: 0, requests: 0 };
  await wire.send("Network.enable");
  wire.on("Network.loadingFinished", (it) => {
    seen.bytes += it.encodedDataLength;
    if (it.encodedDataLength > 0) seen.requests += 1;
  });
  const begun = Date.now();
  await page.goto(url + path, { waitUntil: "commit" });
  await page.locator(content).first().waitFor();
  seen.usable = Date.now() - begun;
  await page.waitForLoadState("networkidle");
  return { page, seen };
}

// From the last byte of a newer page to the frame after it stands there.
const renewed = (page) =>
  page.evaluate(
    (times) =>
      new Promise((resolve) => {
        const found = [];
        const main = document.querySelector("main");
        const watch = new MutationObserver(() => {
          const answers = performance.getEntriesByName(location.href, "resource");
          const end = answers.length ? answers[answers.length - 1].responseEnd : 0;
          requestAnimationFrame(() =>
            setTimeout(() => {
              found.push(performance.now() - end);
              if (found.length >= times) {
                watch.disconnect();
                resolve(found);
              }
            }),
          );
        });
        watch.observe(main, { childList: true });
      }),
    TIMES,
  );

(async () => {
  const executablePath = ["/usr/bin/chromium"].find((it) => fs.existsSync(it));
  // Fonts and icons of OpenPAI's lie on other hosts; its pages do without. An intercepted request would not be cached.
  const rules = `MAP * ~NOTFOUND, EXCLUDE ${new URL(url).hostname}`;
  const args = ["--no-sandbox", `--host-resolver-rules=${rules}`];
  const browser = await chromium.launch({ executablePath, args });
  const { state } = await loggedIn(browser);
  const line = { bench: "pace", portal };
  for (const [key, place] of Object.entries(pages)) {
    const [first, again] = [[], []];
    let bytes;
    for (let nth = 0; nth < TIMES; nth += 1) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, storageState: state });
      const one = await visit(context, place);
      first.push(one.seen.usable);
      await one.page.close();
      const two = await visit(context, place);
      again.push(two.seen.usable);
      bytes = [one.seen, two.seen];
      if (isRenewed && nth === TIMES - 1) line[`${key}_renewed_ms`] = median(await renewed(two.page));
      await context.close();
    }
    line[`${key}_first_bytes`] = bytes[0].bytes;
    line[`${key}_first_requests`] = bytes[0].requests;
    line[`${key}_first_usable_ms`] = median(first);
    line[`${key}_again_bytes`] = bytes[1].bytes;
    line[`${key}_again_requests`] = bytes[1].requests;
    line[`${key}_again_usable_ms`] = median(again);
  }
  console.log(JSON.stringify(line));
  await browser.close();
})();
