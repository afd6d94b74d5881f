// Where a module that Node cannot parse is wrong. Loaded only once that has happened.
import { spawnSync } from 'node:child_process';

const OWN_FOLDER = new URL('.', import.meta.url).href;
const TIMEOUT_MS = 5000;

/** Whether no line of the user's ran: then the error is of the source itself, and its stack names no file. */
function isOfSource(error) {
  const frames = String(error.stack).split('\n').filter((line) => line.startsWith('    at '));
  return String(error.stack).startsWith('SyntaxError') && frames.every((frame) => frame.includes('node:') || frame.includes(OWN_FOLDER));
}

/**
 * Puts file, line and source line before the stack of a SyntaxError that importing `url` gave, as Node does for CommonJS. It tells them of a
 * module only as the last words of a process, so another one imports it, too: Node parses all of a module's imports before it runs any.
 */
export function addPlace(error, url) {
  if (!isOfSource(error)) return;
  const importing = ['--input-type=module', '--eval', `import ${JSON.stringify(String(url))};`];
  const words = String(spawnSync(process.execPath, importing, { timeout: TIMEOUT_MS, encoding: 'utf8' }).stderr);
  const end = words.indexOf(`\n${String(error.stack).split('\n')[0]}`);
  if (words.startsWith('file://') && end > 0) error.stack = `${words.slice(0, end).trimEnd()}\n${error.stack}`;
}
