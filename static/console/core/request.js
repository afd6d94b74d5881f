// The HTTP request of the run panel: as fetch() sends it, and as a line for curl.
import { fieldsInto, headersOf } from './events.js';

const TYPES = { json: 'application/json', text: 'text/plain; charset=utf-8' };

// Browsers send no body with these.
export const isBodiless = (method) => ['GET', 'HEAD'].includes(method);

// A random id for one call, by which its record is found, even if the answer cannot be read. crypto.randomUUID() needs https.
export function newRequestId() {
  return [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

// request: {method, url, headers: "Name: value" lines, type, body, files}. Throws Error with a bad header line as its message.
export function fetchOptions(request) {
  const given = headersOf(request.headers);
  const type = TYPES[request.type];
  return { method: request.method, headers: { ...(type ? { 'Content-Type': type } : {}), ...given }, body: bodyOf(request) };
}

function bodyOf({ type, body, files }) {
  switch (type) {
    case 'none': return undefined;
    case 'form': return fieldsInto(new URLSearchParams(), body);
    case 'multipart': {
      const form = fieldsInto(new FormData(), body);
      for (const file of files) form.append('file', file, file.name);
      return form;
    }
    default: return body;
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const filled = (text) => text.split('\n').filter((line) => line.trim());

export function curlLine({ method, url, headers, type, body, files }) {
  const words = ['curl', method === 'HEAD' ? '-I' : '-i', ...(isBodiless(method) ? [] : ['-X', method])];
  const own = filled(headers);
  if (TYPES[type] && !own.some((line) => /^content-type\s*:/i.test(line))) own.unshift(`Content-Type: ${TYPES[type]}`);
  words.push(...own.flatMap((line) => ['-H', quoted(line)]));
  if (TYPES[type]) words.push('--data-binary', quoted(body));
  if (type === 'form') words.push(...filled(body).flatMap((line) => ['--data-urlencode', quoted(line)]));
  if (type === 'multipart') words.push(...filled(body).flatMap((line) => ['--form-string', quoted(line)]), ...[...files].flatMap((file) => ['-F', quoted(`file=@"${file.name}"`)]));
  return [...words, quoted(url)].join(' ');
}
