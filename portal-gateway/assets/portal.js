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
    String(document.getSelection());

  const opened = (root) => [...root.querySelectorAll("details")].map((it) => it.open);

  function show(text) {
    const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!next) return;
    opened(main).forEach((open, at) => {
      const it = next.querySelectorAll("details")[at];
      if (it) it.open = open;
    });
    const log = main.querySelector("pre.log");
    const follows = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
    const top = log ? log.scrollTop : 0;
    main.replaceChildren(...next.childNodes);
    const now = main.querySelector("pre.log");
    if (now) now.scrollTop = follows ? now.scrollHeight : top;
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

  const log = main.querySelector("pre.log");
  if (log) log.scrollTop = log.scrollHeight;
  setTimeout(refresh, pause);
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
