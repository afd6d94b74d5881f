// Fields of a query, a form or a multipart body: the last value of a name, and all of them.

/** Sets own property `name`, also when it is `__proto__`. */
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
  return text === '' ? [] : [...new URLSearchParams(text)];
}

/** Percent-decoded text; what is not valid stays as it is or becomes U+FFFD. */
export function unquoted(text) {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return Buffer.from(text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16))), 'latin1').toString('utf8');
  }
}

/** `{body: text}`, or base64 for bytes that are no UTF-8 text; `extra` goes in front. */
export function bodyFields(bytes, extra = {}) {
  const text = bytes.toString('utf8');
  if (text.includes('\ufffd') && !bytes.equals(Buffer.from(text))) return { ...extra, body: bytes.toString('base64'), isBase64Encoded: true };
  return { ...extra, body: text };
}
