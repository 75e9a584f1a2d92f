// SPDX-License-Identifier: Apache-2.0
// CodeMirror as the page wants it. It lives in a shadow root: there its style sheets need
// no permission to be written into the page.
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { c, cpp, java } from "@codemirror/legacy-modes/mode/clike";
import { go } from "@codemirror/legacy-modes/mode/go";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { perl } from "@codemirror/legacy-modes/mode/perl";
import { r } from "@codemirror/legacy-modes/mode/r";
import { ruby } from "@codemirror/legacy-modes/mode/ruby";
import { rust } from "@codemirror/legacy-modes/mode/rust";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const MODES = { c, cpp, "c++": cpp, java, go, lua, perl, r, ruby, rust, bash: shell, sh: shell, zsh: shell };

function modeOf(language) {
  if (/^python/.test(language)) return python();
  if (/^(node|javascript|js|bun|deno)/.test(language)) return javascript();
  if (/^(typescript|ts)/.test(language)) return javascript({ typescript: true });
  const mode = MODES[language.replace(/[-0-9.]+$/, "")];
  return mode ? StreamLanguage.define(mode) : [];
}

// Colours are the page's own, so that they follow light and dark.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName), tags.className], color: "var(--code-name)" },
]);
const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--well)", borderRadius: "8px", border: "1px solid var(--line)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: ".86rem", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: ".6rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--quiet)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--accent-soft)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-matchingBracket": { outline: "1px solid var(--accent)" },
});

export function open(root, { text, label, run }) {
  const mode = new Compartment();
  const act = () => { run(); return true; };
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({ doc: text, extensions: [
      Prec.highest(keymap.of([{ key: "Ctrl-Enter", run: act }, { key: "Mod-Enter", run: act }])),
      lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), highlightActiveLine(),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
      indentUnit.of("    "), syntaxHighlighting(colours), look, mode.of([]),
      EditorView.contentAttributes.of({ "aria-label": label }), EditorView.lineWrapping,
    ] }),
  });
  return {
    get: () => view.state.doc.toString(),
    set: (now) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: now } }),
    language: (name) => view.dispatch({ effects: mode.reconfigure(modeOf(name)) }),
    focus: () => view.focus(),
  };
}
