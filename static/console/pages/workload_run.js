// Runs a function, service or job: an event, an HTTP request, an asynchronous call or a job's run, with the log lines of that call.
import { showAnswer, showRecord } from '../core/answer.js';
import { ask } from '../core/dialog.js';
import { badge, el } from '../core/dom.js';
import { EXAMPLES, fieldsInto, headersOf, SavedEvents } from '../core/events.js';
import { toast } from '../core/frame.js';
import { page, t } from '../core/page.js';
import { errorOf, rest, send } from '../core/rest.js';

const root = document.getElementById('run');
const { rest: path, kind, name, url, own } = root.dataset;
const part = (id) => document.getElementById(id);
const events = new SavedEvents(`${page.namespace}.${kind}.${name}`);
const examples = part('example');
let mode = 'event';
let running = null;

class Problem extends Error {}

// ---- the request

function showMode() {
  for (const button of root.querySelectorAll('[data-mode]')) button.setAttribute('aria-pressed', String(button.dataset.mode === mode));
  for (const item of root.querySelectorAll('[data-for]')) item.hidden = item.dataset.for !== mode;
  showExamples();
}

function showExamples(wanted = '') {
  const saved = events.all().filter((item) => item.mode === mode);
  const group = (label, items, prefix) => el('optgroup', { label }, items.map((item, index) => new Option(item.name, `${prefix}${index}`)));
  examples.replaceChildren(...(saved.length ? [group(t('workload_run.group_saved'), saved, 's')] : []), group(t('workload_run.group_examples'), EXAMPLES[mode], 'e'));
  const kept = saved.findIndex((item) => item.name === wanted);
  if (kept >= 0) examples.value = `s${kept}`;
  fill();
}

function chosen() {
  const index = Number(examples.value.slice(1));
  return examples.value.startsWith('s') ? events.all().filter((item) => item.mode === mode)[index] : EXAMPLES[mode][index];
}

function fill() {
  const item = chosen();
  part('forget').hidden = !examples.value.startsWith('s');
  part('body').value = item.body;
  if (mode === 'http') {
    part('method').value = item.method;
    part('path').value = item.path;
    part('headers').value = item.headers;
    part('body-type').value = item.type;
  }
  showBody();
}

function showBody() {
  const type = mode === 'http' ? part('body-type').value : 'json';
  part('upload') && (part('upload').hidden = type !== 'multipart');
  part('body').hidden = part('body-label').hidden = type === 'none';
  const labels = { json: 'workload_run.event_json', form: 'workload_run.form_fields', multipart: 'workload_run.form_fields' };
  part('body-label').textContent = t(labels[type] ?? 'workload_run.body');
  if (mode === 'http' && part('curl')) part('curl').textContent = curlLine();
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curlLine() {
  const type = part('body-type').value;
  const words = ['curl', '-i', '-X', part('method').value, ...part('headers').value.split('\n').filter((line) => line.trim()).flatMap((line) => ['-H', quoted(line)])];
  if (type === 'json') words.push('-H', quoted('Content-Type: application/json'));
  if (type === 'json' || type === 'text') words.push('--data-binary', quoted(part('body').value));
  const fields = part('body').value.split('\n').filter((line) => line.trim());
  if (type === 'form') words.push(...fields.flatMap((line) => ['--data-urlencode', quoted(line)]));
  if (type === 'multipart') words.push(...fields.flatMap((line) => ['-F', quoted(line)]));
  return [...words, quoted(target())].join(' ');
}

function target() {
  const wanted = part('path').value.trim();
  return url + (wanted.startsWith('?') || wanted.startsWith('/') ? wanted.replace(/^\/(?=\?|$)/, '') : `/${wanted}`);
}

function checkedEvent() {
  const text = part('body').value.trim() || 'null';
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Problem(t('workload_run.bad_json', { error: error.message }));
  }
  return text;
}

// ---- running it

async function callEvent(signal) {
  const headers = { 'Content-Type': 'application/json', ...(part('async')?.checked ? { Prefer: 'respond-async' } : {}) };
  return send('POST', `${path}/invoke`, { body: checkedEvent(), headers, signal });
}

async function callHttp(signal) {
  let headers;
  try {
    headers = headersOf(part('headers').value);
  } catch (error) {
    throw new Problem(t('workload_run.bad_header', { line: error.message }));
  }
  if (new URL(url, location.href).origin !== location.origin) throw new Problem(t('workload_run.other_host'));
  return fetch(target(), { method: part('method').value, headers: { ...typeHeader(headers), ...headers }, body: httpBody(), signal, credentials: 'omit', redirect: 'manual' });
}

function typeHeader() {
  return { json: { 'Content-Type': 'application/json' }, text: { 'Content-Type': 'text/plain; charset=utf-8' } }[part('body-type').value] ?? {};
}

function httpBody() {
  const text = part('body').value;
  if (['GET', 'HEAD'].includes(part('method').value)) return undefined;
  switch (part('body-type').value) {
    case 'none': return undefined;
    case 'form': return fieldsInto(new URLSearchParams(), text);
    case 'multipart': {
      const form = fieldsInto(new FormData(), text);
      for (const file of part('body-files').files) form.append('file', file, file.name);
      return form;
    }
    default: return text;
  }
}

async function runJob(signal) {
  const next = Number(root.dataset.runId) + 1;
  const job = await rest('PATCH', path, { json: { event_json: checkedEvent(), run_id: next }, signal });
  root.dataset.runId = next;
  for (let found = job; ; found = await rest('GET', path, { signal })) {
    part('status').replaceChildren(badge(found.phase, t(`phases.${found.phase}`)));
    if (['Succeeded', 'Failed'].includes(found.phase) && found.run_id === next) {
      part('answer').replaceChildren(el('pre', { class: 'log answer', tabindex: 0 }, found.result ?? found.message));
      if (found.run_name) await showRecord(path, found.run_name, own, part('call-log'), { signal });
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

async function runCall(signal) {
  const began = performance.now();
  const answer = await (mode === 'http' ? callHttp(signal) : callEvent(signal));
  const durationMs = performance.now() - began;
  const accepted = answer.status === 202 ? answer.headers.get('Location') : null;
  if (answer.status === 401 && mode === 'event') throw await errorOf(answer);
  await showAnswer(answer, durationMs, { status: part('status'), body: part('answer') });
  const id = accepted ? accepted.split('/').pop() : answer.headers.get('X-Request-Id');
  if (accepted) part('answer').prepend(el('p', {}, t('workload_run.accepted')));
  if (id) await showRecord(path, id, own, part('call-log'), { signal, whileRunning: Boolean(accepted) });
}

async function run() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  part('send').disabled = true;
  part('stop').hidden = false;
  part('status').textContent = t('workload_run.running');
  part('answer').replaceChildren();
  part('call-log').replaceChildren();
  try {
    await (kind === 'job' ? runJob(signal) : runCall(signal));
  } catch (error) {
    if (error.name !== 'AbortError') part('answer').replaceChildren(el('p', { class: 'notice bad' }, error.message));
    part('status').textContent = '';
  } finally {
    part('send').disabled = false;
    part('stop').hidden = true;
  }
}

// ---- what the user presses

part('send').addEventListener('click', run);
part('stop').addEventListener('click', () => running?.abort());
root.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
});
for (const button of root.querySelectorAll('[data-mode]')) {
  button.addEventListener('click', () => {
    mode = button.dataset.mode;
    showMode();
  });
}
examples.addEventListener('change', fill);
root.addEventListener('input', showBody);
part('keep').addEventListener('click', async () => {
  const label = await ask({ title: t('workload_run.keep'), label: t('workload_run.keep_name') });
  if (!label) return;
  const extra = mode === 'http' ? { method: part('method').value, path: part('path').value, headers: part('headers').value, type: part('body-type').value } : {};
  events.keep({ name: label, mode, body: part('body').value, ...extra });
  showExamples(label);
});
part('forget').addEventListener('click', () => {
  events.forget(chosen());
  showExamples();
});
showMode();
if (kind === 'job' && root.dataset.event) part('body').value = root.dataset.event;
if (new URLSearchParams(location.search).has('from')) toast(t('workload_run.reused'));
