// Uses a shell in a task in a real browser: keys, colours, sizes, its end.
//
// Usage: NODE_PATH=target/browser/node_modules node tests/browser/terminal.cjs terminal|measure URL PASSWORD_FILE [SCREENSHOTS]
//
// The cluster has the job admin~runs. Prints one line for each fault, and exits with 1 if there was one. `measure` prints how
// long a key takes to be seen, and how many bytes much output is.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const [part, url, passwordFile, screenshots] = process.argv.slice(2);
const password = fs.readFileSync(passwordFile, "utf8").trim();
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const PLACE = "/jobs/admin~runs/tasks/main/0/terminal";

let faults = 0;
function fault(...words) {
  faults += 1;
  console.log(words.join(" "));
}

async function opened(browser, options) {
  const context = await browser.newContext({ ...options, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.on("console", (line) => line.type() === "error" && fault("console:", line.text()));
  page.on("pageerror", (error) => fault("page:", error.message));
  await page.goto(`${url}/jobs/admin~runs`);
  await page.fill("#user", "admin");
  await page.fill("#password", password);
  await page.click("button.main");
  await page.waitForURL(/admin(~|%7E)runs$/);
  return page;
}

const rows = (page) => page.evaluate(() => [...document.querySelectorAll(".past > div, .rows > div")].map((it) => it.textContent).join("\n"));

// Waits until the terminal shows this, and returns all that it shows.
async function shows(page, expected) {
  const until = Date.now() + 20_000;
  for (;;) {
    const text = await rows(page);
    if (expected.test(text)) return text;
    if (Date.now() > until) {
      fault("is not shown:", expected, "but", JSON.stringify(text.trimEnd()));
      return text;
    }
    await page.waitForTimeout(50);
  }
}

async function line(page, text) {
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

async function count(page, selector, least) {
  const until = Date.now() + 20_000;
  while ((await page.locator(selector).count()) < least) {
    if (Date.now() > until) return fault("there are not", least, "of", selector, JSON.stringify(await rows(page)));
    await page.waitForTimeout(50);
  }
}

async function stands(page, text) {
  const until = Date.now() + 20_000;
  for (;;) {
    const said = await page.textContent("#terminal-state");
    if (said.includes(text)) return;
    if (Date.now() > until) return fault("it says", JSON.stringify(said), "in place of", text);
    await page.waitForTimeout(50);
  }
}

// What programs are told of the size.
async function size(page, mark) {
  await line(page, `echo ${mark}=$(stty size).`);
  const found = (await shows(page, new RegExp(`${mark}=\\d+ \\d+\\.`))).match(new RegExp(`${mark}=(\\d+) (\\d+)\\.`));
  return found ? [Number(found[1]), Number(found[2])] : [0, 0];
}

async function use(page) {
  await page.click("text=Terminal");
  await stands(page, "Connected.");
  await shows(page, /[#$] *$/m);
  // Colours, and a key that brings the line back.
  await line(page, "printf '\\033[32mgr''een\\033[0m\\n'");
  await count(page, ".rows .f2:text-is('green')", 1);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await count(page, ".rows .f2:text-is('green')", 2);
  // The shell completes a name.
  await line(page, "mkdir -p /tmp/unlikely-name; cd /");
  await page.keyboard.type("cd /tmp/unl");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await line(page, "echo in=$(pwd)");
  await shows(page, /in=\/tmp\/unlikely-name/);
  // A key ends a program.
  await line(page, "sleep 600");
  await shows(page, /sleep 600/);
  await page.keyboard.press("Control+c");
  await line(page, "echo a$((1 + 1))b");
  await shows(page, /a2b/);
  // A program that asks for other cursor keys gets those.
  await line(page, "printf '\\033[?1h'; cat -v");
  await shows(page, /cat -v/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await shows(page, /\^\[OB/);
  await page.keyboard.press("Control+d");
  await line(page, "printf '\\033[?1l'");
  // What an input method writes, in two columns; a paste.
  await page.keyboard.insertText("echo 漢");
  await page.keyboard.press("Enter");
  await count(page, ".rows .w2:text-is('漢')", 2);
  const width = await page.evaluate(() => document.querySelector(".w2").getBoundingClientRect().width / document.querySelector(".cursor").getBoundingClientRect().width);
  if (Math.abs(width - 2) > 0.05) fault("a wide letter is", width, "columns wide");
  await page.evaluate(() => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "echo pas''ted\n");
    document.querySelector("#typed").dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true }));
  });
  await shows(page, /^pasted$/m);
  const [height, columns] = await size(page, "before");
  await page.setViewportSize({ width: 700, height: 500 });
  await page.waitForTimeout(500);
  const [lower, narrower] = await size(page, "after");
  if (!(lower < height && narrower < columns && lower > 3)) fault("the size is", lower, narrower, "after", height, columns);
  // What has left the screen stands above it.
  await line(page, "seq 300");
  await shows(page, /^1\n2\n3\n[^]*\n300\n/m);
  await page.keyboard.press("Control+Shift+L");
  const focus = await page.evaluate(() => document.activeElement.id);
  if (focus !== "terminal-leave") fault("the key leads to", focus);
  if (screenshots) await page.screenshot({ path: path.join(screenshots, "terminal.png"), fullPage: true });
  // A key that is pressed while nothing has the focus goes to the terminal.
  await page.evaluate(() => document.activeElement.blur());
  await line(page, "exit 3");
  await stands(page, "The shell has ended with exit code 3.");
  await page.click("#terminal-again");
  await stands(page, "Connected.");
  await shows(page, /[#$] *$/m);
}

async function measure(page) {
  let bytes = 0;
  let messages = 0;
  page.on("websocket", (socket) => socket.on("framereceived", (frame) => {
    bytes += frame.payload.length;
    messages += 1;
  }));
  await page.goto(url + PLACE);
  await stands(page, "Connected.");
  await shows(page, /[#$] *$/m);
  const times = [];
  for (let nth = 0; nth < 40; nth += 1) {
    await page.evaluate(() => {
      const begin = performance.now();
      window.echoed = new Promise((done) => {
        const watcher = new MutationObserver(() => {
          watcher.disconnect();
          done(performance.now() - begin);
        });
        watcher.observe(document.querySelector(".rows"), { childList: true, subtree: true });
      });
      const input = document.querySelector("#typed");
      input.value = "x";
      input.dispatchEvent(new InputEvent("input"));
    });
    times.push(await page.evaluate(() => window.echoed));
    await page.waitForTimeout(60);
  }
  times.sort((a, b) => a - b);
  await page.keyboard.press("Control+c");
  await page.waitForTimeout(300);
  [bytes, messages] = [0, 0];
  const begin = Date.now();
  await line(page, "seq 100000; echo d''one");
  await shows(page, /^done$/m);
  const took = Date.now() - begin;
  fault("a key is seen after", times[20].toFixed(1), "ms; seq 100000:", bytes, "bytes in", messages, "messages,", took, "ms");
}

(async () => {
  const executablePath = ["/usr/bin/chromium"].find((it) => fs.existsSync(it));
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await opened(browser, { viewport: { width: 1280, height: 900 } });
  if (part === "measure") await measure(page);
  else {
    await use(page);
    for (const colorScheme of ["light", "dark"]) {
      const other = await opened(browser, { colorScheme, viewport: { width: 390, height: 800 }, bypassCSP: true });
      await other.goto(url + PLACE);
      await stands(other, "Connected.");
      await other.evaluate(axe);
      const found = await other.evaluate(async () => (await window.axe.run()).violations);
      for (const one of found.filter((it) => ["serious", "critical"].includes(it.impact))) {
        fault(colorScheme, "axe:", one.id, one.nodes[0].html.slice(0, 200));
      }
      if (await other.evaluate(() => document.documentElement.scrollWidth > window.innerWidth)) fault(colorScheme, "is wider than the window");
    }
    const plain = await opened(browser, { javaScriptEnabled: false });
    await plain.goto(url + PLACE);
    const text = await plain.innerText("main");
    if (!text.includes("needs JavaScript") || !text.includes("muster job exec -it admin~runs:main:0")) fault("without scripts it says", text);
  }
  await browser.close();
  process.exit(faults ? 1 : 0);
})();
