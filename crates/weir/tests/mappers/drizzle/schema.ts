// Tables as drizzle-kit is given them.
import { boolean, index, integer, jsonb, numeric, pgEnum, pgTable, primaryKey, serial, text, timestamp, uuid, varchar } from "drizzle-orm/pg-core";

export const mood = pgEnum("mood", ["sad", "ok"]);

export const people = pgTable("people", {
  id: serial("id").primaryKey(),
  name: varchar("name", { length: 50 }).notNull(),
  email: text("email").notNull().unique(),
  mood: mood("mood").default("ok"),
  about: jsonb("about"),
  tags: text("tags").array(),
  born: timestamp("born", { withTimezone: true }).defaultNow().notNull(),
  price: numeric("price", { precision: 10, scale: 2 }),
  code: uuid("code").defaultRandom(),
}, (table) => [index("people_name").on(table.name)]);

export const posts = pgTable("posts", {
  id: integer("id").primaryKey().generatedAlwaysAsIdentity(),
  person: integer("person").notNull().references(() => people.id, { onDelete: "cascade" }),
  shown: boolean("shown").default(false),
});

export const likes = pgTable("likes", {
  person: integer("person").notNull().references(() => people.id),
  post: integer("post").notNull().references(() => posts.id),
}, (table) => [primaryKey({ columns: [table.person, table.post] })]);
