// A cron field that shows the schedule in words and its next times in the chosen zone.
import { el } from './dom.js';
import { locale, page, t } from './page.js';
import { send } from './rest.js';

export function schedule(form, box) {
  const { schedule: field, timezone } = form.elements;
  let timer = 0;
  let asked = 0;

  async function explain() {
    const number = ++asked;
    const query = new URLSearchParams({ schedule: field.value.trim(), timezone: timezone.value.trim() || 'UTC' });
    const answer = await send('GET', `/v1/schedule?${query}`, { headers: { 'Accept-Language': page.language } }).catch(() => null);
    if (!answer || number !== asked) return;
    const found = await answer.json();
    if (answer.ok) box.replaceChildren(...explained(found));
    else box.replaceChildren(el('p', { class: 'field-error' }, (found.details ?? []).map((one) => one.message).join('; ') || found.error));
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(explain, 250);
  }

  field.addEventListener('input', soon);
  timezone.addEventListener('input', soon);
  for (const button of form.querySelectorAll('[data-preset]')) {
    button.addEventListener('click', () => {
      field.value = button.dataset.preset;
      explain();
    });
  }
  explain();
}

function explained({ words, timezone, next }) {
  const shown = new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeStyle: 'short', timeZone: timezone });
  return [
    el('p', {}, el('strong', {}, words)),
    el('p', { class: 'muted small' }, t('trigger.next', { zone: timezone })),
    el('ol', { class: 'times' }, ...next.map((moment) => el('li', {}, shown.format(new Date(moment))))),
  ];
}
