// hello-node greets the caller: POST {"name": "Ada"} or GET ?name=Ada.
//
// Test: node --test. Run locally: sless dev . `handle` returns the response; what it prints is logged. List packages to install
// in package.json, and files not to upload in .slessignore.
export async function handle(event, context) {
  const name = event.name || "world";
  console.log(`greeting ${name}, request ${context.request_id}`);
  return { message: `Hello, ${name}!`, runtime: "node", version: context.version };
}
