// Converts errors into answers and log text.
import { inspect } from 'node:util';

import { InvalidJson } from './event.mjs';
import { jsonOf, NotSerializable } from './json.mjs';

const MESSAGE_HEADER_MAX_BYTES = 1024;
const OWN_FOLDER = new URL('.', import.meta.url).href;

/** The result is not a valid HTTP answer: its status, a header or its base64 is wrong. */
export class BadResult extends Error {
  constructor(message) {
    super(message);
    this.name = 'BadResult';
  }
}

/** Class name of an error, or the JavaScript type of another thrown value. Never throws. */
export function typeOf(error) {
  if (!(error instanceof Error)) return typeof error;
  try {
    const className = error.constructor?.name;
    return error.name && error.name !== 'Error' ? String(error.name) : className || 'Error';
  } catch {
    return 'Error';
  }
}

/** Message of an error, or its type when the message is empty. Never throws. */
export function messageOf(error) {
  try {
    const message = error instanceof Error ? error.message : error;
    return (typeof message === 'string' ? message : inspect(message, { breakLength: Infinity })) || typeOf(error);
  } catch {
    return typeOf(error);
  }
}

/** Log text: the error with its stack, without the runtime's frames and the path of the code folder. */
export function traceOf(error) {
  let text;
  try {
    text = inspect(error, { depth: 3 });
  } catch {
    text = messageOf(error);
  }
  const kept = text.split('\n').filter((line) => !(line.startsWith('    at ') && line.includes(OWN_FOLDER))).join('\n');
  return codeFolder ? kept.replaceAll(`file://${codeFolder}`, '').replaceAll(codeFolder, '') : kept;
}

let codeFolder = '';

/** Set once: the user's folder, which is stripped from logged paths. */
export function setCodeFolder(folder) {
  codeFolder = folder.endsWith('/') ? folder : `${folder}/`;
}

/** `X-Sless-Error-Message`: percent-encoded, cut between characters. */
function encodedMessageOf(message) {
  let encoded = '';
  for (const character of message.slice(0, MESSAGE_HEADER_MAX_BYTES).toWellFormed()) {
    const next = encodeURIComponent(character);
    if (encoded.length + next.length > MESSAGE_HEADER_MAX_BYTES) break;
    encoded += next;
  }
  return encoded;
}

/** The error code when the platform refused the call; null for what a handler threw. */
export function faultOf(error) {
  if (error instanceof InvalidJson) return 'invalid_json';
  if (error instanceof BadResult) return 'bad_result';
  return error instanceof NotSerializable ? 'result_not_serializable' : null;
}

/** The answer {status, headers, body, error} for an error in the call `requestId`. */
export function failureAnswer(error, requestId) {
  const message = messageOf(error);
  const headers = ['Content-Type', 'application/json', 'X-Sless-Error-Message', encodedMessageOf(message)];
  let status = 500;
  if (error instanceof InvalidJson) status = 400;
  else if (error instanceof BadResult) status = 502;
  else headers.push('X-Sless-Function-Error', '1');
  const fault = faultOf(error);
  if (fault) headers.push('X-Sless-Fault', fault);
  const reason = status === 500 ? { type: typeOf(error) } : { code: fault, details: [] };
  return { status, headers, body: jsonOf({ error: message, ...reason, request_id: requestId }), stream: null, error };
}
