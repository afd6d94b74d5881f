// Names and values in rows: environment variables, whose values stay hidden until asked for.
import { el, icon } from './dom.js';
import { t } from './page.js';

// Fills `box` (data-pairs="env_vars") and returns { value(), add() }; value() is an object.
export function pairs(box, initial = {}) {
  const add = (name = '', value = '') => {
    const secret = el('input', { type: 'password', value, autocomplete: 'off', spellcheck: 'false', 'aria-label': t('workload_settings.value') });
    const shown = el('button', { type: 'button', class: 'button small', 'aria-pressed': 'false', onclick: () => {
      const open = secret.type === 'password';
      secret.type = open ? 'text' : 'password';
      shown.textContent = t(open ? 'workload_settings.hide' : 'workload_settings.show');
      shown.setAttribute('aria-pressed', String(open));
    } }, t('workload_settings.show'));
    const row = el('div', { class: 'pair' },
      el('input', { class: 'mono', value: name, autocomplete: 'off', spellcheck: 'false', placeholder: 'NAME', 'aria-label': t('workload_settings.name') }),
      secret, shown,
      el('button', { type: 'button', class: 'icon-button', 'aria-label': t('workload_settings.remove'), title: t('workload_settings.remove'), onclick: () => {
        row.remove();
        box.dispatchEvent(new Event('input', { bubbles: true }));
      } }, icon('trash')));
    box.append(row);
    return row;
  };
  for (const [name, value] of Object.entries(initial)) add(name, value);
  return {
    add: () => add().querySelector('input').focus(),
    value: () => Object.fromEntries([...box.querySelectorAll('.pair')]
      .map((row) => [...row.querySelectorAll('input')].map((input) => input.value))
      .filter(([name, value]) => name || value)),
  };
}
