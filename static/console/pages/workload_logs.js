// The log as it is written: pause, search, links to the calls.
import { el } from '../core/dom.js';
import '../core/frame.js';
import { t } from '../core/page.js';
import { follow } from '../core/rest.js';
import { lineClock } from '../core/time.js';

const MOST_LINES = 5000;
const root = document.getElementById('logs');
const box = document.getElementById('lines');
const state = document.getElementById('state');
const search = document.getElementById('search');
const pause = document.getElementById('pause');
let waiting = null; // lines that came while paused
let isOpen = false;

function showState() {
  const all = box.childElementCount;
  const shown = search.value.trim() ? box.querySelectorAll('.line:not([hidden])').length : all;
  const found = search.value.trim() ? t('workload_logs.matches', { n: shown, all }) : '';
  const following = isOpen ? t('workload_logs.following') : t('workload_logs.broken');
  state.textContent = [waiting ? t('workload_logs.paused', { n: waiting.length }) : following, found].filter(Boolean).join(' · ');
  box.classList.toggle('blank', !shown);
  box.dataset.blank = t(all ? 'workload_logs.no_match' : 'workload_logs.none');
}

const matches = (text) => text.toLowerCase().includes(search.value.trim().toLowerCase());

function lineOf({ time, stream, text, invocation_id: call }) {
  const moment = lineClock(time);
  return el('div', { class: `line ${stream}`, hidden: !matches(text) },
    call ? el('a', { href: `${root.dataset.own}/calls/${call}`, title: time }, moment) : el('time', { title: time }, moment), ' ', el('span', {}, text));
}

const isAtEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 40;

function show(lines) {
  const atEnd = isAtEnd();
  box.append(...lines.map(lineOf));
  while (box.childElementCount > MOST_LINES) box.firstElementChild.remove();
  if (atEnd) box.scrollTop = box.scrollHeight;
  showState();
}

function take({ event, data }) {
  if (event !== 'message') return;
  const line = JSON.parse(data);
  if (!waiting) show([line]);
  else if (waiting.push(line) > MOST_LINES) waiting.shift();
  showState();
}

pause.addEventListener('click', () => {
  const kept = waiting;
  waiting = kept ? null : [];
  pause.textContent = t(waiting ? 'workload_logs.resume' : 'workload_logs.pause');
  show(kept ?? []);
});
search.addEventListener('input', () => {
  const atEnd = isAtEnd();
  for (const line of box.children) line.hidden = !matches(line.lastElementChild.textContent);
  if (atEnd) box.scrollTop = box.scrollHeight;
  showState();
});
document.getElementById('clear').addEventListener('click', () => {
  box.replaceChildren();
  showState();
});

follow(`${root.dataset.rest}/logs?follow=1&tail=500&format=json`, take, {
  onState(name) {
    isOpen = name === 'open';
    showState();
  },
}).catch((error) => (state.textContent = error.message));
