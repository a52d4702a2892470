// A terminal in a task. The node keeps the terminal: it sends which rows of text have changed, and is sent keys.
"use strict";
(() => {
  const box = document.querySelector("#terminal");
  if (!box) return;
  const [past, screen, rows, cursor] = [".past", ".screen", ".rows", ".cursor"].map((it) => box.querySelector(it));
  const input = box.querySelector("#typed");
  const state = document.querySelector("#terminal-state");
  const again = document.querySelector("#terminal-again");
  const title = document.title;
  // The node has the same number, and the most of a paste that it takes.
  const PAST_ROWS_MAX = 1000;
  const PASTE_MAX = 100000;
  const SILENCE_MAX_MS = 60000;
  let socket = null;
  let heard = 0;
  let size = [0, 0];

  const send = (message) => socket && socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));

  // What is shown.

  function run([text, classes, colour, background]) {
    if (!classes && !colour && !background) return document.createTextNode(text);
    const span = document.createElement("span");
    span.textContent = text;
    if (classes) span.className = classes;
    if (colour) span.style.color = colour;
    if (background) span.style.backgroundColor = background;
    return span;
  }

  function row(runs) {
    const line = document.createElement("div");
    line.append(...runs.map(run));
    return line;
  }

  const isAtEnd = () => box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  const toEnd = () => { box.scrollTop = box.scrollHeight; };

  function show(update) {
    const follows = isAtEnd();
    if (update.size) rows.replaceChildren(...Array.from({ length: update.size[1] }, () => row([])));
    if (update.forget) past.replaceChildren();
    if (update.past) past.append(...update.past.map(row));
    while (past.childElementCount > PAST_ROWS_MAX) past.firstChild.remove();
    for (const [at, runs] of update.rows || []) rows.children[at].replaceWith(row(runs));
    if (update.cursor) {
      const [column, line, isShown] = update.cursor;
      for (const it of [cursor, input]) {
        it.style.left = `${column}ch`;
        it.style.top = `calc(${line} * var(--row))`;
      }
      cursor.hidden = !isShown;
    }
    if (update.title !== undefined) document.title = update.title ? `${update.title} - ${title}` : title;
    if (update.bell) {
      box.classList.add("bell");
      setTimeout(() => box.classList.remove("bell"), 200);
    }
    if (update.note) state.textContent = update.note;
    if (follows) toEnd();
  }

  // The connection.

  function room() {
    const probe = row([["0".repeat(100), "w"]]);
    rows.append(probe);
    const cell = probe.firstChild.getBoundingClientRect().width / 100;
    const height = probe.getBoundingClientRect().height;
    probe.remove();
    const style = getComputedStyle(box);
    const padding = (one, other) => parseFloat(style[one]) + parseFloat(style[other]);
    const width = box.clientWidth - padding("paddingLeft", "paddingRight");
    const all = box.clientHeight - padding("paddingTop", "paddingBottom");
    return [Math.max(2, Math.floor(width / cell)), Math.max(1, Math.floor(all / height))];
  }

  function fit() {
    const next = room();
    if (String(next) === String(size)) return;
    size = next;
    send({ size });
  }

  function close(why) {
    if (!socket) return;
    const its = socket;
    socket = null;
    its.onclose = its.onmessage = null;
    its.close();
    state.textContent = why;
    cursor.hidden = true;
    again.hidden = false;
    again.focus();
  }

  function open() {
    again.hidden = true;
    state.textContent = "Connecting …";
    past.replaceChildren();
    size = room();
    const place = new URL(`${box.dataset.connect}?width=${size[0]}&height=${size[1]}`, location.href);
    place.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(place);
    heard = Date.now();
    socket.onopen = () => {
      state.textContent = "Connected.";
      fit();
      input.focus();
    };
    socket.onmessage = (event) => {
      heard = Date.now();
      const update = JSON.parse(event.data);
      if (update.end !== undefined) return close(update.end);
      show(update);
      send("seen");
    };
    socket.onclose = () => close("The connection is lost, and the shell with it. Any other node can open a new one.");
  }

  setInterval(() => {
    if (Date.now() - heard > SILENCE_MAX_MS) close("The node has not answered for a minute. The shell ends there.");
  }, 5000);
  window.addEventListener("beforeunload", (event) => socket && event.preventDefault());
  new ResizeObserver(() => socket && fit()).observe(box);
  again.addEventListener("click", open);

  // What is typed.

  // Named keys that are the program's; all others stay the browser's.
  const NAMED = /^(Enter|Escape|Tab|Backspace|Insert|Delete|Home|End|Page(Up|Down)|Arrow(Up|Down|Left|Right)|F([1-9]|10))$/;
  const held = (event) => event.shiftKey + 2 * event.altKey + 4 * event.ctrlKey;

  // What a key does here: leave, copy, up, down; send it; or nothing, so that the browser does what it does with it.
  function meaning(event) {
    const { key, ctrlKey, altKey, shiftKey, metaKey } = event;
    if (event.isComposing || key === "Process" || metaKey || event.getModifierState("AltGraph")) return null;
    if (ctrlKey && shiftKey && !altKey && key.length === 1) return { L: "leave", C: "copy" }[key.toUpperCase()] || null;
    if (shiftKey && !ctrlKey && !altKey && key.startsWith("Page")) return key === "PageUp" ? "up" : "down";
    if (shiftKey && key === "Insert") return null;
    if (NAMED.test(key)) return "send";
    // With Alt a keyboard may write other letters.
    return key.length === 1 && (ctrlKey || (altKey && /[ -~]/.test(key))) ? "send" : null;
  }

  box.addEventListener("keydown", (event) => {
    const what = socket ? meaning(event) : null;
    if (!what) return;
    event.preventDefault();
    if (what === "leave") document.querySelector("#terminal-leave").focus();
    else if (what === "copy") document.execCommand("copy");
    else if (what === "up" || what === "down") box.scrollTop += (what === "up" ? -0.9 : 0.9) * box.clientHeight;
    else {
      send({ key: [event.key, held(event)] });
      toEnd();
    }
  });

  function typed() {
    if (input.value) send({ text: input.value });
    input.value = "";
    toEnd();
  }
  input.addEventListener("input", (event) => event.isComposing || typed());
  input.addEventListener("compositionstart", () => input.classList.add("composes"));
  input.addEventListener("compositionend", () => {
    input.classList.remove("composes");
    typed();
  });
  input.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = event.clipboardData.getData("text/plain");
    if (text.length > PASTE_MAX) state.textContent = `That text is longer than ${PASTE_MAX} characters: use muster job cp.`;
    else if (text) send({ paste: text });
    toEnd();
  });
  // A click leads to the input, unless it marks text. A key that is pressed then goes to the input, too.
  box.addEventListener("mouseup", () => String(document.getSelection()) || input.focus({ preventScroll: true }));
  document.addEventListener("keydown", (event) => {
    const isNowhere = document.activeElement === document.body || document.activeElement === box;
    const copies = (event.ctrlKey && event.shiftKey) || event.metaKey;
    if (!socket || !isNowhere || copies || ["Control", "Shift", "Alt", "Meta"].includes(event.key)) return;
    input.focus({ preventScroll: true });
    box.dispatchEvent(new KeyboardEvent("keydown", event)) || event.preventDefault();
  });

  document.querySelector("#terminal-card").hidden = false;
  open();
})();
