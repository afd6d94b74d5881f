// hello-node greets whoever calls: POST {"name": "Ada"} or GET ?name=Ada.
//
// Test: node --test. Run here: sless dev . Whatever `handle` returns is the answer, what it logs is its log; packages to install
// stand in package.json, files that stay at home in .slessignore.
export async function handle(event, context) {
  const name = event.name || "world";
  console.log(`greeting ${name}, request ${context.request_id}`);
  return { message: `Hello, ${name}!`, runtime: "node", version: context.version };
}
