// Writes JSON as Python's json.dumps does (`", "` and `": "`), so that answers do not depend on the function's language.
// JSON.stringify cannot do that, and it hides NaN and turns Map and Set into {}.

const QUOTABLE_AS_IS = /^[ !#-[\]-~]*$/;
const NON_ASCII = /[\u0080-\uffff]/g;
// Cycles are searched for only below this depth, which real answers do not reach.
const CYCLE_SEARCH_DEPTH = 100;

/** A value cannot be written as JSON. The message names its path, such as `$.items[2].at`, and its type. */
export class NotSerializable extends Error {
  constructor(what, keys) {
    super(`the result is not JSON serializable: ${pathOf(keys)} is ${what}`);
    this.name = 'NotSerializable';
  }
}

const KEPT_KEYS_MAX = 1000;
const KEPT_KEY_MAX_LENGTH = 64;

// The path to the value being written.
let trail = [];
let ancestors = [];
const keyTexts = new Map();

function pathOf(keys) {
  let path = '$';
  for (const key of keys) {
    if (typeof key === 'number') path += `[${key}]`;
    else path += /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  }
  return path;
}

/** JSON text of `value`; `null` for undefined. Throws NotSerializable. */
export function jsonOf(value) {
  trail = [];
  ancestors = [];
  try {
    return textOf(value) ?? 'null';
  } catch (error) {
    if (error instanceof RangeError && trail.length > CYCLE_SEARCH_DEPTH) throw new NotSerializable('nested too deeply', trail.slice(0, 5));
    throw error;
  } finally {
    trail = [];
    ancestors = [];
  }
}

function textOf(value) {
  switch (typeof value) {
    case 'string': return quoted(value);
    case 'number':
      if (!Number.isFinite(value)) throw new NotSerializable(String(value), trail);
      return String(value);
    case 'boolean': return value ? 'true' : 'false';
    case 'bigint': return String(value);
    case 'object': return value === null ? 'null' : textOfObject(value);
    case 'undefined': return undefined; // omitted, as in JSON.stringify
    default: throw new NotSerializable(`a ${typeof value}`, trail);
  }
}

function quoted(text) {
  if (QUOTABLE_AS_IS.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(NON_ASCII, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function textOfObject(value) {
  const isArray = Array.isArray(value);
  const plain = isArray || isPlain(value);
  if (!plain) {
    const special = textOfSpecial(value);
    if (special !== undefined) return special;
  }
  if (typeof value.toJSON === 'function') return textOf(value.toJSON(String(trail.at(-1) ?? '')));
  if (ancestors.length > CYCLE_SEARCH_DEPTH && ancestors.includes(value)) throw cycleOf();
  ancestors.push(value);
  const text = isArray ? textOfArray(value) : textOfFields(value);
  ancestors.pop();
  return text;
}

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function cycleOf() {
  const seen = new Map();
  for (const [depth, ancestor] of ancestors.entries()) {
    if (seen.has(ancestor)) return new NotSerializable(`a cycle: ${pathOf(trail.slice(0, seen.get(ancestor)))} again`, trail.slice(0, depth));
    seen.set(ancestor, depth);
  }
  return new NotSerializable('a cycle', trail);
}

/** `"key": `, cached for the many objects with the same keys. */
function keyTextOf(key) {
  let text = keyTexts.get(key);
  if (text === undefined) {
    text = `${quoted(key)}: `;
    if (keyTexts.size < KEPT_KEYS_MAX && key.length <= KEPT_KEY_MAX_LENGTH) keyTexts.set(key, text);
  }
  return text;
}

// Joins parts level by level: `+=` builds ropes, and flattening them takes half of a large answer's time.
function textOfArray(items) {
  const parts = [];
  for (let index = 0; index < items.length; index++) {
    trail.push(index);
    parts.push(textOf(items[index]) ?? 'null');
    trail.pop();
  }
  return `[${parts.join(', ')}]`;
}

function textOfFields(value) {
  const parts = [];
  for (const key of Object.keys(value)) {
    trail.push(key);
    const field = textOf(value[key]);
    trail.pop();
    if (field !== undefined) parts.push(keyTextOf(key) + field);
  }
  return `{${parts.join(', ')}}`;
}

/** JSON text of built-in classes without useful fields; undefined for other classes. */
function textOfSpecial(value) {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new NotSerializable('an invalid Date', trail);
    return `"${value.toISOString()}"`;
  }
  if (value instanceof Uint8Array) return `"${bytesOf(value).toString('base64')}"`;
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer) return `"${Buffer.from(value).toString('base64')}"`;
  if (value instanceof DataView) return `"${bytesOf(value).toString('base64')}"`;
  if (ArrayBuffer.isView(value)) return textOfArray(value);
  if (value instanceof Map || value instanceof Set || value instanceof WeakMap || value instanceof WeakSet) {
    throw new NotSerializable(`a ${value.constructor.name}`, trail);
  }
  if (value instanceof Promise) throw new NotSerializable('a Promise: await it', trail);
  if (value instanceof Number || value instanceof String || value instanceof Boolean || value instanceof BigInt) return textOf(value.valueOf());
  return undefined;
}

/** A Buffer over the same bytes as any view. */
export function bytesOf(view) {
  return Buffer.isBuffer(view) ? view : Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}
