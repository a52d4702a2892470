// Keeps a page that is open as new as the cluster is. Every page is complete without it.
"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const pause = Number(main.dataset.refresh) * 1000;
  const note = document.querySelector("#freshness");
  let last = Date.now();

  // A reader who writes, selects or has marked something is not disturbed.
  const busy = () =>
    document.hidden ||
    main.contains(document.activeElement) ||
    main.querySelector("input[type=checkbox]:checked") ||
    [...main.querySelectorAll("textarea, input:not([type=hidden], [type=checkbox])")].some((it) => it.value !== it.defaultValue) ||
    String(document.getSelection());

  const opened = (root) => [...root.querySelectorAll("details")].map((it) => it.open);

  function show(text) {
    const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!next) return;
    opened(main).forEach((open, at) => {
      const it = next.querySelectorAll("details")[at];
      if (it) it.open = open;
    });
    // A page that begins to show a log shows it live.
    if (next.querySelector("pre.log[data-stream]")) return location.reload();
    // What was loaded into the page stays until it is loaded again.
    for (const part of main.querySelectorAll("[data-part]")) {
      const its = next.querySelector(`#${part.id}`);
      if (its && its.dataset.part === part.dataset.part) its.replaceWith(part);
    }
    main.replaceChildren(...next.childNodes);
  }

  async function refresh() {
    if (!busy()) {
      try {
        const answer = await fetch(location.href, { redirect: "manual" });
        if (answer.type === "opaqueredirect" || answer.status === 401) return location.reload();
        if (answer.ok) {
          show(await answer.text());
          last = Date.now();
          note.textContent = "";
        }
      } catch {
        // Said below.
      }
    }
    const age = Math.round((Date.now() - last) / 1000);
    if (age > 30 && !document.hidden && !busy()) {
      note.textContent = `This node does not answer. What you see is ${age} s old; any other node shows the same pages.`;
    }
    setTimeout(refresh, pause);
  }

  setTimeout(refresh, pause);
})();
// Shows a part of another page in this one, and renews it.
for (const part of document.querySelectorAll("[data-part]")) {
  const place = part.dataset.part;
  async function load() {
    if (!document.hidden) {
      try {
        const answer = await fetch(place);
        const page = new DOMParser().parseFromString(answer.ok ? await answer.text() : "", "text/html");
        const its = page.querySelector(`#${part.id}`);
        if (its) part.replaceChildren(...its.childNodes);
      } catch {
        // The link leads there all the same.
      }
    }
    if (part.isConnected) setTimeout(load, 30000);
  }
  load();
}
// Goes on with a log while it is written.
(() => {
  const log = document.querySelector("pre.log[data-stream]");
  if (!log) return;
  const state = document.querySelector("#log-state");
  // What is kept of a log that goes on for days, in characters.
  const most = 4e6;
  let from = log.dataset.from;
  let length = log.textContent.length;
  let source = null;
  let waits = 0;
  log.scrollTop = log.scrollHeight;

  function add(markup) {
    const follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    const page = new DOMParser().parseFromString(`<pre><span>${markup}</span></pre>`, "text/html");
    const span = page.querySelector("span");
    length += span.textContent.length;
    log.append(...span.childNodes);
    while (length > most && follows && log.childNodes.length > 1) {
      length -= log.firstChild.textContent.length;
      log.firstChild.remove();
    }
    if (follows) log.scrollTop = log.scrollHeight;
  }

  function close() {
    if (source) source.close();
    source = null;
    clearTimeout(waits);
  }

  function open() {
    close();
    source = new EventSource(`${log.dataset.stream}&from=${encodeURIComponent(from)}`);
    source.onopen = () => { state.textContent = "Live: new lines come by themselves."; };
    source.onmessage = (event) => {
      from = event.lastEventId;
      add(event.data);
    };
    source.addEventListener("missing", (event) => add(`\n[${Number(event.data)} bytes are not kept any more]\n`));
    source.addEventListener("end", () => {
      close();
      state.textContent = "The task has ended, and this is the end of its log.";
    });
    source.onerror = () => {
      state.textContent = "The connection is lost. It is tried again; nothing of the log will be missing.";
      // The browser tries again by itself, but for what is refused.
      if (source && source.readyState === EventSource.CLOSED) waits = setTimeout(open, 3000);
    };
  }

  // A browser has few connections to one server: a page that nobody sees takes none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!state.textContent.startsWith("The task has ended")) open();
  });
  if (!document.hidden) open();
})();
// Marks all rows of a table at once.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-all]")) return;
  const boxes = event.target.closest("table").querySelectorAll("tbody input[type=checkbox]");
  for (const box of boxes) box.checked = event.target.checked;
});
// Says what is wrong with a text while it is written, and keeps a form beside it in step with it. What either of
// them becomes by a change of the other one, the server says.
for (const form of document.querySelectorAll("form[data-check]")) {
  const shown = form.dataset.check;
  // A button is called action too, so that the property of that name is not the address.
  const to = form.getAttribute("action");
  let waits = 0;
  let asked = 0;

  function keepInStep(page) {
    const text = form.querySelector("#job");
    const newText = page.querySelector("#job");
    if (text && newText && text.value !== newText.value) {
      const { selectionStart, selectionEnd, scrollTop } = text;
      text.value = newText.value;
      text.setSelectionRange(selectionStart, selectionEnd);
      text.scrollTop = scrollTop;
    }
    const fields = form.querySelector("#fields");
    const newFields = page.querySelector("#fields");
    if (!fields || !newFields) return;
    if (!fields.contains(document.activeElement)) return fields.replaceChildren(...newFields.childNodes);
    // Who writes in the form is not disturbed: only what it was shown with is new.
    const was = fields.querySelector("[name=form_shown]");
    const is = newFields.querySelector("[name=form_shown]");
    if (was && is) was.value = is.value;
  }

  async function check() {
    const mine = ++asked;
    const body = new URLSearchParams(new FormData(form));
    body.set("action", "check");
    body.set("scripted", "1");
    try {
      const answer = await fetch(to, { method: "POST", body });
      if (!answer.ok || mine !== asked) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== asked) return;
      document.querySelector(shown).replaceChildren(...page.querySelector(shown).childNodes);
      keepInStep(page);
    } catch {
      // The button asks again, and says what is wrong.
    }
  }
  form.addEventListener("input", () => {
    // An answer to what stood there before is of no use.
    asked += 1;
    clearTimeout(waits);
    waits = setTimeout(check, 300);
  });
}
