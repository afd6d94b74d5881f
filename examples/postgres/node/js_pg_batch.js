import { pool, TABLE } from "./db.js";
import { fieldsOf, numberOf, textOf } from "./values.js";

const MOST = 200;

export async function run(event) {
  const fields = fieldsOf(event);
  const n = numberOf(fields.n, 10, MOST);
  const prefix = textOf(fields.prefix, "batch");
  const { rows } = await pool.query(
    `INSERT INTO ${TABLE} (title) SELECT $1::text || '-' || number FROM generate_series(1, $2::int) AS number RETURNING id`,
    [prefix, n],
  );
  const ids = rows.map((row) => Number(row.id));
  return { inserted: ids.length, first_id: ids.length ? Math.min(...ids) : null };
}
