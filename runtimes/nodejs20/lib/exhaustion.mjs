// Ends a process in which calls only fail because it has used up its descriptors, processes, threads or memory. sless replaces it.
import { messageOf } from './failures.mjs';
import { processScope, writeText } from './loglines.mjs';

// Both together: calls that only wait for others to close their files recover sooner.
const FAILED_CALLS = 10;
const FAILING_MS = 1000;
const USED_UP = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM', 'ERR_WORKER_INIT_FAILED']);
const CAUSES_EXAMINED = 10;

let failed = 0; // calls that failed in this way since the last one that did not
let since = 0;
let ending = false;

/** The handler returned. */
export function noteSuccess() {
  failed = 0;
}

/** The handler threw. */
export function noteFailure(error) {
  if (!isExhaustion(error)) {
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

/** `fetch` and other clients throw errors of their own, of which it is the cause. */
function isExhaustion(thrown) {
  try {
    let error = thrown;
    for (let examined = 0; error && examined <= CAUSES_EXAMINED; examined += 1) {
      if (USED_UP.has(error.code)) return true;
      error = error.cause;
    }
  } catch { // a user's getter may throw anything
  }
  return false;
}
