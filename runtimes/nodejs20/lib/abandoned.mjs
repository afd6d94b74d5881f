// Ends calls whose handler returned without calling back and left nothing that could: as AWS Lambda, which answers when the event loop is
// empty. In a server the loop is never empty, so the resources are counted that keep it going.

const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** Settles `call` with no result once only the `ownConnections()` sockets of the runtime keep the event loop going. */
export function endWhenAbandoned(call, ownConnections) {
  let pauseMs = FIRST_PAUSE_MS;
  const look = () => {
    if (call.settled || call.finished || call.overdue) return;
    if (process.getActiveResourcesInfo().length <= ownConnections()) {
      call.settle(undefined);
      return;
    }
    setTimeout(look, pauseMs).unref();
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  };
  setImmediate(look); // after the callbacks and promises that are ready now
}
