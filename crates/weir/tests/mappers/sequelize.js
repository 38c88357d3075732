// What an application does with Sequelize; the port is the first argument, the folder of its packages the second.
const { createRequire } = require("node:module");
const assert = require("node:assert/strict");

const packages = createRequire(`${process.argv[3]}/`);
const { Sequelize, DataTypes, Op } = packages("sequelize");

async function main() {
  const ann = new Sequelize("weir", "ann", "", { host: "127.0.0.1", port: Number(process.argv[2]), dialect: "postgres", logging: false });
  await ann.authenticate();
  const { STRING, INTEGER, JSONB, ARRAY, ENUM, TEXT, BIGINT, BOOLEAN } = DataTypes;
  const User = ann.define("User", {
    name: { type: STRING, allowNull: false, unique: true },
    age: INTEGER,
    tags: ARRAY(STRING),
    about: JSONB,
    state: ENUM("on", "off"),
  }, { indexes: [{ fields: ["age", "name"] }] });
  const Post = ann.define("Post", { title: TEXT });
  User.hasMany(Post, { onDelete: "CASCADE" });
  Post.belongsTo(User);
  await ann.sync({ force: true });
  await ann.sync();
  await ann.sync({ alter: true });

  await User.create({ name: "a", age: 3, tags: ["x"], about: { k: 1 }, state: "on" });
  await User.bulkCreate([{ name: "b" }, { name: "c" }]);
  const [upserted] = await User.upsert({ name: "b", age: 7 });
  assert.equal(upserted.age, 7);
  await Post.create({ title: "t", UserId: 1 });
  const users = await User.findAll({ include: Post, order: ["name"] });
  assert.deepEqual(users.map((one) => [one.name, one.age, one.Posts.length]), [["a", 3, 1], ["b", 7, 0], ["c", null, 0]]);
  assert.deepEqual([users[0].tags, users[0].about], [["x"], { k: 1 }]);
  assert.equal((await User.findAll({ where: { age: { [Op.gt]: 3 } } })).length, 1);
  await User.increment("age", { by: 2, where: { name: "a" } });
  const counted = await ann.transaction(async (transaction) => {
    await User.create({ name: "d" }, { transaction });
    return User.count({ transaction });
  });
  assert.equal(counted, 4);
  // It is one transaction: a function in pg_temp tells of a key that is there already.
  const [made, isNew] = await User.findOrCreate({ where: { name: "e" }, defaults: { age: 9, tags: ["y"], about: { k: 2 } } });
  assert.deepEqual([isNew, made.name, made.age, made.tags, made.about, made.id > 0], [true, "e", 9, ["y"], { k: 2 }, true]);
  const [found, isNewAgain] = await User.findOrCreate({ where: { name: "e" }, defaults: { age: 10 } });
  assert.deepEqual([isNewAgain, found.id, found.age], [false, made.id, 9]);
  // Its name is taken, by one that the condition does not find.
  await assert.rejects(User.findOrCreate({ where: { age: 77 }, defaults: { name: "e" } }), /validation|unique/i);
  const many = await Promise.all([1, 2, 3].map(() => User.findOrCreate({ where: { name: "f" }, defaults: { age: 1 } })));
  assert.equal(many.filter(([, isNew]) => isNew).length, 1);
  assert.equal(await User.destroy({ where: { name: ["e", "f"] } }), 2);
  assert.equal(await User.destroy({ where: { name: "a" } }), 1);
  assert.equal(await Post.count(), 0);

  const schema = ann.getQueryInterface();
  const columns = await schema.describeTable("Users");
  assert.deepEqual([columns.id.primaryKey, columns.name.type, columns.state.special], [true, "CHARACTER VARYING(255)", ["on", "off"]]);
  const indexes = await schema.showIndex("Users");
  const byAge = indexes.find((one) => one.name === "users_age_name");
  assert.deepEqual([byAge.unique, byAge.fields.map((field) => field.attribute)], [false, ["age", "name"]]);
  const constraints = await schema.showConstraint("Posts");
  assert.equal(constraints.filter((one) => one.constraintType === "FOREIGN KEY").length, 1);
  assert.equal((await schema.getForeignKeyReferencesForTable("Posts")).length, 1);
  await schema.addColumn("Users", "extra", { type: BOOLEAN, defaultValue: false });
  await schema.changeColumn("Users", "age", { type: BIGINT, allowNull: true });
  await schema.renameColumn("Users", "extra", "further");
  await schema.addIndex("Users", ["further"]);
  await schema.removeColumn("Users", "further");
  await schema.dropAllTables();
  await ann.close();
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
