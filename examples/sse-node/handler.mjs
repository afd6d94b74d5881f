// A clock as an event stream: GET ?ticks=5&every_ms=500. Each tick is sent immediately; browsers read it with EventSource.
import { setTimeout as sleep } from "node:timers/promises";

export async function handle(event) {
  const ticks = Number(event.ticks ?? 5);
  const everyMs = Number(event.every_ms ?? 500);
  if (!Number.isInteger(ticks) || ticks < 1 || ticks > 1000 || !(everyMs >= 0 && everyMs <= 10000)) {
    return { statusCode: 400, body: { error: "expected ticks 1 to 1000, every_ms 0 to 10000" } };
  }
  return { statusCode: 200, headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" }, body: clock(ticks, everyMs) };
}

async function* clock(ticks, everyMs) {
  for (let tick = 1; tick <= ticks; tick += 1) {
    yield `id: ${tick}\nevent: tick\ndata: ${JSON.stringify({ tick, at: new Date().toISOString() })}\n\n`;
    if (tick < ticks) await sleep(everyMs);
  }
}
