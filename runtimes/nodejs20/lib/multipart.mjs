// multipart/form-data (RFC 7578), whole in memory: sless limits the body before it comes here.
import { bodyFields } from './fields.mjs';

const CRLF = Buffer.from('\r\n');
const HEAD_END = Buffer.from('\r\n\r\n');

function parameterOf(header, name) {
  const match = new RegExp(`;\\s*${name}\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, 'i').exec(header);
  if (match === null) return null;
  return match[1] === undefined ? match[2] : match[1].replace(/\\(["\\])/g, '$1');
}

/** Boundary named by a Content-Type, null when there is none. */
export function boundaryOf(contentType) {
  return parameterOf(contentType, 'boundary');
}

function headersOf(head) {
  const headers = {};
  for (const line of head.toString('utf8').split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) headers[line.slice(0, colon).trim().toLowerCase()] = line.slice(colon + 1).trim();
  }
  return headers;
}

/** [name, value] of a part: text, or for a file {filename, content_type, body[, isBase64Encoded]}; null for what is no field. */
function fieldOf(part) {
  const end = part.indexOf(HEAD_END);
  if (end < 0) return null;
  const headers = headersOf(part.subarray(0, end));
  const disposition = headers['content-disposition'] ?? '';
  const name = parameterOf(disposition, 'name');
  if (name === null) return null;
  const bytes = part.subarray(end + HEAD_END.length);
  const filename = parameterOf(disposition, 'filename');
  if (filename === null) return [name, bytes.toString('utf8')];
  return [name, bodyFields(bytes, { filename, content_type: headers['content-type'] ?? 'application/octet-stream' })];
}

/** The fields of a multipart body as [name, value] pairs in order. */
export function multipartPairs(body, boundary) {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  const bytes = Buffer.concat([CRLF, body]); // so that the first delimiter looks like all others
  const pairs = [];
  let at = bytes.indexOf(delimiter);
  while (at >= 0) {
    const start = at + delimiter.length;
    at = bytes.indexOf(delimiter, start);
    const lineEnd = bytes.indexOf(CRLF, start);
    if (at < 0 || lineEnd < 0 || lineEnd > at) break;
    // The line end of the delimiter stays in front of a part without headers; then there is no field in it either.
    const field = fieldOf(bytes.subarray(lineEnd + CRLF.length, at));
    if (field !== null) pairs.push(field);
  }
  return pairs;
}
