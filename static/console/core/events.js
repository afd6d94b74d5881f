// Events to try a handler with: examples for each kind of trigger, and the user's own, kept in this browser.

const json = (value) => JSON.stringify(value, null, 2);

export const EXAMPLES = {
  event: [
    { name: 'JSON', body: json({ name: 'Ada' }) },
    { name: 'cron', body: json({ trigger: 'cron', scheduled_time: '2026-01-01T00:00:00Z' }) },
    { name: 'queue', body: json({ body: 'a message', queue: 'orders' }) },
    { name: 'Lambda HTTP v2', body: json({ version: '2.0', routeKey: '$default', rawPath: '/items', rawQueryString: 'page=1', headers: { accept: 'application/json' }, queryStringParameters: { page: '1' }, requestContext: { http: { method: 'GET', path: '/items', sourceIp: '192.0.2.1' } }, isBase64Encoded: false }) },
    { name: 'Lambda HTTP v1', body: json({ httpMethod: 'POST', path: '/items', headers: { 'Content-Type': 'application/json' }, queryStringParameters: { page: '1' }, multiValueHeaders: {}, requestContext: { identity: { sourceIp: '192.0.2.1' } }, body: '{"name":"Ada"}', isBase64Encoded: false }) },
  ],
  http: [
    { name: 'GET', method: 'GET', path: '/?name=Ada', headers: '', type: 'none', body: '' },
    { name: 'JSON', method: 'POST', path: '/', headers: '', type: 'json', body: json({ name: 'Ada' }) },
    { name: 'text', method: 'POST', path: '/', headers: '', type: 'text', body: 'Hello' },
    { name: 'form', method: 'POST', path: '/', headers: '', type: 'form', body: 'name=Ada\ncolour=green' },
    { name: 'form with files', method: 'POST', path: '/', headers: '', type: 'multipart', body: 'name=Ada' },
  ],
};

// Only events are kept in the browser, never a token.
export class SavedEvents {
  constructor(key) {
    this.key = `sless.events.${key}`;
  }

  all() {
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? [];
    } catch {
      return [];
    }
  }

  keep(event) {
    this.write([...this.all().filter((item) => item.name !== event.name || item.mode !== event.mode), event]);
  }

  forget(event) {
    this.write(this.all().filter((item) => item.name !== event.name || item.mode !== event.mode));
  }

  write(events) {
    localStorage.setItem(this.key, JSON.stringify(events));
  }
}

// One name=value per line → URLSearchParams or FormData.
export function fieldsInto(form, text) {
  for (const line of text.split('\n')) {
    const at = line.indexOf('=');
    if (line.trim()) form.append(at < 0 ? line : line.slice(0, at), at < 0 ? '' : line.slice(at + 1));
  }
  return form;
}

// "Name: value" lines → object. Throws Error with the bad line as its message.
export function headersOf(text) {
  const headers = {};
  for (const line of text.split('\n')) {
    if (!line.trim()) continue;
    const at = line.indexOf(':');
    if (at < 1) throw new Error(line);
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}
