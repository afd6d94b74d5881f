// A few connections per instance; pg reads PGHOST, PGDATABASE and the like.
import pg from "pg";

export const TABLE = "terraform_demo_table";
const sslModes = { require: { rejectUnauthorized: false }, "verify-full": true, "verify-ca": true };

export const pool = new pg.Pool({ max: 4, connectionTimeoutMillis: 10_000, ssl: sslModes[process.env.PGSSLMODE] ?? false });
pool.on("error", (error) => console.error(`idle connection: ${error.message}`));

// Runs `work` in a transaction on one connection.
export async function transaction(work) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}
