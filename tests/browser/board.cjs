// TensorBoard of a job in a browser, through a node of the cluster: it shows the loss, up to a step at least.
//
// Usage: NODE_PATH=target/browser/node_modules node tests/browser/board.cjs URL PLACE STEPS PASSWORD [SCREENSHOTS]
//
// The last line printed is "ok" with what was seen, or what went wrong.
"use strict";
const { existsSync } = require("node:fs");
const { chromium } = require("playwright-core");

const [url, place, steps, password, screenshots] = process.argv.slice(2);
const executablePath = existsSync("/usr/bin/chromium") ? "/usr/bin/chromium" : undefined;
const PATIENCE = 240_000;
const CHART = "scalar-card line-chart";

// The steps of the loss, as the page's own requests get them.
function lossOf(answers) {
  const series = answers.flatMap((answer) => answer).filter((one) => one.tag === "loss");
  const points = series.flatMap((one) => Object.values(one.runToSeries ?? {}).flat());
  return Math.max(-1, ...points.map((point) => point.step));
}

async function look(browser) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const faults = [];
  const series = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("response", async (answer) => {
    const path = new URL(answer.url()).pathname;
    // TensorBoard names its fonts by paths of the root, whatever its prefix is; it goes on with others.
    if (answer.status() >= 400 && !path.startsWith("/font-roboto/")) faults.push(`${answer.status()} ${path}`);
    if (!answer.url().includes("/timeSeries")) return;
    series.push(await answer.json().catch(() => []));
  });
  await page.goto(`${url}/login`);
  await page.fill("[name=user]", "admin");
  await page.fill("[name=password]", password);
  await Promise.all([page.waitForURL((it) => it.pathname === "/"), page.click("main form button")]);
  const start = Date.now();
  await page.goto(`${url}${place}`);
  await page.waitForSelector(CHART);
  const shown = ((Date.now() - start) / 1000).toFixed(1);
  let reached = lossOf(series);
  while (reached < Number(steps) && Date.now() - start < PATIENCE) {
    await page.waitForTimeout(3000);
    await page.reload();
    await page.waitForSelector(CHART);
    reached = lossOf(series);
  }
  if (screenshots) await page.screenshot({ path: `${screenshots}/board-${steps}.png` });
  if (reached < Number(steps)) throw new Error(`the loss ends at step ${reached} in place of ${steps}`);
  if (faults.length > 0) throw new Error(faults.join("; "));
  return `ok: a chart of the loss after ${shown} s, to step ${reached}`;
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    console.log(await look(browser));
  } catch (error) {
    console.log(`failed: ${String(error.message).split("\n").slice(0, 3).join(" ")}`);
    process.exitCode = 1;
  } finally {
    await browser.close();
  }
})();
