// Opens every page of OpenPAI's portal in a browser and does on it what people do:
// `node pages.mjs PORTAL-URL PASSWORD-FILE CHROMIUM [FOLDER-FOR-SCREENSHOTS]`. try.sh runs it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Browser } from './browser.mjs';

const [base, passwordFile, program, shots] = process.argv.slice(2);
const image = process.env.IMAGE ?? 'muster/busybox';
const admin = { user: 'admin', password: readFileSync(passwordFile, 'utf8').trim() };
const now = Date.now().toString(36);
const person = { user: `pat${now}`, password: `first-${now}` };
const alias = `this-one-${now}`;
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBrrEqvNRHLm5CjR2QKJ8gqVdFpYvNGOWm2wgNeW9y6x laptop';
const browser = new Browser(base, shots);

/** The page asks for templates in the marketplace, and does not catch that there is none. */
const withoutMarketplace = { errors: /^Not Found$/ };

const protocol = (name, commands) => `protocolVersion: 2
name: ${name}
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: ${image}}
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1}
    commands: ${JSON.stringify(commands)}
`;

async function sees(page, text) {
  await page.getByText(text).first().waitFor();
}

async function press(page, name, scope = page) {
  const roles = ['button', 'menuitem'].map((role) => scope.getByRole(role, { name, exact: true }));
  await roles[0].or(roles[1]).first().click();
}

const dialog = (page) => page.locator('.ms-Dialog-main').last();

/** Waits for a message of the page, and closes it. */
async function confirms(page, text) {
  await sees(page, text);
  await press(page, 'OK');
}

async function enter(page, { user, password }) {
  await page.getByText('Sign in', { exact: true }).first().click();
  const fields = dialog(page).locator('input');
  await fields.nth(0).fill(user);
  await fields.nth(1).fill(password);
  await page.keyboard.press('Enter');
}

async function login(name, who) {
  await browser.step(name, '/index.html', async (page) => {
    await enter(page, who);
    await page.waitForURL('**/home.html');
    await sees(page, 'Virtual clusters (');
    await page.waitForLoadState('networkidle');
  });
}

/** The page's own REST client: for what a step must wait for. */
async function ask(page, path) {
  return page.evaluate(async (at) => {
    const token = document.cookie.match(/(?:^|; )token=([^;]*)/)[1];
    const answer = await fetch(`/rest-server/api/v2/${at}`, { headers: { authorization: `Bearer ${token}` } });
    return answer.json();
  }, path);
}

/** Asks until an answer is as it should be. */
async function until(page, path, judge, what) {
  for (let tries = 0; tries < 120; tries += 1) {
    if (judge(await ask(page, path))) return;
    await page.waitForTimeout(500);
  }
  assert.fail(`${path}: ${what}`);
}

const reaches = (page, job, state) => until(page, `jobs/${admin.user}~${job}`,
  ({ jobStatus }) => jobStatus?.state === state, `did not become ${state}`);

/** Typed text would be indented by the editor. */
async function setText(page, text) {
  await page.locator('.monaco-editor').first().waitFor();
  await page.evaluate((value) => window.monaco.editor.getModels()[0].setValue(value), text);
}

async function submitYaml(name, job, commands, state) {
  await browser.step(name, '/submit.html#/yaml-edit', async (page) => {
    await setText(page, protocol(job, commands));
    await sees(page, 'Validation completed successfully');
    await press(page, 'Submit');
    await page.waitForURL('**/job-detail.html*');
    await reaches(page, job, state);
  });
}

async function home() {
  await browser.step('a wrong password is refused', '/index.html', async (page) => {
    await enter(page, { user: admin.user, password: 'not-the-password' });
    await sees(page, /incorrect/i);
  }, { requests: /^400 POST .*login$/ });
  await login('log in', admin);
  await browser.step('home', '/home.html', async (page) => {
    for (const text of ['Job Status', 'Virtual clusters (', 'Available GPU nodes', 'My recent jobs']) await sees(page, text);
  });
}

/** Asks for a field for the image. The form is made anew while it loads, and forgets then. */
async function ownImage(page) {
  const field = page.getByPlaceholder('Enter docker uri...');
  for (let tries = 0; tries < 5 && !(await field.isVisible()); tries += 1) {
    await page.locator('button.ms-Toggle-background').nth(1).click();
    await field.waitFor({ timeout: 3000 }).catch(() => {});
  }
  await field.fill(image);
}

async function submitting() {
  const commands = ['echo a line of $PAI_TASK_INDEX', 'echo an error of $PAI_TASK_INDEX >&2', 'sleep 3000'];
  await submitYaml('submit: the YAML of a job that runs', `run${now}`, commands, 'RUNNING');
  await submitYaml('submit: the YAML of a job that fails', `bad${now}`, ['echo it fails', 'exit 7'], 'FAILED');
  await browser.step('submit: what the server refuses is shown', '/submit.html#/yaml-edit', async (page) => {
    const text = protocol(`not${now}`, ['exit 0']).replace('type: job', 'type: job\ndefaults: {virtualCluster: nowhere}');
    const shown = page.waitForEvent('dialog');
    await setText(page, text);
    await sees(page, 'Validation completed successfully');
    await press(page, 'Submit');
    assert.match((await shown).message(), /nowhere/);
  }, { dialogs: /nowhere/, requests: /^403 POST .*jobs$/ });
  await browser.step('submit: the form for a single job', '/submit.html#/single', async (page) => {
    await sees(page, 'Job name');
    await setText(page, 'echo by the form');
    await ownImage(page);
    const name = await page.locator('input[type=text]').first().inputValue();
    await press(page, 'Submit');
    await page.waitForURL('**/job-detail.html*');
    await reaches(page, name, 'SUCCEEDED');
  }, withoutMarketplace);
  await browser.step('submit: the second form opens', '/submit_demo.html#/general', async (page) => {
    for (const text of ['Job Information', 'Task role name', 'YAML Config']) await sees(page, text);
  }, withoutMarketplace);
}

async function jobs() {
  const job = `username=${admin.user}&jobName=run${now}`;
  await browser.step('job list', `/job-list.html`, async (page) => {
    await sees(page, `run${now}`);
    await sees(page, `bad${now}`);
    await page.getByPlaceholder('Filter by keyword').fill(`bad${now}`);
    await page.getByText(`run${now}`, { exact: true }).waitFor({ state: 'detached' });
    await sees(page, `bad${now}`);
  });
  await browser.step('job detail: a running job', `/job-detail.html?${job}`, async (page) => {
    await sees(page, 'Running');
    await sees(page, 'Task Role: worker');
    await page.getByText('View Job Config').click();
    await sees(page, 'protocolVersion');
  });
  for (const [button, line] of [['Stdout', 'a line of 0'], ['Stderr', 'an error of 0']]) {
    await browser.step(`job detail: ${button}`, `/job-detail.html?${job}`, async (page) => {
      await page.getByText(button, { exact: true }).first().click();
      await sees(page, line);
    });
  }
  await browser.step('job detail: a failed job', `/job-detail.html?username=${admin.user}&jobName=bad${now}`, async (page) => {
    await sees(page, 'Exit Code:');
    await sees(page, 'Exit Type:');
    await page.getByText('View Exit Diagnostics').first().click();
    await page.waitForTimeout(1000);
  });
  await browser.step('task attempts', `/task-attempt.html?${job}&jobAttemptIndex=0&taskRoleName=worker&taskIndex=0`, async (page) => {
    await sees(page, 'Task Uid');
    await page.getByText('Stdout', { exact: true }).first().click();
    await sees(page, 'a line of 0');
  });
  await browser.step('job events', `/job-event.html?userName=${admin.user}&jobName=run${now}`, async (page) => {
    await sees(page, 'Job Event List');
  });
  await browser.step('clone a job', `/submit.html?op=resubmit&type=job&user=${admin.user}&jobName=run${now}#/general`, async (page) => {
    await sees(page, 'worker');
    await sees(page, 'a line of');
    const name = await page.locator('input[type=text]').first().inputValue();
    await press(page, 'Submit');
    await page.waitForURL('**/job-detail.html*');
    await reaches(page, name, 'RUNNING');
    await press(page, 'Stop');
    await press(page, 'Confirm');
    await reaches(page, name, 'STOPPED');
  }, withoutMarketplace);
  await browser.step('job list: stop a job', `/job-list.html`, async (page) => {
    await page.getByPlaceholder('Filter by keyword').fill(`run${now}`);
    await press(page, 'Stop', rowOf(page, `run${now}`));
    await press(page, 'Confirm');
    await reaches(page, `run${now}`, 'STOPPED');
  });
}

const rowOf = (page, text) => page.getByRole('row').filter({ has: page.getByText(text, { exact: true }) }).first();

async function choose(page, row) {
  await row.waitFor();
  await row.getByRole('radio').or(row.getByRole('checkbox')).first().click();
}

async function fillNewUser(page, name) {
  await press(page, 'Add User');
  await page.getByPlaceholder('Enter user name').fill(name);
  await page.getByPlaceholder('Enter password').fill(person.password);
  await page.getByPlaceholder('Enter email').fill('pat@example.org');
  await press(page, 'Add', dialog(page));
}

async function users() {
  await browser.step('users: add one', '/user-view.html', async (page) => {
    await fillNewUser(page, person.user);
    await confirms(page, 'Add new user successfully');
    await sees(page, person.user);
    assert.equal((await ask(page, `users/${person.user}`)).email, 'pat@example.org');
  });
  await browser.step('users: the same one again is refused', '/user-view.html', async (page) => {
    await fillNewUser(page, person.user);
    await confirms(page, /already|exist/i);
  }, { requests: /^409 POST .*user/ });
  await browser.step('users: edit one', '/user-view.html', async (page) => {
    await press(page, 'Edit', rowOf(page, person.user));
    await page.getByPlaceholder('Enter email').fill('pat2@example.org');
    person.password = `second-${now}`;
    await page.getByPlaceholder('******').fill(person.password);
    const others = await chooseVc(page);
    await press(page, 'Save', dialog(page));
    await confirms(page, 'Update user information successfully');
    const stored = await ask(page, `users/${person.user}`);
    assert.equal(stored.email, 'pat2@example.org');
    for (const vc of others) assert.ok(stored.virtualCluster.includes(vc), `${stored.virtualCluster}`);
  });
  await browser.step('users: make one an admin, and undo it', '/user-view.html', async (page) => {
    for (const isAdmin of [true, false]) {
      await press(page, 'Edit', rowOf(page, person.user));
      await dialog(page).locator('.ms-Checkbox').first().click();
      await press(page, 'Save', dialog(page));
      await confirms(page, 'Update user information successfully');
      assert.equal((await ask(page, `users/${person.user}`)).admin, isAdmin);
      await page.waitForTimeout(1000);
    }
  });
  await browser.step('users: a batch from a file', '/batch-register.html', async (page) => {
    const rows = [1, 2, 3].map((n) => `${person.user}n${n},secret-${now},n${n}@example.org,false,default`);
    const csv = ['username,password,email,admin,virtual cluster', ...rows].join('\n');
    // The page refuses virtual clusters that it has not been told of yet.
    const [told] = await Promise.all([page.waitForResponse(/virtual-clusters$/), page.reload()]);
    await told.finished();
    const asked = page.waitForEvent('filechooser');
    await press(page, 'Browse...');
    await (await asked).setFiles({ name: 'users.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await press(page, 'Submit');
    await confirms(page, 'Create users finished.');
    assert.equal((await ask(page, `users/${person.user}n3`)).email, 'n3@example.org');
  });
  await browser.step('users: passwords of several', '/user-view.html', async (page) => {
    await choose(page, rowOf(page, `${person.user}n1`));
    await choose(page, rowOf(page, `${person.user}n2`));
    await press(page, 'Batch Edit Passwords');
    await dialog(page).locator('input').first().fill(`third-${now}`);
    await press(page, 'Save', dialog(page));
    await confirms(page, /successfully/);
  });
  await browser.step('users: remove several', '/user-view.html', async (page) => {
    for (const n of [1, 2, 3]) await choose(page, rowOf(page, `${person.user}n${n}`));
    await press(page, 'Remove');
    await press(page, 'OK');
    await confirms(page, /success/i);
    assert.equal((await ask(page, `users/${person.user}n2`)).code, 'NoUserError');
  }, { requests: /^400 GET .*users/ });
}

/** Chooses all virtual clusters in the editor of a user. */
async function chooseVc(page) {
  await dialog(page).locator('.ms-Dropdown').first().click();
  const names = Object.keys(await ask(page, 'virtual-clusters')).filter((name) => name !== 'default');
  for (const name of names) await page.locator('.ms-Callout').getByText(name, { exact: true }).click();
  await page.keyboard.press('Escape');
  return names;
}

const hasKey = ({ extension }) => (extension.sshKeys ?? []).some((key) => key.title === `key${now}`);

async function profile() {
  await browser.step('profile: an application token', '/user-profile.html', async (page) => {
    const before = (await ask(page, 'tokens')).tokens.length;
    await press(page, 'Create application token');
    await until(page, 'tokens', ({ tokens }) => tokens.length === before + 1, 'one more was expected');
    await press(page, 'Revoke', rowOf(page, 'Application'));
    await press(page, 'Confirm');
    await until(page, 'tokens', ({ tokens }) => tokens.length === before, 'it is not revoked');
  });
  await browser.step('profile: a public key', '/user-profile.html', async (page) => {
    await press(page, 'Add SSH Public Keys');
    await dialog(page).locator('input').first().fill(`key${now}`);
    await dialog(page).locator('textarea').first().fill(publicKey);
    await press(page, 'Add', dialog(page));
    await sees(page, `key${now}`);
    await until(page, `users/${admin.user}`, hasKey, 'the key is not there');
    await press(page, 'Delete', rowOf(page, `key${now}`));
    await press(page, 'Confirm');
    await until(page, `users/${admin.user}`, (user) => !hasKey(user), 'the key is still there');
  });
  await browser.step('profile: an e-mail address', '/user-profile.html', async (page) => {
    await press(page, 'Edit Profile');
    await dialog(page).locator('input').first().fill(`a${now}@example.org`);
    await press(page, 'Save');
    await sees(page, `a${now}@example.org`);
  });
  await browser.step('profile: another cluster', '/user-profile.html', async (page) => {
    await press(page, 'Add a bounded cluster');
    const fields = dialog(page).locator('input, textarea');
    const token = await page.evaluate(() => document.cookie.match(/(?:^|; )token=([^;]*)/)[1]);
    for (const [index, text] of [alias, base, admin.user, token].entries()) await fields.nth(index).fill(text);
    await press(page, 'Add', dialog(page));
    await dialog(page).waitFor({ state: 'detached' });
    await sees(page, alias);
  });
  await browser.step('job transfer', `/job-transfer.html?userName=${admin.user}&jobName=run${now}`, async (page) => {
    await page.getByText('select a bounded cluster').click();
    await page.locator('.ms-Dropdown-item').getByText(alias).click();
    await page.getByLabel('Job Name').fill(`moved${now}`);
    await page.getByLabel('VC Name').fill('default');
    await press(page, 'Confirm Transfer');
    await sees(page, /success/i);
    await reaches(page, `moved${now}`, 'RUNNING');
  }, { requests: /^404 GET .*~moved/ });
  await browser.step('profile: forget the other cluster', '/user-profile.html', async (page) => {
    await press(page, 'Delete', rowOf(page, alias));
    await press(page, 'Confirm');
    await until(page, `users/${admin.user}`, ({ extension }) => !(alias in extension.boundedClusters), 'it is still there');
  });
}

async function administration() {
  const plain = [['virtual clusters', '/virtual-clusters.html', ['default']],
    ['services', '/cluster-view/services.html', ['Node Name', 'muster-']],
    ['hardware', '/cluster-view/hardware.html', ['Machine Name', 'N/A']],
    ['dashboard (a frame for Grafana)', '/dashboard.html', ['Platform for AI']],
    ['k8s (a frame for its dashboard)', '/cluster-view/k8s.html', ['Platform for AI']],
    ['a machine (a frame for Grafana)', '/cluster-view/hardware/detail.html?instance=127.0.0.1:9100', ['Platform for AI']],
    ['submit, version 1', '/submit_v1.html', ['Submit Jobs']],
  ];
  for (const [name, path, texts] of plain) {
    await browser.step(name, path, async (page) => {
      for (const text of texts) await sees(page, text);
    });
  }
}

async function asPerson() {
  await browser.forget();
  await login('log in as the new user', person);
  await browser.step('home of a user', '/home.html', (page) => sees(page, 'Virtual clusters ('));
  await browser.step('profile: a password', '/user-profile.html', async (page) => {
    await press(page, 'Edit Password');
    const fields = dialog(page).locator('input');
    for (const [index, text] of [person.password, `last-${now}`, `last-${now}`].entries()) await fields.nth(index).fill(text);
    person.password = `last-${now}`;
    await press(page, 'Save');
    await page.waitForURL('**/index.html*');
  });
  await login('log in by the new password', person);
  await browser.step('users: a user may not add one', '/user-view.html', async (page) => {
    await fillNewUser(page, `${person.user}x`);
    await confirms(page, /not allow/);
  }, { requests: /^403 POST .*user/ });
  await browser.step('log out', '/home.html', async (page) => {
    await page.getByText(`Welcome, ${person.user}`).click();
    await press(page, 'Sign Out');
    await page.waitForURL('**/index.html*');
    assert.equal(await page.evaluate(() => document.cookie.includes('token=')), false);
    // The portal forgets the token, and means to revoke it, but its client there has none to do it with.
  }, { requests: /^400 POST .*login$/ });
}

await browser.start(program);
await home();
await submitting();
await jobs();
await users();
await profile();
await administration();
await asPerson();
await browser.stop();
for (const [what, times] of browser.foreign) console.log(`foreign: ${times} requests failed: ${what}`);
console.log(`${browser.passed} passed, ${browser.failed} failed`);
process.exitCode = browser.failed === 0 ? 0 : 1;
