import { createHash } from "node:crypto";

import { TABLE, transaction } from "./db.js";
import { badRequest, fieldsOf, textOf } from "./values.js";

// The first call with a key inserts a row; all others, also parallel ones, get that row.
export async function run(event) {
  const fields = fieldsOf(event);
  const key = textOf(fields.idempotency_key);
  if (!key) return badRequest("idempotency_key: expected a text");
  const hash = createHash("sha256").update(key).digest("hex");
  return transaction(async (client) => {
    await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [hash]);
    const known = await client.query("SELECT row_id FROM terraform_demo_keys WHERE key_hash = $1", [hash]);
    if (known.rows.length) return { action: "existing", id: Number(known.rows[0].row_id) };
    const title = textOf(fields.title) || "idempotent";
    const made = await client.query(`INSERT INTO ${TABLE} (title) VALUES ($1) RETURNING id`, [title]);
    await client.query("INSERT INTO terraform_demo_keys (key_hash, row_id) VALUES ($1, $2)", [hash, made.rows[0].id]);
    return { action: "created", id: Number(made.rows[0].id) };
  });
}
