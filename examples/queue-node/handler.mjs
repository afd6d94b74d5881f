// Handles orders from a queue. Returning acknowledges the message; throwing has it redelivered later, and finally moved to {queue}.dead.
const done = new Set();

export function handle(order, context) {
  const message = context.message;
  if (typeof order?.item !== 'string' || !(order.count > 0)) {
    throw new TypeError(`order: expected {"item": text, "count": above 0}, found ${JSON.stringify(order)}`);
  }
  // A message may be delivered twice. One instance can remember the ids; with several, keep them in a database.
  const id = message?.message_id ?? context.request_id;
  if (done.has(id)) return { id, repeated: true };
  done.add(id);
  console.log(`order ${id}: ${order.count} × ${order.item}, attempt ${message?.attempt ?? 1}`);
  return { id, shipped: order.count };
}
