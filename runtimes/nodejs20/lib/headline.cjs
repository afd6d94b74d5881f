// One line that names the file, line and reason of a failed import. Loaded only after such a failure, and CommonJS, because import() would
// return later, while the process must end now.
'use strict';

const { readFileSync } = require('node:fs');
const { fileURLToPath } = require('node:url');

const MOST_CAUSES = 5;
const PLACE_OF_SOURCE = /^(?:file:\/\/)?(\/[^\n]*):(\d+)\n/; // a SyntaxError's stack begins with it
const FRAME = /^\s+at (?:.*\()?(?:file:\/\/)?(\/[^\n]*?):(\d+):\d+\)?$/;
const NOT_FOUND = /^Cannot find (?:package|module) '([^']+)' imported from (.+)$/s;

function lineOf(file, specifier) {
  const lines = readFileSync(file, 'utf8').split('\n');
  const name = specifier.split('/').at(-1); // the message has the path to which it was resolved
  return 1 + lines.findIndex((line) => line.includes(`${name}'`) || line.includes(`${name}"`));
}

/** {file, line} in the user's code, or null. */
function placeOf(error, folder) {
  const stack = String(error?.stack);
  const source = PLACE_OF_SOURCE.exec(stack);
  if (source && source[1].startsWith(folder)) return { file: source[1], line: Number(source[2]) };
  const missing = error?.code === 'ERR_MODULE_NOT_FOUND' ? NOT_FOUND.exec(error.message) : null;
  if (missing) {
    const file = missing[2].startsWith('file:') ? fileURLToPath(missing[2]) : missing[2];
    const line = lineOf(file, missing[1]);
    if (line > 0) return { file, line };
  }
  const frame = stack.split('\n').map((text) => FRAME.exec(text)).find((found) => found?.[1].startsWith(folder));
  return frame ? { file: frame[1], line: Number(frame[2]) } : null;
}

/**
 * `handler.js:2: Error: Cannot find module 'left-pad'`; an error that wraps others has their reasons, and the place of the innermost. `wordsOf(error)` is
 * `Type: message`.
 */
exports.headlineOf = function headlineOf(error, folder, wordsOf) {
  const chain = [error];
  while (chain.at(-1)?.cause instanceof Error && chain.length < MOST_CAUSES) chain.push(chain.at(-1).cause);
  const words = chain.map((one) => wordsOf(one).split('\n')[0]).join(', caused by ');
  let place = null;
  try {
    place = chain.toReversed().map((one) => placeOf(one, folder)).find((found) => found !== null) ?? null;
  } catch {
    // The file cannot be read; the words remain.
  }
  return (place ? `${place.file.slice(folder.length)}:${place.line}: ${words}` : words).replaceAll(`file://${folder}`, '').replaceAll(folder, '');
};
