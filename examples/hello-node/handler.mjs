// Greets whoever calls: POST {"name": "Ada"} or GET ?name=Ada.
export async function handle(event, context) {
  const name = event.name || "world";
  console.log(`greeting ${name}, request ${context.request_id}`);
  return { message: `Hello, ${name}!`, runtime: "node", version: context.version };
}
