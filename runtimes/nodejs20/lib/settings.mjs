// Settings from the environment. Only this module reads SLESS_* variables.
import fs from 'node:fs';
import path from 'node:path';

const MODES = ['server', 'job', 'check'];
const EVENT_FORMATS = ['sless', 'aws-http-v1', 'aws-http-v2'];
// sockaddr_un holds 108 bytes and libuv silently truncates longer paths, so two runtimes could share a socket.
const SOCKET_PATH_MAX_BYTES = 100;
// Removed from the handler's environment.
const PRIVATE_NAMES = [
  'SLESS_MODE', 'SLESS_CODE_DIR', 'SLESS_DEPS_DIR', 'SLESS_SOCKET', 'SLESS_ADDRESS', 'SLESS_PORT', 'SLESS_CONCURRENCY', 'SLESS_EVENT_FORMAT',
  'SLESS_GRACE_SEC',
  'SLESS_LIFELINE_FD', 'SLESS_EVENT', 'SLESS_EVENT_FILE', 'SLESS_INVOCATION_ID', 'SLESS_REQUEST_ID', 'SLESS_TRIGGER', 'SLESS_RESULT_FILE',
];

/** An environment variable is wrong; the message names it. */
export class WrongEnvironment extends Error {}

function integerOf(env, name, fallback, least, most) {
  const text = env[name];
  if (text === undefined || text === '') return fallback;
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least || number > most) {
    throw new WrongEnvironment(`${name} must be an integer from ${least} to ${most}, not ${JSON.stringify(text)}`);
  }
  return number;
}

function choiceOf(env, name, choices) {
  const text = env[name] || choices[0];
  if (!choices.includes(text)) throw new WrongEnvironment(`${name} must be one of ${choices.join(', ')}, not ${JSON.stringify(text)}`);
  return text;
}

function codeDirOf(env) {
  const folder = path.resolve(env.SLESS_CODE_DIR || '/app/function');
  if (!fs.statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    throw new WrongEnvironment(`SLESS_CODE_DIR must be a folder, ${folder} is not`);
  }
  return folder;
}

function socketOf(env) {
  const socket = env.SLESS_SOCKET || null;
  if (socket && Buffer.byteLength(socket) > SOCKET_PATH_MAX_BYTES) {
    throw new WrongEnvironment(`SLESS_SOCKET is longer than ${SOCKET_PATH_MAX_BYTES} bytes: ${socket}`);
  }
  return socket;
}

function eventTextOf(env) {
  if (!env.SLESS_EVENT_FILE) return env.SLESS_EVENT ?? '{}';
  try {
    return fs.readFileSync(env.SLESS_EVENT_FILE, 'utf8');
  } catch (error) {
    throw new WrongEnvironment(`SLESS_EVENT_FILE cannot be read: ${error.message}`);
  }
}

/** Reads the settings once from `env` and removes the names that a handler must not see. Throws WrongEnvironment. */
export function takeSettings(env) {
  const mode = choiceOf(env, 'SLESS_MODE', MODES);
  const settings = {
    mode,
    codeDir: codeDirOf(env),
    entrypoint: env.SLESS_ENTRYPOINT || 'handler.handle',
    socket: socketOf(env),
    address: env.SLESS_ADDRESS || '0.0.0.0',
    port: integerOf(env, 'SLESS_PORT', 8080, 0, 65535),
    functionName: env.SLESS_FUNCTION_NAME || 'function',
    namespace: env.SLESS_NAMESPACE || '',
    version: integerOf(env, 'SLESS_VERSION', 0, 0, Number.MAX_SAFE_INTEGER),
    memoryMb: integerOf(env, 'SLESS_MEMORY_MB', 128, 1, Number.MAX_SAFE_INTEGER),
    timeoutSec: integerOf(env, 'SLESS_TIMEOUT_SEC', 0, 0, Number.MAX_SAFE_INTEGER),
    concurrency: integerOf(env, 'SLESS_CONCURRENCY', 50, 1, Number.MAX_SAFE_INTEGER),
    graceSec: integerOf(env, 'SLESS_GRACE_SEC', 10, 0, 1 << 20),
    eventFormat: choiceOf(env, 'SLESS_EVENT_FORMAT', EVENT_FORMATS),
    lifelineFd: integerOf(env, 'SLESS_LIFELINE_FD', null, 0, 1 << 20),
    eventText: mode === 'job' ? eventTextOf(env) : null,
    invocationId: env.SLESS_INVOCATION_ID || null,
    requestId: env.SLESS_REQUEST_ID || null,
    trigger: env.SLESS_TRIGGER || 'job',
    resultFile: env.SLESS_RESULT_FILE || null,
  };
  for (const name of PRIVATE_NAMES) delete env[name];
  return Object.freeze(settings);
}
