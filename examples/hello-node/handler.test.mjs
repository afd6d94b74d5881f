import assert from "node:assert/strict";
import test from "node:test";

import { handle } from "./handler.mjs";

const context = { request_id: "test", version: 1 };

test("greets by name", async () => {
  assert.equal((await handle({ name: "Ada" }, context)).message, "Hello, Ada!");
});

test("greets the world without a name", async () => {
  assert.equal((await handle({}, context)).message, "Hello, world!");
});
