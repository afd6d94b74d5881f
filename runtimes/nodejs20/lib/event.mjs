// Builds the handler's event: JSON body, query, form, or the body as text or base64.
import { bodyFields, boundaryOf, charsetOf, formPairs, lastValues, multipartPairs, pairsOf } from './fields.mjs';

/** The body is declared as JSON but is not. */
export class InvalidJson extends Error {
  constructor(reason) {
    super(`the request body is not valid JSON: ${reason}`);
    this.name = 'InvalidJson';
  }
}

function mediaTypeOf(contentType) {
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}

function isJsonType(type) {
  return type === 'application/json' || type.endsWith('+json') || type === 'text/json';
}

/** Parses JSON bytes. Throws SyntaxError. */
function parsedJson(bytes) {
  let text = bytes.toString('utf8');
  if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
  if (text.includes('\ufffd') && !Buffer.from(text).equals(bytes.subarray(bytes.length - Buffer.byteLength(text)))) {
    throw new SyntaxError('it is not UTF-8 text');
  }
  return JSON.parse(text);
}

/** {value} when the body matches the pattern `start` and is JSON. */
function foundJson(bytes, start) {
  if (!start.test(bytes.toString('latin1', 0, 64))) return null;
  try {
    return { value: parsedJson(bytes) };
  } catch {
    return null;
  }
}

const MAY_BE_JSON = /^(?:\xef\xbb\xbf)?\s*["[{\-\dtfn]/;
const MAY_BE_JSON_CONTAINER = /^(?:\xef\xbb\xbf)?\s*[[{]/; // `curl -d` declares JSON as a form

function isEncoded(call) {
  const { rawHeaders } = call;
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && name.length === 16 && name.toLowerCase() === 'content-encoding');
  return at >= 0 && !['', 'identity'].includes(rawHeaders[at + 1]);
}

/** The event of a call. Throws InvalidJson. */
export function eventOf(call) {
  const { body, contentType } = call;
  if (body.length === 0) return call.queryText === '' ? {} : lastValues(pairsOf(call.queryText));
  if (isEncoded(call)) return { body: body.toString('base64'), isBase64Encoded: true };
  if (contentType === 'application/json' || isJsonType(mediaTypeOf(contentType))) {
    try {
      return parsedJson(body);
    } catch (error) {
      throw new InvalidJson(error.message);
    }
  }
  return eventOfOther(call, mediaTypeOf(contentType));
}

function eventOfOther(call, type) {
  switch (type) {
    case '': {
      const found = foundJson(call.body, MAY_BE_JSON);
      return found ? found.value : bodyFields(call.body);
    }
    case 'application/x-www-form-urlencoded': {
      const found = foundJson(call.body, MAY_BE_JSON_CONTAINER);
      return found ? found.value : lastValues(formPairsOf(call));
    }
    case 'multipart/form-data':
      return boundaryOf(call.contentType) ? lastValues(formPairsOf(call)) : bodyFields(call.body);
    default:
      return bodyFields(call.body);
  }
}

/** Fields of a form body as [name, value] pairs; empty for other bodies. */
export function formPairsOf(call) {
  const type = mediaTypeOf(call.contentType);
  if (type === 'application/x-www-form-urlencoded') return formPairs(call.body, charsetOf(call.contentType));
  if (type !== 'multipart/form-data') return [];
  const boundary = boundaryOf(call.contentType);
  return boundary ? multipartPairs(call.body, boundary) : [];
}
