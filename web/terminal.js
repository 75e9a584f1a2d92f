// SPDX-License-Identifier: Apache-2.0
// A terminal in a session, which is named behind "#". It is a frame of its own, because
// the terminal writes style sheets, which the page around it forbids.
import { post, send, stream } from "/page/api.js";
import { element, fromBase64 } from "/page/dom.js";

const session = `/v1/sessions/${encodeURIComponent(location.hash.slice(1))}`;
const SHELL = "cd /work 2>/dev/null; if command -v bash >/dev/null; then exec bash -i; else exec sh -i; fi";
const LOOK = { background: "#0c1317", foreground: "#e4edf1", cursor: "#2dd4bf", selectionBackground: "#2dd4bf55" };

// Keys go one after the other, those of a moment together.
function keyboard(path) {
  let waiting = "", busy = false;
  return async (keys) => {
    waiting += keys;
    if (busy) return;
    busy = true;
    while (waiting) {
      const now = waiting;
      waiting = "";
      try { await send("POST", path, new TextEncoder().encode(now)); } catch { break; }
    }
    busy = false;
  };
}

function follow(terminal, fit, number) {
  const path = `${session}/exec/${number}`, type = keyboard(`${path}/stdin`);
  terminal.onData(type);
  terminal.onBinary(type);
  terminal.onResize(({ rows, cols }) => post(`${path}/resize`, { rows, columns: cols }).catch(() => {}));
  new ResizeObserver(() => fit.fit()).observe(document.getElementById("screen"));
}

function hear(event, terminal, fit) {
  if (event.event === "start") follow(terminal, fit, event.exec);
  else if (event.event === "stdout" || event.event === "stderr") terminal.write(event.data ?? fromBase64(event.base64));
  else if (event.event === "gap") terminal.write(`\r\n[${event.bytes} bytes were not kept]\r\n`);
  else if (event.event === "error") terminal.write(`\r\n[${event.error?.message}]\r\n`);
}

async function start() {
  const library = await import("/page/xterm.js").catch(() => null);
  const screen = document.getElementById("screen");
  if (!library?.Terminal) {
    screen.replaceWith(element("p", { class: "note" }, "This program was built without its terminal: npm was not there. Build it again with npm installed."));
    return;
  }
  const terminal = new library.Terminal({ cursorBlink: true, fontSize: 13, theme: LOOK, screenReaderMode: true });
  const fit = new library.FitAddon();
  terminal.loadAddon(fit);
  terminal.open(screen);
  fit.fit();
  terminal.focus();
  try {
    await stream(`${session}/exec?stream=ndjson`, { argv: ["sh", "-c", SHELL], env: { TERM: "xterm-256color" }, stdin_live: true,
      rows: terminal.rows, columns: terminal.cols }, (event) => hear(event, terminal, fit));
    terminal.write("\r\n[the shell has ended]\r\n");
  } catch (error) { terminal.write(`\r\n[${error.message}]\r\n`); }
}

start();
