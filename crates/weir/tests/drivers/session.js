// What an application does with node-postgres; the port is the first argument, the folder of its packages the second.
const { createRequire } = require("node:module");
const assert = require("node:assert/strict");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

const packages = createRequire(`${process.argv[3]}/`);
const { Client } = packages("pg");
const Cursor = packages("pg-cursor");
const { from, to } = packages("pg-copy-streams");
const options = { host: "127.0.0.1", port: Number(process.argv[2]), user: "ann", database: "weir" };

async function main() {
  const ann = new Client(options);
  await ann.connect();
  // Types to and fro.
  const types = await ann.query(
    "SELECT $1::int4 a, $2::int8 b, $3::float8 c, $4::numeric d, $5::text e, $6::bool f, $7::bytea g, $8::int4[] h, $9::jsonb i",
    [7, "1099511627776", 1.5, "-12.340", "it's ü", true, Buffer.from([0, 255]), [1, null, 3], { x: [1] }],
  );
  assert.deepEqual(types.rows, [
    { a: 7, b: "1099511627776", c: 1.5, d: "-12.340", e: "it's ü", f: true, g: Buffer.from([0, 255]), h: [1, null, 3], i: { x: [1] } },
  ]);
  // In binary, and prepared by name.
  for (let id = 1; id < 10; id++) {
    const found = await ann.query({ name: "owner", text: "SELECT id, owner FROM account WHERE id = $1", values: [id], binary: id % 2 === 0 });
    assert.deepEqual(found.rows, [{ id, owner: `owner ${id}` }]);
  }
  // A transaction with an error, rolled back.
  await ann.query("BEGIN");
  await ann.query("UPDATE account SET balance = 0 WHERE id = 1");
  await assert.rejects(ann.query("INSERT INTO account (id, owner) VALUES ($1, $2)", [1, "again"]), (error) => {
    assert.equal(error.code, "23505");
    assert.equal(error.constraint, "account_pkey");
    assert.match(error.detail, /already exists/);
    return true;
  });
  await assert.rejects(ann.query("SELECT 1"), { code: "25P02" });
  await ann.query("ROLLBACK");
  assert.equal((await ann.query("SELECT balance FROM account WHERE id = 1")).rows[0].balance, "10.00");
  await assert.rejects(ann.query("SELECT balanse FROM account"), { code: "42703", position: "8" });
  // Many at once.
  const counts = await Promise.all(
    Array.from({ length: 50 }, (_, n) => ann.query("INSERT INTO account (id, owner) VALUES ($1, $2)", [200 + n, `o${n}`])),
  );
  assert.ok(counts.every((one) => one.rowCount === 1 && one.command === "INSERT"));
  // COPY both ways.
  const lines = Array.from({ length: 3000 }, (_, n) => `${1000 + n}\tcopied\t2.50\n`);
  await pipeline(Readable.from(lines), ann.query(from("COPY account (id, owner, balance) FROM STDIN")));
  const said = [];
  for await (const chunk of ann.query(to("COPY (SELECT id FROM account WHERE id >= 3998 ORDER BY id) TO STDOUT"))) said.push(chunk);
  assert.equal(Buffer.concat(said).toString(), "3998\n3999\n");
  // Some rows at a time.
  await ann.query("BEGIN");
  const cursor = ann.query(new Cursor("SELECT id FROM account WHERE id >= $1 ORDER BY id", [1000]));
  let seen = 0;
  for (;;) {
    const rows = await cursor.read(700);
    if (rows.length === 0) break;
    seen += rows.length;
  }
  assert.equal(seen, 3000);
  await cursor.close();
  await ann.query("COMMIT");
  // A time-out ends what waits for a row.
  const bob = new Client(options);
  await bob.connect();
  await bob.query("BEGIN");
  await bob.query("UPDATE account SET balance = 5 WHERE id = 2");
  await ann.query("SET statement_timeout = 300");
  await assert.rejects(ann.query("UPDATE account SET balance = 6 WHERE id = 2"), { code: "57014" });
  await bob.query("ROLLBACK");
  const called = await ann.query("CALL look(7, NULL, NULL)");
  assert.deepEqual([called.command, called.rows], ["CALL", [{ who: "owner 7", balance: "10.00" }]]);
  await Promise.all([ann.end(), bob.end()]);
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
