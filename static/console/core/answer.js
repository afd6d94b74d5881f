// Shows the answer of a call: status, time, headers, body as JSON, image, text or bytes; then its log lines.
import { badge, bytes, el, milliseconds } from './dom.js';
import { saveAs } from './files.js';
import { t } from './page.js';
import { rest } from './rest.js';
import { lineClock } from './time.js';

const SHOWN_CHARS = 200_000;
const SHOWN_BYTES = 512;
const TRIES = 12;
const IS_TEXT = /^text\/|json|xml(?!.*image)|javascript/;

// `began` is when the request was sent. Shows a text while it arrives, and keeps what has arrived if the reader stops the call.
export async function showAnswer(answer, began, { status, body }) {
  if (answer.type === 'opaqueredirect') {
    body.replaceChildren(el('p', {}, t('workload_run.redirect')));
    return;
  }
  const shownStatus = badge(answer.status < 400 ? 'succeeded' : 'failed', String(answer.status));
  const showTime = () => status.replaceChildren(shownStatus, ` ${milliseconds(performance.now() - began)}`);
  showTime();
  const type = answer.headers.get('content-type') ?? '';
  const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  const shownHeaders = el('details', {}, el('summary', {}, t('workload_run.headers_shown')), el('pre', { class: 'log', tabindex: 0 }, headers));
  const growing = el('pre', { class: 'log answer', tabindex: 0, hidden: true });
  body.replaceChildren(growing, shownHeaders);
  const data = await received(answer, IS_TEXT.test(type) ? growing : null);
  showTime();
  growing.replaceWith(...bodyOf(data, type));
}

// Returns the whole body, and appends its text to `growing` as it arrives.
async function received(answer, growing) {
  const chunks = [];
  const decoder = new TextDecoder();
  if (!answer.body) return new Uint8Array();
  for (const reader = answer.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(chunks).arrayBuffer());
    chunks.push(value);
    if (!growing || growing.textContent.length > SHOWN_CHARS) continue;
    growing.hidden = false;
    growing.append(decoder.decode(value, { stream: true }));
  }
}

function bodyOf(data, type) {
  if (!data.length) return [el('p', { class: 'muted' }, t('workload_run.empty_body'))];
  const kind = type.split(';')[0].trim() || 'application/octet-stream';
  const head = el('p', { class: 'answer-head' }, t('workload_run.bytes', { size: bytes(data.length), type: kind }), ' ',
    el('button', { type: 'button', class: 'button small', onclick: () => saveAs(new Blob([data], { type }), nameOf(kind)) }, t('workload_run.save_body')));
  return [head, ...(kind.startsWith('image/') ? [imageOf(data, kind)] : textOf(data, kind))];
}

// Shows data that is not an image, whatever its type says, as text or bytes.
function imageOf(data, type) {
  const image = el('img', { class: 'answer-image', alt: type, onerror: () => image.replaceWith(el('p', {}, t('workload_run.no_image')), ...textOf(data, type)) });
  image.src = URL.createObjectURL(new Blob([data], { type }));
  return image;
}

function textOf(data, type) {
  try {
    const text = pretty(new TextDecoder('utf-8', { fatal: true }).decode(data), type);
    const shown = el('pre', { class: 'log answer', tabindex: 0 }, text.slice(0, SHOWN_CHARS));
    return text.length > SHOWN_CHARS ? [shown, el('p', { class: 'muted' }, t('workload_run.cut', { n: SHOWN_CHARS, all: text.length }))] : [shown];
  } catch {
    return bytesOf(data);
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

function bytesOf(data) {
  const rows = [];
  for (let at = 0; at < Math.min(data.length, SHOWN_BYTES); at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(48);
    rows.push(`${at.toString(16).padStart(6, '0')}  ${hex} ${row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('')}`);
  }
  if (data.length > SHOWN_BYTES) rows.push('…');
  return [el('pre', { class: 'log', tabindex: 0 }, rows.join('\n'))];
}

function nameOf(type) {
  const ends = { 'text/plain': 'txt', 'image/jpeg': 'jpg', 'image/svg+xml': 'svg', 'application/octet-stream': 'bin' };
  return `answer.${ends[type] ?? (/json/.test(type) ? 'json' : type.split('/').pop().replace(/\W.*/, ''))}`;
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
  const lines = call.logs.map((line) => el('span', { class: line.stream }, `${lineClock(line.time)} ${line.text}\n`));
  return [
    el('div', { class: 'card-head' }, el('h3', {}, t('workload_run.log')), el('span', {},
      badge(call.status, t(`statuses.${call.status}`)), ' ', call.cold ? el('span', { class: 'tag' }, t('workload_run.cold')) : null, ' ',
      el('a', { href: `${own}/calls/${call.id}` }, t('workload_run.details')))),
    lines.length ? el('pre', { class: 'log', tabindex: 0 }, ...lines) : el('p', { class: 'muted' }, t('workload_run.no_log')),
  ];
}
