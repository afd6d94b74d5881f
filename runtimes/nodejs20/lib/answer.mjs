// Converts a handler's result into an answer: status, headers, body or stream.
import { BadResult } from './failures.mjs';
import { bytesOf, jsonOf } from './json.mjs';

const TEXT = 'text/plain; charset=utf-8';
const BINARY = 'application/octet-stream';
const JSON_TYPE = 'application/json';
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
// Set by the runtime itself, or specific to the connection with sless.
const OWN_HEADERS = new Set([
  'content-length', 'keep-alive', 'proxy-authenticate', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade',
]);

const NO_BODY = Buffer.alloc(0);
const JSON_HEADERS = Object.freeze(['Content-Type', JSON_TYPE]);
const TEXT_HEADERS = Object.freeze(['Content-Type', TEXT]);
const BINARY_HEADERS = Object.freeze(['Content-Type', BINARY]);

function isBytes(value) {
  return value instanceof Uint8Array || value instanceof ArrayBuffer;
}

/** Whether a value is streamed: an iterator (not just an iterable, such as an array), an async iterable, a Readable. */
export function isStream(value) {
  if (typeof value !== 'object' || value === null) return false;
  if (typeof value[Symbol.asyncIterator] === 'function') return true;
  return typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function';
}

/** {status, headers (raw list), body (string, Buffer or null), stream} from a handler's result. Throws BadResult, NotSerializable. */
export function answerOf(value) {
  if (value === undefined || value === null) return { status: 204, headers: [], body: null, stream: null };
  if (typeof value === 'string') return { status: 200, headers: TEXT_HEADERS, body: value, stream: null };
  if (typeof value === 'object') {
    if (isBytes(value)) return { status: 200, headers: BINARY_HEADERS, body: bufferOf(value), stream: null };
    if (isStream(value)) return { status: 200, headers: [], body: null, stream: value }; // before statusCode: an IncomingMessage has both
    if (value.statusCode !== undefined) return httpAnswerOf(value);
  }
  return { status: 200, headers: JSON_HEADERS, body: jsonOf(value), stream: null };
}

function bufferOf(value) {
  return value instanceof ArrayBuffer ? Buffer.from(value) : bytesOf(value);
}

function httpAnswerOf(result) {
  const status = statusOf(result.statusCode);
  const headers = headersOf(result);
  const { body, type } = bodyOf(result);
  if (isStream(body)) return { status, headers, body: null, stream: body };
  const bodiless = status === 204 || status === 304;
  if (!bodiless && type !== null && !hasHeader(headers, 'content-type')) headers.push('Content-Type', type);
  return { status, headers, body: bodiless ? null : body, stream: null };
}

function statusOf(value) {
  const status = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) {
    throw new BadResult(`statusCode must be an integer from 200 to 599, not ${shown(value)}`);
  }
  return status;
}

function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 100));
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? 'an array' : 'an object';
}

/** Whether a raw header list contains `name` (in lower case). */
export function hasHeader(headers, name) {
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index].toLowerCase() === name) return true;
  }
  return false;
}

function entriesOf(result, field) {
  const value = result[field];
  if (value === undefined || value === null) return [];
  if (typeof value !== 'object' || Array.isArray(value)) throw new BadResult(`${field} must be an object, not ${shown(value)}`);
  return typeof value.entries === 'function' ? [...value.entries()] : Object.entries(value);
}

function headersOf(result) {
  const multi = entriesOf(result, 'multiValueHeaders');
  const multiNames = new Set(multi.map(([name]) => String(name).toLowerCase()));
  const headers = [];
  for (const [name, value] of entriesOf(result, 'headers')) {
    if (!multiNames.has(String(name).toLowerCase())) addHeader(headers, String(name), value);
  }
  for (const [name, value] of multi) addHeader(headers, String(name), value);
  const { cookies } = result;
  if (cookies !== undefined && cookies !== null) {
    if (!Array.isArray(cookies)) throw new BadResult(`cookies must be an array, not ${shown(cookies)}`);
    addHeader(headers, 'Set-Cookie', cookies);
  }
  return hasHeader(headers, 'connection') ? keptHeadersOf(headers) : headers;
}

/** The raw list without Connection and the headers that it names: they are for this connection only (RFC 9110, 7.6.1). */
function keptHeadersOf(headers) {
  const dropped = new Set(['connection']);
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index].toLowerCase() === 'connection') headers[index + 1].split(',').forEach((name) => dropped.add(name.trim().toLowerCase()));
  }
  return headers.filter((_, index) => !dropped.has(headers[index - (index % 2)].toLowerCase()));
}

function addHeader(headers, name, value) {
  if (!HEADER_NAME.test(name)) throw new BadResult(`header ${JSON.stringify(name)}: not a valid header name`);
  const lowerName = name.toLowerCase();
  if (OWN_HEADERS.has(lowerName) || lowerName.startsWith('x-sless-')) return;
  for (const item of Array.isArray(value) ? value : [value]) {
    if (item === undefined || item === null) continue;
    if (item instanceof Date) {
      headers.push(name, item.toUTCString());
      continue;
    }
    if (typeof item === 'object' || typeof item === 'function' || typeof item === 'symbol') {
      throw new BadResult(`header ${name}: the value must be text, not ${shown(item)}`);
    }
    const text = String(item);
    if (!HEADER_VALUE.test(text)) {
      throw new BadResult(`header ${name}: the value contains characters that are not allowed in a header: ${shown(text)}`);
    }
    headers.push(name, text);
  }
}

/** {body, type}: `type` is the default Content-Type, or null. */
function bodyOf(result) {
  const { body } = result;
  if (body === undefined || body === null) return { body: NO_BODY, type: null };
  if (result.isBase64Encoded === true) return { body: decodedBase64(body), type: BINARY };
  if (typeof body === 'string') return { body, type: TEXT };
  if (isBytes(body)) return { body: bufferOf(body), type: BINARY };
  if (isStream(body)) return { body, type: null };
  return { body: jsonOf(body), type: JSON_TYPE };
}

function decodedBase64(body) {
  if (typeof body !== 'string') throw new BadResult(`body must be base64 text when isBase64Encoded is set, not ${shown(body)}`);
  if (!BASE64.test(body)) throw new BadResult(`body is not valid base64 although isBase64Encoded is set: ${shown(body.slice(0, 40))}`);
  return Buffer.from(body, 'base64');
}

/** Content-Type of a stream, from its first chunk. */
export function streamTypeOf(firstChunk) {
  return typeof firstChunk === 'string' ? TEXT : BINARY;
}
