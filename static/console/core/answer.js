// Shows the answer of a call: status, time, headers, body as JSON, image, text or bytes; then its log lines.
import { badge, bytes, el, milliseconds } from './dom.js';
import { saveAs } from './files.js';
import { t } from './page.js';
import { rest } from './rest.js';

const SHOWN_CHARS = 200_000;
const SHOWN_BYTES = 512;
const TRIES = 12;

export async function showAnswer(answer, durationMs, { status, body }) {
  const good = answer.status < 400;
  status.replaceChildren(badge(good ? 'succeeded' : 'failed', String(answer.status)), ` ${milliseconds(durationMs)}`);
  const data = new Uint8Array(await answer.arrayBuffer());
  const type = answer.headers.get('content-type') ?? '';
  const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  body.replaceChildren(bodyOf(data, type), el('details', {}, el('summary', {}, t('workload_run.headers_shown')), el('pre', { class: 'log', tabindex: 0 }, headers)));
}

function bodyOf(data, type) {
  if (!data.length) return el('p', { class: 'muted' }, t('workload_run.empty_body'));
  if (type.startsWith('image/')) {
    const image = el('img', { class: 'answer-image', alt: type });
    image.src = URL.createObjectURL(new Blob([data], { type }));
    return image;
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
    return el('pre', { class: 'log answer', tabindex: 0 }, pretty(text, type).slice(0, SHOWN_CHARS));
  } catch {
    return bytesOf(data, type);
  }
}

function pretty(text, type) {
  if (!/json/.test(type)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function bytesOf(data, type) {
  const rows = [];
  for (let at = 0; at < Math.min(data.length, SHOWN_BYTES); at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(48);
    rows.push(`${at.toString(16).padStart(6, '0')}  ${hex} ${row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('')}`);
  }
  return el('div', {},
    el('p', {}, t('workload_run.bytes', { size: bytes(data.length), type: type || 'application/octet-stream' }), ' ',
      el('button', { type: 'button', class: 'button small', onclick: () => saveAs(new Blob([data], { type }), 'answer') }, t('workload_run.save_body'))),
    el('pre', { class: 'log', tabindex: 0 }, rows.join('\n')));
}

// The record of the call with its log lines, once it is written (within a second), and again while the call runs.
export async function showRecord(path, id, own, parent, { signal, whileRunning = false } = {}) {
  for (let tries = 0; tries < TRIES || whileRunning; tries += 1) {
    if (signal?.aborted) return null;
    const call = await found(path, id, signal).catch(() => null);
    const hasEnded = call && !['queued', 'running'].includes(call.status);
    if (call) parent.replaceChildren(...recordOf(call, own));
    if (hasEnded && (call.logs.length || tries > 2)) return call;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return null;
}

// Uses the list, because a record that is not written yet would be a 404, which browsers report as an error.
async function found(path, id, signal) {
  const latest = await rest('GET', `${path}/invocations?limit=50`, { signal });
  const call = latest.find((item) => item.request_id === id || item.id === id);
  return call ? rest('GET', `${path}/invocations/${call.id}`, { signal }) : null;
}

function recordOf(call, own) {
  const lines = call.logs.map((line) => el('span', { class: line.stream }, `${line.time.slice(11, 23)} ${line.text}\n`));
  return [
    el('div', { class: 'card-head' }, el('h3', {}, t('workload_run.log')), el('span', {},
      badge(call.status, t(`statuses.${call.status}`)), ' ', call.cold ? el('span', { class: 'tag' }, t('workload_run.cold')) : null, ' ',
      el('a', { href: `${own}/calls/${call.id}` }, t('workload_run.details')))),
    lines.length ? el('pre', { class: 'log', tabindex: 0 }, ...lines) : el('p', { class: 'muted' }, t('workload_run.no_log')),
  ];
}
