import { pool, TABLE } from "./db.js";

export async function run() {
  const { rows } = await pool.query(`SELECT version() AS version, (SELECT count(*) FROM ${TABLE}) AS rows`);
  return { version: rows[0].version, row_count: Number(rows[0].rows) };
}
