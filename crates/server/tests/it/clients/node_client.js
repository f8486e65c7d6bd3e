// node-postgres beside a server: values, named statements, cursors and errors.
const assert = require("node:assert");
const { Client, Pool } = require("pg");

const where = { host: "127.0.0.1", port: Number(process.argv[2]), user: "tester", database: "any" };

async function main() {
  const c = new Client(where);
  await c.connect();
  await c.query("CREATE TABLE t (id INT PRIMARY KEY, d DATE, ts TIMESTAMPTZ, n NUMERIC(10,2), b BYTEA, a INT[], bi BIGINT)");
  const at = new Date(Date.UTC(2020, 0, 2));
  const added = await c.query("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *", [
    1, at, at, "1.5", Buffer.from("ab"), [1, 2], "99999999999",
  ]);
  const row = added.rows[0];
  assert.deepStrictEqual([row.n, row.b.toString(), row.a, row.bi, row.ts.getTime()], ["1.50", "ab", [1, 2], "99999999999", at.getTime()]);
  const { rows } = await c.query("SELECT id FROM t WHERE id = ANY($1)", [[1, 2]]);
  assert.deepStrictEqual(rows, [{ id: 1 }]);
  const described = (await c.query("SELECT id, d FROM t WHERE id = $1", [1])).fields;
  assert.deepStrictEqual(described.map((f) => [f.name, f.dataTypeID, f.columnID]), [["id", 23, 1], ["d", 1082, 2]]);
  assert(described[0].tableID > 0);
  for (let n = 0; n < 3; n++) {
    const named = await c.query({ name: "one", text: "SELECT $1::text AS x, $2 AS y", values: ["a", n] });
    assert.deepStrictEqual(named.rows, [{ x: "a", y: String(n) }]);
  }
  const built = await c.query("SELECT json_build_object('a', 1, 'b', ARRAY[1, 2]) AS j");
  assert.deepStrictEqual(built.rows[0].j, { a: 1, b: [1, 2] });
  await c.query("BEGIN");
  await assert.rejects(c.query("INSERT INTO t (id) VALUES (1)"), (error) => {
    assert.deepStrictEqual([error.code, error.table, error.constraint], ["23505", "t", "t_pkey"]);
    return true;
  });
  await c.query("ROLLBACK");
  await c.end();
  const pool = new Pool(where);
  const all = await Promise.all([1, 2, 3].map((n) => pool.query("SELECT $1::int AS n", [n])));
  assert.deepStrictEqual(all.map((one) => one.rows[0].n), [1, 2, 3]);
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
