// Runs a function, service or job: an event, an HTTP request, an asynchronous call or a job's run, with the log lines of that call.
import { showAnswer, showRecord } from '../core/answer.js';
import { ask } from '../core/dialog.js';
import { badge, el } from '../core/dom.js';
import { EXAMPLES, SavedEvents } from '../core/events.js';
import { toast } from '../core/frame.js';
import { page, t } from '../core/page.js';
import { curlLine, fetchOptions, isBodiless, newRequestId } from '../core/request.js';
import { errorOf, rest, send } from '../core/rest.js';

const ID = 'X-Request-Id';
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

function typeOf() {
  return isBodiless(part('method').value) ? 'none' : part('body-type').value;
}

function showBody() {
  const type = mode === 'http' ? typeOf() : 'json';
  if (part('body-type')) part('body-type').disabled = isBodiless(part('method').value);
  if (part('no-body')) part('no-body').hidden = !isBodiless(part('method').value);
  part('upload') && (part('upload').hidden = type !== 'multipart');
  part('body').hidden = part('body-label').hidden = type === 'none';
  const labels = { json: 'workload_run.event_json', form: 'workload_run.form_fields', multipart: 'workload_run.form_fields' };
  part('body-label').textContent = t(labels[type] ?? 'workload_run.body');
  if (mode === 'http' && part('curl')) part('curl').textContent = curlLine(request());
}

function target() {
  const wanted = part('path').value.trim();
  return url + (wanted.startsWith('?') || wanted.startsWith('/') ? wanted.replace(/^\/(?=\?|$)/, '') : `/${wanted}`);
}

function request() {
  const fields = Object.fromEntries(['method', 'headers', 'body'].map((id) => [id, part(id).value]));
  return { ...fields, url: target(), type: typeOf(), files: part('body-files').files };
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

async function callEvent(id, signal) {
  const headers = { 'Content-Type': 'application/json', [ID]: id, ...(part('async')?.checked ? { Prefer: 'respond-async' } : {}) };
  return send('POST', `${path}/invoke`, { body: checkedEvent(), headers, signal });
}

async function callHttp(id, signal) {
  let options;
  try {
    options = fetchOptions(request());
  } catch (error) {
    throw new Problem(t('workload_run.bad_header', { line: error.message }));
  }
  if (new URL(url, location.href).origin !== location.origin) throw new Problem(t('workload_run.other_host'));
  return fetch(target(), { ...options, headers: { [ID]: id, ...options.headers }, signal, credentials: 'omit', redirect: 'manual' });
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

async function runCall(id, signal) {
  const began = performance.now();
  const answer = await (mode === 'http' ? callHttp(id, signal) : callEvent(id, signal));
  if (answer.status === 401 && mode === 'event') throw await errorOf(answer);
  await showAnswer(answer, began, { status: part('status'), body: part('answer') });
  const accepted = answer.status === 202 ? answer.headers.get('Location')?.split('/').pop() : null;
  if (accepted) part('answer').prepend(el('p', {}, t('workload_run.accepted')));
  const used = accepted ?? answer.headers.get(ID) ?? id;
  const call = await showRecord(path, used, own, part('call-log'), { signal, whileRunning: Boolean(accepted) });
  if (answer.type === 'opaqueredirect' && call) part('status').replaceChildren(badge(call.status, String(call.http_status)));
}

async function run() {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  const id = newRequestId();
  part('send').disabled = true;
  part('stop').hidden = false;
  part('status').textContent = t('workload_run.running');
  part('answer').replaceChildren();
  part('call-log').replaceChildren();
  let failure = null;
  try {
    await (kind === 'job' ? runJob(mine.signal) : runCall(id, mine.signal));
  } catch (error) {
    failure = error;
  }
  if (running !== mine) return; // a newer call has started
  part('send').disabled = false;
  part('stop').hidden = true;
  if (failure) await showFailure(failure, id);
}

// A stopped call has a record, too.
async function showFailure(error, id) {
  if (error.name !== 'AbortError') {
    part('answer').replaceChildren(el('p', { class: 'notice bad' }, error instanceof TypeError ? t('ui.offline') : error.message));
    part('status').textContent = '';
    return;
  }
  part('status').textContent = t('workload_run.stopped');
  running = new AbortController();
  if (kind !== 'job') await showRecord(path, id, own, part('call-log'), { signal: running.signal });
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
  const label = await ask({ title: t('workload_run.keep'), label: t('workload_run.keep_name'), check: (wanted) => (wanted ? '' : t('workload_run.name_missing')) });
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

// Repeats a call with what the server stored of it: method and path, but neither query nor body.
async function takeFrom(id) {
  const call = await rest('GET', `${path}/invocations/${encodeURIComponent(id)}`).catch(() => null);
  const base = url && new URL(url, location.href).pathname;
  if (call?.method && url && call.trigger === 'http') {
    mode = 'http';
    showMode();
    part('method').value = call.method;
    part('path').value = call.path.startsWith(base) ? call.path.slice(base.length) || '/' : call.path;
    showBody();
  }
  toast(t('workload_run.reused'));
}
const from = new URLSearchParams(location.search).get('from');
if (from) takeFrom(from);
