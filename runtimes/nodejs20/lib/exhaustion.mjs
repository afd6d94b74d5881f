// Ends a process in which calls only fail because it has used up its descriptors, processes, threads or memory. sless replaces it.
import { messageOf } from './failures.mjs';
import { processScope, writeText } from './loglines.mjs';

// Both together: calls that only wait for others to close their files recover sooner.
const FAILED_CALLS = 10;
const FAILING_MS = 1000;
const USED_UP = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM']);

let failed = 0; // calls that failed in this way since the last one that did not
let since = 0;
let ending = false;

/** The handler returned. */
export function noteSuccess() {
  failed = 0;
}

/** The handler threw. */
export function noteFailure(error) {
  if (!USED_UP.has(codeOf(error))) {
    failed = 0;
    return;
  }
  if (failed === 0) since = performance.now();
  failed += 1;
  if (failed < FAILED_CALLS || performance.now() - since < FAILING_MS || ending) return;
  ending = true;
  writeText(processScope, 'stderr', `the last ${failed} calls failed with '${messageOf(error)}': this instance ends and is replaced\n`);
  process.kill(process.pid, 'SIGTERM');
}

function codeOf(error) {
  try {
    return error?.code;
  } catch { // a user's getter may throw anything
    return undefined;
  }
}
