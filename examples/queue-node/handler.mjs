// Works on orders from a queue. Returning acknowledges the message; throwing has it delivered again, later, and in the end to {queue}.dead.
const done = new Set();

export function handle(order, context) {
  const message = context.message;
  if (typeof order?.item !== 'string' || !(order.count > 0)) {
    throw new TypeError(`order: expected {"item": text, "count": above 0}, found ${JSON.stringify(order)}`);
  }
  // A message may come twice. Here one instance remembers; with more than one keep the ids in a database.
  const id = message?.message_id ?? context.request_id;
  if (done.has(id)) return { id, repeated: true };
  done.add(id);
  console.log(`order ${id}: ${order.count} × ${order.item}, attempt ${message?.attempt ?? 1}`);
  return { id, shipped: order.count };
}
