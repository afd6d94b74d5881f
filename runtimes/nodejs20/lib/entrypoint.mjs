// Finds and imports the handler and determines how it returns its result.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const SUFFIXES = ['.js', '.mjs', '.cjs'];
// require() throws these for modules that only import() can load.
const NEEDS_IMPORT = new Set(['ERR_REQUIRE_ESM', 'ERR_REQUIRE_ASYNC_MODULE']);

const CALLS_CONTEXT = /\.\s*(?:succeed|fail|done)\s*\(/;

/** The entrypoint is not callable; the message says what was expected. */
export class NoHandler extends Error {}

/** {text, module, name} of `module.function`. */
function entrypointOf(text) {
  const dot = text.lastIndexOf('.');
  const module = text.slice(0, Math.max(dot, 0));
  const name = text.slice(dot + 1);
  if (!module || !name || name.includes('/') || module.startsWith('/') || module.split('/').includes('..')) {
    throw new NoHandler(`entrypoint ${JSON.stringify(text)}: expected module.function`);
  }
  return { text, module, name };
}

function fileOf(codeDir, entrypoint) {
  const base = path.join(codeDir, entrypoint.module);
  const candidates = [...SUFFIXES.map((suffix) => base + suffix), ...SUFFIXES.map((suffix) => path.join(base, `index${suffix}`))];
  const found = candidates.find((file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile());
  if (found) return found;
  const tried = SUFFIXES.map((suffix) => entrypoint.module + suffix).join(', ');
  throw new NoHandler(`entrypoint ${entrypoint.text}: the code has none of ${tried}`);
}

async function importFile(file) {
  if (!file.endsWith('.mjs')) {
    try {
      return createRequire(file)(file); // faster than import(), and `require.cache` works as CommonJS code expects
    } catch (error) {
      if (!NEEDS_IMPORT.has(error?.code)) throw error;
    }
  }
  const url = pathToFileURL(file);
  try {
    return await import(url);
  } catch (error) {
    if (error instanceof SyntaxError) (await import('./unparsable.mjs')).addPlace(error, url);
    throw error;
  }
}

/** The objects that may hold a module's functions: its exports, or the object or class that is its default export. */
function ownersOf(module) {
  const owners = [module, module?.default, module?.default?.default];
  return owners.filter((owner) => owner !== null && (typeof owner === 'object' || typeof owner === 'function'));
}

function handlerOf(module, entrypoint) {
  const owners = ownersOf(module);
  for (const owner of owners) {
    if (typeof owner[entrypoint.name] === 'function') return { handler: owner[entrypoint.name], owner };
  }
  const only = owners.find((owner) => typeof owner === 'function'); // `export default function`, `module.exports = function`
  if (only) return { handler: only, owner: undefined };
  const wrong = owners.find((owner) => entrypoint.name in owner);
  if (wrong) throw new NoHandler(`entrypoint ${entrypoint.text}: expected a function in ${entrypoint.module}, found ${typeof wrong[entrypoint.name]}`);
  const names = [...new Set(owners.flatMap((owner) => Object.keys(owner)))];
  throw new NoHandler(`entrypoint ${entrypoint.text}: ${entrypoint.module} exports no ${entrypoint.name}, only: ${names.join(', ') || 'nothing'}`);
}

function isAsync(handler) {
  return Object.prototype.toString.call(handler) === '[object AsyncFunction]';
}

/** Whether a handler may return before it calls context.done and the like; judged by its source. */
function answersByContext(handler) {
  return handler.length === 2 && !isAsync(handler) && CALLS_CONTEXT.test(Function.prototype.toString.call(handler));
}

/**
 * Imports the handler; `owner` becomes its `this`. `usesCallback`: it takes Lambda's third argument; `answersLater`: its
 * return value (unless a promise) is not the result; `awsEventOf`: builds events in Lambda's format, null for sless's own.
 * Throws NoHandler and whatever the code throws.
 */
export async function loadProgram(settings) {
  const entrypoint = entrypointOf(settings.entrypoint);
  const { handler, owner } = handlerOf(await importFile(fileOf(settings.codeDir, entrypoint)), entrypoint);
  const usesCallback = handler.length >= 3;
  const answersLater = (usesCallback && !isAsync(handler)) || answersByContext(handler);
  const awsEventOf = settings.eventFormat === 'sless' ? null : (await import('./awsevent.mjs')).AWS_EVENTS[settings.eventFormat];
  return { settings, handler, owner, usesCallback, answersLater, awsEventOf };
}
