// Dialogs that ask before an action that cannot be undone.
import { el, icon } from './dom.js';
import { t } from './page.js';

// Resolves to whether the user agreed. `name` must be typed first. `action` runs while the dialog is open, which shows its error.
export function confirmed({ title, text, button, name = '', nameLabel = '', danger = true, action = async () => {} }) {
  return new Promise((resolve) => {
    const note = el('p', { class: 'notice bad', role: 'alert', hidden: true });
    const input = name ? el('input', { id: 'confirm-name', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'confirm-text' }) : null;
    const go = el('button', { class: `button primary${danger ? ' danger' : ''}`, disabled: Boolean(name) }, button);
    input?.addEventListener('input', () => { go.disabled = input.value.trim() !== name; });
    const dialog = el('dialog', { class: 'dialog', 'aria-labelledby': 'confirm-title' },
      el('form', { method: 'dialog', class: 'stack' },
        el('div', { class: 'card-head' }, el('h2', { id: 'confirm-title' }, title),
          el('button', { type: 'button', class: 'icon-button', 'aria-label': t('ui.close'), onclick: () => dialog.close() }, icon('close'))),
        el('p', { id: 'confirm-text' }, text), note,
        input ? el('label', { for: 'confirm-name' }, nameLabel) : null, input,
        el('div', { class: 'dialog-actions' },
          el('button', { type: 'button', class: 'button', onclick: () => dialog.close() }, t('ui.cancel')), go)));
    let agreed = false;
    dialog.querySelector('form').addEventListener('submit', async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        await action();
        agreed = true;
        dialog.close();
      } catch (error) {
        note.textContent = error.message;
        note.hidden = false;
        go.disabled = false;
      }
    });
    dialog.addEventListener('close', () => { dialog.remove(); resolve(agreed); });
    document.body.append(dialog);
    dialog.showModal();
    (input ?? go).focus();
  });
}

// Resolves to a text from the user, null when they leave. `check(text)` returns a mistake, or "".
export function ask({ title, label, value = '', button, check = () => '' }) {
  return new Promise((resolve) => {
    const input = el('input', { id: 'ask-value', value, autocomplete: 'off', spellcheck: 'false' });
    const problem = el('p', { class: 'notice bad', role: 'alert', hidden: true });
    let found = null;
    const dialog = el('dialog', { class: 'dialog', 'aria-labelledby': 'ask-title' },
      el('form', { method: 'dialog', class: 'stack', onsubmit: (event) => {
        event.preventDefault();
        problem.textContent = check(input.value.trim());
        problem.hidden = !problem.textContent;
        if (problem.textContent) return;
        found = input.value.trim();
        dialog.close();
      } },
      el('h2', { id: 'ask-title' }, title), el('label', { for: 'ask-value' }, label), input, problem,
      el('div', { class: 'dialog-actions' },
        el('button', { type: 'button', class: 'button', onclick: () => dialog.close() }, t('ui.cancel')),
        el('button', { class: 'button primary' }, button ?? t('ui.ok')))));
    dialog.addEventListener('close', () => { dialog.remove(); resolve(found); });
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}
