// The list of a namespace: stays current, search and filters. `list_parts.html` draws the same rows on the server: change both.
import '../core/frame.js';
import { sparkline } from '../core/chart.js';
import { badge, el, icon } from '../core/dom.js';
import { page, t, tn } from '../core/page.js';
import { follow } from '../core/rest.js';
import { showTimes } from '../core/time.js';

const base = `/funcs/${page.namespace}`;
const body = document.querySelector('#list tbody');
const filters = document.getElementById('filters');
const known = new Map(page.data.items.map((item) => [keyOf(item), item]));
const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
const wanted = { q: '', kind: 'all', state: 'all' };

function keyOf(item) {
  return `${item.kind}/${item.name}`;
}

function chipOf(trigger) {
  const text = (trigger.schedule ?? trigger.queue ?? 'HTTP') + (trigger.enabled ? '' : ` (${t('list.off')})`);
  return el('a', { class: trigger.enabled ? 'chip' : 'chip off', href: `${base}/triggers/${trigger.name}` }, icon(trigger.type), el('span', {}, text));
}

function percent(share) {
  return `${new Intl.NumberFormat('en', { maximumSignificantDigits: 2, useGrouping: false }).format(share)}\u00a0%`;
}

function lastOf(item) {
  if (!item.last) return el('span', { class: 'muted' }, t('list.no_calls'));
  return [
    el('span', { class: `status status-${item.last.status}` }, t(`statuses.${item.last.status}`)),
    el('time', { class: 'sub', datetime: item.last.started_at, 'data-ago': true }),
  ];
}

function rowOf(item) {
  const own = `${base}/${item.kind}s/${item.name}`;
  const version = item.active_version ? t('list.version', { n: item.active_version }) : t('list.no_version');
  const sub = [t(`kinds.${item.kind}`), item.runtime, version].filter(Boolean).join(' · ');
  const message = item.message && item.kind !== 'job' ? el('span', { class: 'sub clip', title: item.message }, item.message) : null;
  const row = el('tr', { 'data-key': keyOf(item), class: `row-${item.kind}` },
    el('th', { scope: 'row' }, el('a', { href: own }, item.name), el('span', { class: 'sub' }, sub)),
    el('td', { class: 'c-phase' }, badge(item.phase, t(`phases.${item.phase}`)), message),
    el('td', { class: 'c-triggers' }, ...item.triggers.map(chipOf)),
    el('td', { class: 'c-calls' }, el('span', { class: 'calls' },
      sparkline(item.slots, t('list.chart', { calls: item.calls, errors: item.errors })), el('span', { class: 'number' }, item.calls))),
    el('td', { class: `c-errors right number${item.errors ? ' bad-text' : ''}` }, item.calls ? percent((item.errors * 100) / item.calls) : '–'),
    el('td', { class: 'c-last' }, lastOf(item)),
    el('td', { class: 'c-run' }, el('a', { class: 'icon-button', href: `${own}/run`, 'aria-label': t('list.run_name', { name: item.name }), title: t('list.run') }, icon('play'))));
  showTimes(row);
  return row;
}

function isShown(item) {
  if (wanted.kind !== 'all' && item.kind !== wanted.kind) return false;
  if (wanted.state === 'failing' && !(item.phase === 'Failed' || item.errors || ['failed', 'timeout', 'dead'].includes(item.last?.status))) return false;
  if (wanted.state === 'active' && !item.calls) return false;
  if (wanted.state === 'idle' && item.calls) return false;
  const text = [item.name, item.display_name, item.runtime, item.message, ...item.triggers.flatMap((one) => [one.name, one.schedule, one.queue])];
  return !wanted.q || text.some((part) => part?.toLowerCase().includes(wanted.q));
}

function applyFilters() {
  let shown = 0;
  for (const [key, row] of rows) {
    const fits = isShown(known.get(key));
    if (row.hidden === fits) row.hidden = !fits;
    if (fits) shown += 1;
  }
  const count = shown === known.size ? tn('list.count', known.size) : t('list.shown', { shown, all: known.size });
  const note = document.getElementById('count');
  if (note && note.textContent !== count) note.textContent = count;
  document.getElementById('nothing').hidden = shown > 0 || known.size === 0;
  document.getElementById('list').hidden = shown === 0;
  document.getElementById('empty').hidden = known.size > 0;
  document.getElementById('filled').hidden = known.size === 0;
}

// Sorts like the server: functions and services by name, then jobs.
function placeOf(item) {
  const group = (one) => (one.kind === 'job' ? 1 : 0);
  for (const [key, row] of rows) {
    const other = known.get(key);
    if (group(other) > group(item) || (group(other) === group(item) && other.name > item.name)) return row;
  }
  return null;
}

function insertRow(item) {
  const before = placeOf(item);
  const row = rowOf(item);
  body.insertBefore(row, before);
  const ordered = [...body.rows].map((one) => [one.dataset.key, one]);
  rows.clear();
  for (const [key, one] of ordered) rows.set(key, one);
}

function take(items) {
  for (const item of items) {
    const key = keyOf(item);
    if (JSON.stringify(known.get(key)) === JSON.stringify(item)) continue;
    known.set(key, item);
    const row = rows.get(key);
    if (!row) insertRow(item);
    else if (row.contains(document.activeElement)) refill(row, rowOf(item));
    else {
      const made = rowOf(item);
      row.replaceWith(made);
      rows.set(key, made);
    }
  }
}

// Keeps the keyboard's focus by moving it to the same link of the new row.
function refill(row, made) {
  const at = [...row.querySelectorAll('a')].indexOf(document.activeElement);
  row.replaceChildren(...made.childNodes);
  row.querySelectorAll('a')[at]?.focus();
}

function drop(keys) {
  for (const key of keys) {
    rows.get(key)?.remove();
    rows.delete(key);
    known.delete(key);
  }
}

function rememberFilters() {
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value && value !== 'all'));
  history.replaceState(null, '', query.size ? `?${query}` : location.pathname);
}

function showWanted() {
  filters.elements.q.value = wanted.q;
  filters.elements.state.value = wanted.state;
  for (const button of filters.querySelectorAll('[data-kind]')) button.setAttribute('aria-pressed', String(button.dataset.kind === wanted.kind));
}

function want(changes) {
  Object.assign(wanted, changes);
  showWanted();
  applyFilters();
  rememberFilters();
}

filters.addEventListener('submit', (event) => event.preventDefault());
filters.elements.q.addEventListener('input', (event) => {
  wanted.q = event.target.value.trim().toLowerCase();
  applyFilters();
  rememberFilters();
});
filters.elements.state.addEventListener('change', (event) => want({ state: event.target.value }));
for (const button of filters.querySelectorAll('[data-kind]')) button.addEventListener('click', () => want({ kind: button.dataset.kind }));
document.getElementById('reset').addEventListener('click', () => want({ q: '', kind: 'all', state: 'all' }));
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.closest('input, textarea, select')) return;
  event.preventDefault();
  filters.elements.q.focus();
});

for (const [name, value] of new URLSearchParams(location.search)) if (name in wanted) wanted[name] = value;
showWanted();
if (known.size) applyFilters();

const live = document.getElementById('live');
follow('overview?follow=1', ({ event, data }) => {
  if (event === 'items') {
    const items = JSON.parse(data);
    take(items);
  } else if (event === 'gone') drop(JSON.parse(data));
  applyFilters();
}, {
  onState: (state) => {
    live.textContent = state === 'open' ? t('list.live') : t('list.lost');
    live.classList.toggle('on', state === 'open');
  },
}).catch((error) => {
  live.textContent = error.message;
  live.classList.remove('on');
});
