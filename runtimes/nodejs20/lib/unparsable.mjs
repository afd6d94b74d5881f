// Locates the syntax error in a module that Node cannot parse. Loaded only after such an error.
import { spawnSync } from 'node:child_process';

const OWN_FOLDER = new URL('.', import.meta.url).href;
const TIMEOUT_MS = 5000;

/** Whether no line of the user's code ran: the error is in the source itself, and its stack names no file. */
function isOfSource(error) {
  const frames = String(error.stack).split('\n').filter((line) => line.startsWith('    at '));
  return String(error.stack).startsWith('SyntaxError') && frames.every((frame) => frame.includes('node:') || frame.includes(OWN_FOLDER));
}

/**
 * Prepends file, line and source line to the stack of a SyntaxError from importing `url`, as Node does for CommonJS. For an ES module, Node
 * prints them only when the process dies, so a child process imports it too; Node parses all imports before it runs any code.
 */
export function addPlace(error, url) {
  if (!isOfSource(error)) return;
  const importing = ['--input-type=module', '--eval', `import ${JSON.stringify(String(url))};`];
  const words = String(spawnSync(process.execPath, importing, { timeout: TIMEOUT_MS, encoding: 'utf8' }).stderr);
  const end = words.indexOf(`\n${String(error.stack).split('\n')[0]}`);
  if (words.startsWith('file://') && end > 0) error.stack = `${words.slice(0, end).trimEnd()}\n${error.stack}`;
}
