// The list of a namespace: stays current, search and filters. `list_parts.html` draws the same rows on the server: change both.
import '../core/frame.js';
import { sparkline } from '../core/chart.js';
import { badge, el, icon, percent } from '../core/dom.js';
import { afterPaint, page, t, tn } from '../core/page.js';
import { follow, rest } from '../core/rest.js';
import { showTimes } from '../core/time.js';

const base = `/funcs/${page.namespace}`;
const body = document.querySelector('#list tbody');
const filters = document.getElementById('filters');
const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
const known = new Map(); // the items that the stream has sent, as text
const searched = new WeakMap(); // row → its text
const wanted = { q: '', kind: 'all', state: 'all' };
const AT_ONCE = 30;
const PER_FRAME = 60;
let remembering = 0;
let showing = 0;
let complete = false; // the page itself has the first rows only

function keyOf(item) {
  return `${item.kind}/${item.name}`;
}

function chipOf(trigger) {
  const text = (trigger.schedule ?? trigger.queue ?? 'HTTP') + (trigger.enabled ? '' : ` (${t('list.off')})`);
  return el('a', { class: trigger.enabled ? 'chip' : 'chip off', href: `${base}/triggers/${trigger.name}` }, icon(trigger.type), el('span', {}, text));
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
  const message = item.message && item.kind !== 'job' && item.message !== page.idle ? el('span', { class: 'sub clip', title: item.message }, item.message) : null;
  const row = el('tr', { role: 'row', 'data-key': keyOf(item), class: `row-${item.kind}`, 'data-flags': flagsOf(item), 'data-also': [item.display_name, ...item.triggers.map((one) => one.name)].join(' ') },
    el('th', { role: 'rowheader', scope: 'row' }, el('a', { href: own }, item.name), el('span', { class: 'sub' }, sub)),
    el('td', { role: 'cell', class: 'c-phase' }, badge(item.phase, t(`phases.${item.phase}`)), message),
    el('td', { role: 'cell', class: 'c-triggers' }, ...item.triggers.map(chipOf)),
    el('td', { role: 'cell', class: 'c-calls' }, el('span', { class: 'calls' },
      sparkline(item.slots, t('list.chart', { calls: item.calls, errors: item.errors })), el('span', { class: 'number' }, item.calls))),
    el('td', { role: 'cell', class: `c-errors right number${item.errors ? ' bad-text' : ''}` }, item.calls ? percent((item.errors * 100) / item.calls) : '–'),
    el('td', { role: 'cell', class: 'c-last' }, lastOf(item)),
    el('td', { role: 'cell', class: 'c-run' }, el('a', { class: 'icon-button run-button', href: `${own}/run`, 'aria-label': t('list.run_name', { name: item.name }), title: t('list.run') })));
  showTimes(row);
  return row;
}

function flagsOf(item) {
  const failing = item.phase === 'Failed' || item.errors || ['failed', 'timeout', 'dead'].includes(item.last?.status);
  return `${failing ? 'failing ' : ''}${item.calls ? 'active' : ''}`;
}

function isShown(key, row) {
  if (wanted.kind !== 'all' && !key.startsWith(`${wanted.kind}/`)) return false;
  const { flags, also } = row.dataset;
  if (wanted.state === 'idle' ? flags.includes('active') : wanted.state !== 'all' && !flags.includes(wanted.state)) return false;
  if (!wanted.q) return true;
  if (!searched.has(row)) searched.set(row, `${row.textContent} ${also}`.toLowerCase());
  return searched.get(row).includes(wanted.q);
}

// Shows rows below the first screen in later frames, because all of them take longer than one frame.
function applyFilters() {
  let shown = 0;
  const later = [];
  for (const row of body.rows) {
    const fits = isShown(row.dataset.key, row);
    if (fits) shown += 1;
    if (fits && row.hidden && shown > AT_ONCE) later.push(row);
    else if (row.hidden === fits) row.hidden = !fits;
  }
  showLater(later);
  const all = complete ? rows.size : page.data.total;
  const count = shown === rows.size ? tn('list.count', all) : t('list.shown', { shown, all });
  const note = document.getElementById('count');
  if (note.textContent !== count) note.textContent = count;
  note.hidden = all === 0;
  document.getElementById('nothing').hidden = shown > 0 || all === 0;
  document.getElementById('list').hidden = shown === 0;
  document.getElementById('empty').hidden = all > 0;
  document.getElementById('filled').hidden = all === 0;
}

function showLater(later) {
  cancelAnimationFrame(showing);
  if (!later.length) return;
  showing = requestAnimationFrame(() => {
    for (const row of later.splice(0, PER_FRAME)) row.hidden = false;
    showLater(later);
  });
}

// Sorts like the server: functions and services by name, then jobs.
function placeOf(key) {
  const [kind, name] = key.split('/');
  return `${kind === 'job' ? 1 : 0}${name}`;
}

// Puts new rows where they belong; rows that are in order stay untouched.
function arrange() {
  const ordered = [...rows].map(([key, row]) => [placeOf(key), row]).sort(([one], [other]) => (one < other ? -1 : 1));
  let next = body.firstElementChild;
  for (const [, row] of ordered) {
    if (row === next) next = next.nextElementSibling;
    else body.insertBefore(row, next);
  }
}

function take(items) {
  const before = rows.size;
  for (const item of items) {
    const [key, text] = [keyOf(item), JSON.stringify(item)];
    if (known.get(key) === text) continue;
    known.set(key, text);
    const [row, made] = [rows.get(key), rowOf(item)];
    if (!row) rows.set(key, made);
    else if (lookOf(row) !== lookOf(made)) renew(key, row, made);
  }
  if (rows.size > before) arrange();
}

// What can be seen of a row, to leave those of the server alone that are still right.
function lookOf(row) {
  const parts = [...row.querySelectorAll('a, .badge, .tick')].map((part) => ['class', 'href', 'd'].map((name) => part.getAttribute(name)));
  return JSON.stringify([row.dataset, row.textContent.replace(/\s+/g, ''), parts]);
}

// Keeps the keyboard's focus by moving it to the same link of the new row.
function renew(key, row, made) {
  const at = [...row.querySelectorAll('a')].indexOf(document.activeElement);
  row.replaceWith(made);
  rows.set(key, made);
  if (at >= 0) made.querySelectorAll('a')[at]?.focus();
}

function drop(keys) {
  for (const key of keys) {
    rows.get(key)?.remove();
    rows.delete(key);
    known.delete(key);
  }
}

// The whole list, as a stream begins with it.
function takeAll(items) {
  const keys = new Set(items.map(keyOf));
  drop([...rows.keys()].filter((key) => !keys.has(key)));
  take(items);
  complete = true;
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
  clearTimeout(remembering); // browsers refuse to change the address at every key
  remembering = setTimeout(rememberFilters, 300);
});
filters.elements.state.addEventListener('change', (event) => want({ state: event.target.value }));
for (const button of filters.querySelectorAll('[data-kind]')) button.addEventListener('click', () => want({ kind: button.dataset.kind }));
document.getElementById('reset').addEventListener('click', () => want({ q: '', kind: 'all', state: 'all' }));
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.closest('input, textarea, select')) return;
  event.preventDefault();
  filters.elements.q.focus();
});

for (const [name, value] of new URLSearchParams(location.search)) if (name in wanted) wanted[name] = value.toLowerCase();
if (![...filters.querySelectorAll('[data-kind]')].some((button) => button.dataset.kind === wanted.kind)) wanted.kind = 'all';
if (![...filters.elements.state.options].some((option) => option.value === wanted.state)) wanted.state = 'all';
showWanted();
applyFilters();

// Without a stream: the server may have too many of them.
async function readAll() {
  const items = await rest('GET', 'overview').catch(() => null);
  if (!items || complete) return;
  takeAll(items);
  applyFilters();
}

const live = document.getElementById('live');
let begins = true;
afterPaint(() => follow('overview?follow=1', ({ event, data }) => {
  const news = JSON.parse(data);
  if (event === 'gone') drop(news);
  else if (begins) takeAll(news);
  else take(news);
  begins = false;
  applyFilters();
}, {
  onState: (state) => {
    begins = true;
    if (state === 'broken' && !complete) readAll();
    live.textContent = state === 'open' ? t('list.live') : t('list.lost');
    live.classList.toggle('on', state === 'open');
  },
}).catch((error) => {
  live.textContent = error.message;
  live.classList.remove('on');
}));
