// SPDX-License-Identifier: Apache-2.0
// A text field for code: CodeMirror where the program was built with it, and else the
// plain field that stands there, in which Tab and Enter indent.

let library = null;
const load = () => (library ??= import("/page/codemirror.js").catch(() => null));

function indentWithin(field, event) {
  const { value, selectionStart: from, selectionEnd: to } = field;
  if (event.key === "Tab" && !event.shiftKey && !field.dataset.leave) {
    event.preventDefault();
    field.setRangeText("    ", from, to, "end");
  } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
    const line = value.slice(value.lastIndexOf("\n", from - 1) + 1, from);
    event.preventDefault();
    field.setRangeText(`\n${line.match(/^[ \t]*/)[0]}${/[:{]\s*$/.test(line) ? "    " : ""}`, from, to, "end");
  }
  field.dataset.leave = event.key === "Escape" ? "1" : "";
}

function plain(field, run) {
  field.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); run(); } else indentWithin(field, e);
  });
  return { get: () => field.value, set: (text) => { field.value = text; }, language: () => {}, focus: () => field.focus() };
}

// FIELD is the text field; RUN is called for Ctrl+Enter.
export async function openEditor(field, run) {
  const found = await load();
  if (!found?.open) return plain(field, run);
  const host = document.createElement("div");
  host.className = "editor";
  host.id = `${field.id}-editor`;
  field.hidden = true;
  field.after(host);
  const label = field.labels?.[0]?.textContent || field.getAttribute("aria-label") || "Code";
  return found.open(host.attachShadow({ mode: "open" }), { text: field.value, label, run });
}
