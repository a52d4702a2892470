// Opens every page of the portal in a real browser (light or dark: three widths, light without scripts too), or uses
// them as a user would (use: with and without scripts).
//
// Usage: NODE_PATH=target/browser/node_modules node tests/browser/pages.cjs light|dark|use URL PASSWORD_FILE [SCREENSHOTS]
//
// The cluster has the jobs that tests/tests/browser.rs puts there. Prints one line for each fault, and exits with 1
// if there was one.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const [part, url, passwordFile, screenshots] = process.argv.slice(2);
const password = fs.readFileSync(passwordFile, "utf8").trim();
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const PAGES = [
  ["overview", "/", "Devices by kind"],
  ["jobs", "/jobs", "Stop the marked jobs"],
  ["jobs-empty", "/jobs?text=no-job-is-called-so", "No job is like this."],
  ["jobs-wrong", "/jobs?state=LATE", "state must be of", 400],
  ["jobs-unmarked", "/jobs?unmarked=1", "No job was marked"],
  ["jobs-stopping", "/jobs?stopping=2", "2 jobs are being stopped."],
  ["job-runs", "/jobs/admin~runs", "Stop the job"],
  ["job-failed", "/jobs/admin~fails", "Why it ended"],
  ["job-waits", "/jobs/admin~waits", "Why it waits"],
  ["job-missing", "/jobs/admin~missing", "is not found", 404],
  ["log", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log", "Log of task"],
  ["log-found", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log?find=red", "Lines with"],
  ["log-none", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log?find=nowhere", "No line has this text."],
  ["log-mark", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log?mark=0", "id=\"here\""],
  ["log-time", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log?at=2100-01-01T00:00", "was written at about"],
  ["log-wrong", "/jobs/admin~runs/attempts/0/tasks/main/0/0/log?at=soon", "at must be a time", 400],
  ["submit", "/submit", "The job is valid."],
  ["submit-many", "/submit?template=many", "Task role"],
  ["virtual-cluster", "/virtual-clusters/default", "Who holds what"],
  ["nodes", "/nodes", "What is wrong"],
  ["cluster", "/cluster", "Who leads what"],
  ["node", "/nodes/n1", "Maintenance"],
  ["settings", "/documents", "failure-rules"],
  ["rules", "/documents/failure-rules", "Which node goes by which version"],
  ["plugin-missing", "/plugins/none", "portal.plugins", 404],
  ["people", "/people", "Audit log"],
  ["account", "/account", "Change my password"],
  ["missing", "/nothing-here", "Not found", 404],
];

let faults = 0;
function fault(...words) {
  faults += 1;
  console.log(words.join(" "));
}

async function judge(page, name, isJudged) {
  if (isJudged) await reach(page, name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  if (wide) fault(name, "is wider than the window");
  if (screenshots) await page.screenshot({ path: path.join(screenshots, `${name}.png`), fullPage: true });
}

// Whether all readers can use it, as far as a program can tell.
async function reach(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await window.axe.run()).violations);
  for (const one of found.filter((it) => ["serious", "critical"].includes(it.impact))) {
    fault(name, "axe:", one.id, one.nodes[0].html.slice(0, 200));
  }
}

async function login(page) {
  await page.goto(`${url}/account`);
  await page.fill("#user", "admin");
  await page.fill("#password", "not-the-password");
  await page.click("button.main");
  await page.waitForSelector("text=The user name or the password is wrong.");
  await page.fill("#password", password);
  await page.click("button.main");
  await page.waitForURL(`${url}/account`);
}

// Every page, as it is first seen.
async function look(browser, colorScheme, width, javaScriptEnabled) {
  const options = { colorScheme, viewport: { width, height: 900 }, bypassCSP: true, javaScriptEnabled };
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const at = `${colorScheme}-${width}${javaScriptEnabled ? "" : "-plain"}`;
  await login(page);
  for (const [name, place, text, status = 200] of PAGES) {
    const answer = await page.goto(url + place);
    if (answer.status() !== status) fault(name, at, "answers", answer.status());
    if (!(await page.content()).includes(text)) fault(name, at, "does not say", text);
    // Colours change with the scheme, and what is hidden with the width: the third is between the others.
    if (javaScriptEnabled) await judge(page, `${name}-${at}`, width !== 768);
  }
  await context.close();
}

// The form beside the YAML: both are in step, by themselves or by a button.
async function fillForm(page, way, { name, javaScriptEnabled }) {
  const inStep = async (isSo, what) => {
    const until = Date.now() + 10_000;
    while (!(await page.evaluate(isSo))) {
      if (Date.now() > until) return fault(way, what);
      await page.waitForTimeout(100);
    }
  };
  if (!javaScriptEnabled) await page.click("#fields ~ .row button[value=check]");
  const hasImage = () => document.querySelector("#role0_image")?.value === "muster/busybox";
  await inStep(hasImage, "the form does not follow the YAML");
  if ((await page.inputValue("#form_name")) !== name) fault(way, "the form has another name than the YAML");
  await page.fill("#role0_command", "sleep 600");
  if (!javaScriptEnabled) await page.click("#fields ~ .row button[value=check]");
  const hasCommand = () => document.querySelector("#job").value.includes("- sleep 600");
  await inStep(hasCommand, "the YAML does not follow the form");
  await page.click("button[value=forecast]");
  await page.waitForSelector("text=What it would take");
}

// What a user does, with the content security policy in force.
async function use(browser, javaScriptEnabled) {
  // The machine's certificate is its own.
  const context = await browser.newContext({ javaScriptEnabled, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const way = javaScriptEnabled ? "scripted" : "plain";
  page.on("console", (line) => line.type() === "error" && !line.text().includes("status of 40") && fault(way, line.text()));
  page.on("pageerror", (error) => fault(way, error.message));
  page.on("requestfailed", (request) => fault(way, "failed:", request.url()));
  await login(page);
  await page.goto(`${url}/submit`);
  const name = `by-hand-${way}`;
  const text = (await page.inputValue("#job")).replace("name: my-job", `name: ${name}`);
  if (javaScriptEnabled) {
    await page.fill("#job", text.replace("instances: 1", "instances: many"));
    await page.waitForSelector("#judged code:has-text('instances')");
  }
  await page.fill("#job", text.replace("uri: pytorch/pytorch", "uri: muster/busybox"));
  await fillForm(page, way, { name, javaScriptEnabled });
  await page.click("button[value=submit]");
  await page.waitForURL(/\/(jobs\/|submit$)/);
  if (!page.url().includes("/jobs/")) fault(way, "was not accepted:", await page.textContent("#judged"));
  await page.fill("#tag", "mine");
  await page.click("button[value=tag]");
  await page.waitForSelector("text=mine ×");
  await page.goto(`${url}/jobs?tag=mine&user=admin`);
  await page.check(`input[value='admin~${name}']`);
  await page.click("button[value=stop]");
  await page.waitForSelector("text=1 job is being stopped.");
  await page.goto(`${url}/people`);
  await page.fill("#username", `zoe-${way}`);
  await page.fill("#userpassword", "zoes-password");
  await page.click("button[value=add-user]");
  await page.waitForSelector(`td:has-text('zoe-${way}')`);
  await page.goto(`${url}/account`);
  await page.fill("#name", `nightly-${way}`);
  await page.click("button[value=token]");
  await page.waitForSelector("text=It is not shown again.");
  await page.click("text=Log out");
  await page.waitForURL(`${url}/login`);
  await page.goto(`${url}/jobs`);
  await page.waitForURL(/\/login\?next=%2Fjobs$/);
  await context.close();
}

// An open page is written anew, and a log goes on.
async function live(browser) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  await login(page);
  await page.goto(`${url}/jobs/admin~runs/attempts/0/tasks/main/0/0/log`);
  const lines = () => page.textContent("pre.log").then((text) => text.split("\n").length);
  const before = await lines();
  const until = Date.now() + 30_000;
  while ((await lines()) <= before) {
    if (Date.now() > until) return fault("an open log does not go on");
    await page.waitForTimeout(200);
  }
  if (!(await page.$("pre.log span.f1"))) fault("the log has no colour");
  // What was written while the page could not hear comes afterwards, once.
  const text = await page.textContent("pre.log");
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForTimeout(1500);
  const quiet = await page.textContent("pre.log");
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const heard = Date.now() + 30_000;
  while ((await page.textContent("pre.log")).length <= quiet.length) {
    if (Date.now() > heard) return fault("a log does not go on once its page is seen again");
    await page.waitForTimeout(100);
  }
  const after = await page.textContent("pre.log");
  if (!after.startsWith(text) || !/^red\n(step\n)+$/.test(after)) fault("the log is not whole:", after.slice(0, 200));
  await context.close();
}

(async () => {
  const executablePath = ["/usr/bin/chromium"].find((it) => fs.existsSync(it));
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  if (part === "use") {
    await use(browser, true);
    await use(browser, false);
    await live(browser);
  } else {
    for (const width of [1280, 768, 390]) await look(browser, part, width, true);
    if (part === "light") await look(browser, part, 1280, false);
  }
  await browser.close();
  process.exit(faults ? 1 : 0);
})();
