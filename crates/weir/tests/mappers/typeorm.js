// What an application does with TypeORM; the port is the first argument, the folder of its packages the second.
const { createRequire } = require("node:module");
const assert = require("node:assert/strict");

const packages = createRequire(`${process.argv[3]}/`);
packages("reflect-metadata");
const { DataSource, EntitySchema } = packages("typeorm");

const id = { type: Number, primary: true, generated: true };
const Team = new EntitySchema({
  name: "Team",
  columns: { id, name: { type: "varchar", length: 40, unique: true } },
  relations: { people: { type: "one-to-many", target: "Person", inverseSide: "team" } },
});
const Person = new EntitySchema({
  name: "Person",
  columns: {
    id,
    email: { type: "text", unique: true },
    state: { type: "enum", enum: ["new", "old"], default: "new" },
    tags: { type: "text", array: true, default: "{}" },
    about: { type: "jsonb", nullable: true },
    balance: { type: "numeric", precision: 10, scale: 2, default: 0 },
    born: { type: "timestamptz", createDate: true },
  },
  indices: [{ columns: ["state", "email"] }],
  relations: { team: { type: "many-to-one", target: "Team", inverseSide: "people", joinColumn: true, onDelete: "CASCADE" } },
});

async function main() {
  const options = { type: "postgres", host: "127.0.0.1", port: Number(process.argv[2]), username: "ann", database: "weir" };
  const ann = new DataSource({ ...options, entities: [Team, Person] });
  await ann.initialize();
  await ann.synchronize();
  // Nothing is left to do.
  const left = await ann.driver.createSchemaBuilder().log();
  assert.deepEqual(left.upQueries.map((one) => one.query), []);
  const [teams, people] = [ann.getRepository(Team), ann.getRepository(Person)];
  const team = await teams.save({ name: "one" });
  await people.save([
    { email: "a@x", tags: ["x", "y z"], about: { a: [1] }, team },
    { email: "b@x", state: "old", balance: "7.50", team },
  ]);
  const [found] = await people.find({ where: { state: "new" }, relations: { team: true } });
  assert.deepEqual([found.id, found.tags, found.about, found.balance, found.team.name], [1, ["x", "y z"], { a: [1] }, "0.00", "one"]);
  assert.ok(found.born instanceof Date);
  await people.update({ email: "a@x" }, { state: "old" });
  await people.upsert({ email: "b@x", balance: "9.00", team }, ["email"]);
  const sum = await people.createQueryBuilder("p").select("SUM(p.balance)", "sum").where("p.state = :state", { state: "old" }).getRawOne();
  assert.equal(sum.sum, "9.00");
  await assert.rejects(people.insert({ email: "a@x", team }), { code: "23505" });
  await assert.rejects(ann.transaction(async (of) => { await of.delete(Person, { email: "a@x" }); throw new Error("no"); }), { message: "no" });
  assert.equal(await people.count(), 2);
  await teams.delete(team.id);
  assert.equal(await people.count(), 0);
  await ann.dropDatabase();
  await ann.destroy();
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
