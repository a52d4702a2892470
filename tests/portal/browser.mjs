// What each step of pages.mjs runs in: a page of the browser that keeps what went wrong.
import { chromium } from 'playwright-core';

/** Requests that fail by the portal's own doing, or that go to programs that Muster does not have. */
const FOREIGN = [
  [/\/api\/v2\/jobs\/[^/]*\/ssh$/, 'job-detail asks for the SSH information of releases before 1.0'],
  [/\/grafana\//, 'Grafana'],
  [/\/kubernetes-dashboard/, 'the dashboard of Kubernetes'],
  [/\/marketplace\//, 'the marketplace'],
];

const LIMIT_MS = 30000;

export class Browser {
  constructor(base, shots) {
    this.base = base;
    this.shots = shots;
    this.failed = 0;
    this.passed = 0;
    this.foreign = new Map();
  }

  async start(program) {
    this.chromium = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
    await this.forget();
  }

  /** A browser without cookies. */
  async forget() {
    await this.context?.close();
    this.context = await this.chromium.newContext({ viewport: { width: 1800, height: 1200 }, acceptDownloads: true });
    // Fonts and icons lie on other hosts; the pages do without.
    await this.context.route((url) => url.origin !== new URL(this.base).origin, (route) => route.abort());
  }

  async stop() {
    await this.chromium.close();
  }

  /** Opens a page, does something there, and prints a line of how it went. */
  async step(name, path, act, allowed = {}) {
    const page = await this.context.newPage();
    page.setDefaultTimeout(LIMIT_MS);
    const wrong = [];
    this.listen(page, wrong, allowed);
    try {
      await page.goto(this.base + path, { waitUntil: 'networkidle' });
      await act(page);
    } catch (error) {
      wrong.push(error.message.split('\n').slice(0, 3).join(' '));
    }
    if (this.shots) await page.screenshot({ path: `${this.shots}/${name.replaceAll(/[^a-z0-9]+/gi, '-')}.png` }).catch(() => {});
    await page.close();
    if (wrong.length === 0) this.passed += 1;
    else this.failed += 1;
    console.log(`${wrong.length === 0 ? 'ok    ' : 'FAILED'}  ${name}`);
    for (const line of wrong) console.log(`        ${line}`);
  }

  listen(page, wrong, allowed) {
    page.on('pageerror', (error) => {
      if (!allowed.errors?.test(error.message)) wrong.push(`script: ${error.message}`);
    });
    page.on('dialog', async (dialog) => {
      if (!allowed.dialogs?.test(dialog.message())) wrong.push(`alert: ${dialog.message()}`);
      await dialog.accept();
    });
    page.on('response', (response) => {
      if (response.status() < 400) return;
      const path = response.url().replace(this.base, '');
      const line = `${response.status()} ${response.request().method()} ${path}`;
      const known = FOREIGN.find(([pattern]) => pattern.test(path.split('?')[0]));
      if (known) this.foreign.set(known[1], (this.foreign.get(known[1]) ?? 0) + 1);
      else if (!allowed.requests?.test(line)) wrong.push(`request: ${line}`);
    });
  }
}
