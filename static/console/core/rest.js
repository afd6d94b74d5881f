// The REST interface, with the session of the console. Paths are relative to the namespace (`functions/hello`) unless they start with a /.
import { page, t } from './page.js';

const KEY_HEADER = 'X-Sless-Console';

export class RestError extends Error {
  // `details` is a list of {field, message}; `status` 0: no answer.
  constructor(message, { status = 0, code = '', details = [], requestId = '' } = {}) {
    super(message);
    Object.assign(this, { status, code, details, requestId });
  }
}

export function restPath(path) {
  return path.startsWith('/') ? `/funcs/-${path}` : `/funcs/-/v1/namespaces/${page.namespace}/${path}`;
}

// The answer, whatever its status. Throws RestError if there is none.
export async function send(method, path, { json, body, headers = {}, signal } = {}) {
  const sent = { ...headers, [KEY_HEADER]: page.key };
  if (json !== undefined) {
    sent['Content-Type'] = 'application/json';
    body = JSON.stringify(json);
  }
  try {
    return await fetch(restPath(path), { method, body, headers: sent, signal, credentials: 'same-origin' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RestError(t('ui.offline'));
  }
}

// The JSON value of a good answer, null for an empty one. Throws RestError.
export async function rest(method, path, options = {}) {
  const answer = await send(method, path, options);
  if (!answer.ok) throw await errorOf(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export async function errorOf(answer) {
  if (answer.status === 401) return new RestError(t('ui.signed_out'), { status: 401 });
  const found = await answer.json().catch(() => ({}));
  const details = Array.isArray(found.details) ? found.details : [];
  return new RestError(found.error ?? `HTTP ${answer.status}`, { status: answer.status, code: found.code, details, requestId: found.request_id });
}

// Follows server-sent events until `signal` aborts or the server ends them; reconnects after a break. `onEvent({event, data, id})`.
// EventSource cannot send the key of the session.
export async function follow(path, onEvent, { signal, onState = () => {} } = {}) {
  let last = '';
  for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
    try {
      const headers = { Accept: 'text/event-stream', ...(last ? { 'Last-Event-ID': last } : {}) };
      const answer = await send('GET', path, { headers, signal });
      if (!answer.ok) throw await errorOf(answer);
      onState('open');
      pause = 500;
      const ended = await readEvents(answer.body, (event) => {
        if (event.id) last = event.id;
        take(onEvent, event);
        return event.event === 'end';
      });
      if (ended) return;
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    }
    onState('broken');
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (signal?.aborted) return;
  }
}

// Do not reconnect because of a mistake in a page's script; report it in the browser's console.
function take(onEvent, event) {
  try {
    onEvent(event);
  } catch (error) {
    reportError(error);
  }
}

// True once `take` has returned true for an event, false when the stream ended before.
async function readEvents(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event && take(event)) {
        reader.cancel();
        return true;
      }
    }
  }
}

function parsed(block) {
  const event = { event: 'message', data: '', id: '' };
  let found = false;
  for (const line of block.split('\n')) {
    const at = line.indexOf(':');
    if (at <= 0) continue;
    const value = line.slice(at + 1).replace(/^ /, '');
    const name = line.slice(0, at);
    if (name === 'data') event.data = found ? `${event.data}\n${value}` : value;
    else if (name === 'event' || name === 'id') event[name] = value;
    found ||= name === 'data';
  }
  return found || event.event !== 'message' ? event : null;
}
