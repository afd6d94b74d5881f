// The editor without CodeMirror: a plain text field with the same methods.
import { el } from './dom.js';

export function createEditor({ parent, label, onChange }) {
  const area = el('textarea', { class: 'plain-editor', spellcheck: 'false', autocomplete: 'off', oninput: () => onChange(area.value) });
  parent.append(area);
  return {
    open(name, text) {
      area.setAttribute('aria-label', `${label} ${name}`);
      area.value = text;
      area.scrollTop = 0;
    },
    text: () => area.value,
    diff() {},
    focus: () => area.focus(),
  };
}
