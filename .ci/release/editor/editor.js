// CodeMirror as the console uses it. Mounted in a shadow root: there its styles are constructed style sheets, which the console's
// Content-Security-Policy allows, while <style> elements are refused.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { go } from "@codemirror/lang-go";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const LANGUAGES = { go, js: javascript, cjs: javascript, mjs: javascript, json, py: python };

// Colours are the console's custom properties, which cross into a shadow root: they follow light and dark by themselves.
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.moduleKeyword, tags.controlKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], color: "var(--code-function)" },
  { tag: [tags.typeName, tags.className, tags.propertyName], color: "var(--code-name)" },
  { tag: tags.invalid, color: "var(--code-invalid)" },
]);

const THEME = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", height: "100%", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--code-line)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection": { backgroundColor: "var(--code-selection) !important" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
});

// The browser replaces a selection with markup that has style attributes, which the policy refuses: done here as plain text.
const REPLACE = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || event.isComposing || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

function languageOf(name) {
  const make = LANGUAGES[name.slice(name.lastIndexOf(".") + 1)];
  return make ? make() : [];
}

function setUp({ name, label, readOnly }) {
  return [
    lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightSelectionMatches(),
    keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
    indentUnit.of(name.endsWith(".py") ? "    " : name.endsWith(".go") ? "\t" : "  "),
    languageOf(name), syntaxHighlighting(COLOURS), THEME, REPLACE,
    EditorView.contentAttributes.of({ "aria-label": label }),
    EditorState.readOnly.of(readOnly),
  ];
}

/**
 * An editor inside `parent`. Escape, then Tab, leaves it by keyboard.
 * `onChange(text)` runs after each change by the user. Returns { open(name, text), text(), diff(before | null), focus() }.
 */
export function createEditor({ parent, label, readOnly = false, onChange = () => {} }) {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const merge = new Compartment();
  const states = new Map();
  let current = "";
  const listener = EditorView.updateListener.of((update) => {
    if (update.docChanged) onChange(view.state.doc.toString());
  });
  const view = new EditorView({ root, parent: root, state: stateOf("", "") });

  function stateOf(name, text) {
    return EditorState.create({ doc: text, extensions: [setUp({ name, label: `${label} ${name}`, readOnly }), merge.of([]), listener] });
  }

  return {
    /** Shows a file; each keeps its own undo history until its text is replaced from outside. */
    open(name, text) {
      if (current) states.set(current, view.state);
      const kept = states.get(name);
      view.setState(kept && kept.doc.toString() === text ? kept : stateOf(name, text));
      current = name;
    },
    text: () => view.state.doc.toString(),
    /** Marks what differs from `before`, line by line; null ends that. */
    diff(before) {
      const extension = before === null ? [] : unifiedMergeView({ original: before, mergeControls: false });
      view.dispatch({ effects: merge.reconfigure(extension) });
    },
    focus: () => view.focus(),
  };
}
