// Parses the fields of queries, forms and multipart bodies.

const CRLF = Buffer.from('\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');

/** Sets own property `name`, even if it is `__proto__`. */
function put(object, name, value) {
  if (name === '__proto__') Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  else object[name] = value;
}

/** `{name: last value}` of [name, value] pairs. */
export function lastValues(pairs) {
  const fields = {};
  for (const [name, value] of pairs) put(fields, name, value);
  return fields;
}

/** `{name: [values in order]}` of [name, value] pairs. */
export function allValues(pairs) {
  const fields = {};
  for (const [name, value] of pairs) {
    if (Object.hasOwn(fields, name)) fields[name].push(value);
    else put(fields, name, [value]);
  }
  return fields;
}

/** [name, value] pairs of a query string or a form body, decoded. */
export function pairsOf(text) {
  return text === '' ? [] : [...new URLSearchParams(`&${text}`)]; // the "&" keeps URLSearchParams from dropping a leading "?"
}

/** Pairs of a form body in any charset. */
export function formPairs(body, charset) {
  if (charset === 'utf-8') return pairsOf(body.toString('utf8'));
  const decoder = new TextDecoder(charset);
  const decoded = (text) => decoder.decode(percentBytes(text.replaceAll('+', ' ')));
  return body.toString('latin1').split('&').filter(Boolean).map((part) => {
    const equals = part.indexOf('=');
    return equals < 0 ? [decoded(part), ''] : [decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))];
  });
}

function percentBytes(text) {
  return Buffer.from(text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16))), 'latin1');
}

/** Percent-decoded text; invalid sequences stay or become U+FFFD. */
export function unquoted(text) {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return percentBytes(text).toString('utf8');
  }
}

/** `{...extra, body: text}`, or base64 for bytes that are not UTF-8. */
export function bodyFields(bytes, extra = {}) {
  const text = bytes.toString('utf8');
  if (text.includes('\ufffd') && !bytes.equals(Buffer.from(text))) return { ...extra, body: bytes.toString('base64'), isBase64Encoded: true };
  return { ...extra, body: text };
}

// multipart/form-data (RFC 7578), held in memory: sless limits the body's size.

const PARAMETER = /;\s*([^=;"\s]+)\s*=\s*(?:"((?:\\["\\]|[^"])*)"?[^;]*|([^;]*))/g;

/** Map of name → value from `form-data; name="a"; filename*=UTF-8''b`. In quotes browsers write `"` as %22. */
function parametersOf(header) {
  const parameters = new Map();
  for (const [, name, quoted, plain] of header.matchAll(PARAMETER)) {
    const value = quoted === undefined ? plain.trim() : quoted.replace(/\\(["\\])/g, '$1').replaceAll('%22', '"');
    if (name.endsWith('*')) parameters.set(name.slice(0, -1).toLowerCase(), unquoted(value.slice(value.lastIndexOf("'") + 1)));
    else parameters.set(name.toLowerCase(), value);
  }
  return parameters;
}

/** Boundary parameter of a Content-Type, or null. */
export function boundaryOf(contentType) {
  return parametersOf(contentType).get('boundary') || null;
}

/** The declared charset, or UTF-8 when it is absent or unknown. */
export function charsetOf(contentType) {
  const declared = /charset/i.test(contentType) ? parametersOf(contentType).get('charset') : undefined;
  try {
    return declared ? new TextDecoder(declared).encoding : 'utf-8';
  } catch {
    return 'utf-8';
  }
}

function headersOf(head) {
  const headers = {};
  for (const line of head.toString('utf8').split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) headers[line.slice(0, colon).trim().toLowerCase()] = line.slice(colon + 1).trim();
  }
  return headers;
}

/** [name, value] of a part: text, or {filename, content_type, body[, isBase64Encoded]} for a file; null when the part is not a field. */
function fieldOf(part) {
  const end = part.indexOf(HEAD_END);
  if (end < 0) return null;
  const headers = headersOf(part.subarray(0, end));
  const parameters = parametersOf(headers['content-disposition'] ?? '');
  const name = parameters.get('name');
  if (name === undefined) return null;
  const bytes = part.subarray(end + HEAD_END.length);
  const filename = parameters.get('filename');
  if (filename === undefined) {
    const charset = charsetOf(headers['content-type'] ?? '');
    return [name, charset === 'utf-8' ? bytes.toString('utf8') : new TextDecoder(charset).decode(bytes)];
  }
  return [name, bodyFields(bytes, { filename, content_type: headers['content-type'] ?? 'application/octet-stream' })];
}

/** Fields of a multipart body as [name, value] pairs, in order. */
export function multipartPairs(body, boundary) {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const bytes = Buffer.concat([CRLF, body]); // so that the first delimiter looks like the others
  const pairs = [];
  let at = bytes.indexOf(delimiter);
  while (at >= 0) {
    const start = at + delimiter.length;
    at = bytes.indexOf(delimiter, start);
    const lineEnd = bytes.indexOf(CRLF, start);
    if (at < 0 || lineEnd < 0 || lineEnd > at) break;
    // A part without headers starts with the delimiter's line end; it is not a field.
    const field = fieldOf(bytes.subarray(lineEnd + CRLF.length, at));
    if (field !== null) pairs.push(field);
  }
  return pairs;
}
