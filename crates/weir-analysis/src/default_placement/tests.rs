//! Placement of tables that nothing else places: beside parents, by keys, and chains of them.

use weir_sql::{Application, Sources};

use crate::open_world::plan_anew;
use crate::placement::lives;

const PARENTS: &str = "
    CREATE TABLE p (id int PRIMARY KEY, mail text NOT NULL UNIQUE);
    CREATE TABLE q (id bigint PRIMARY KEY);
    CREATE TABLE pair (a int, b int, PRIMARY KEY (a, b));
    CREATE TABLE exact (id numeric PRIMARY KEY);
    CREATE TABLE country (code text PRIMARY KEY);
    COMMENT ON TABLE country IS 'weir: replicated';
";

fn load(text: &str) -> Application {
    let mut sources = Sources::default();
    sources.add("schema.sql", text);
    weir_sql::load(sources).unwrap_or_else(|(_, wrong)| panic!("{text}: {wrong:?}"))
}

/// Where the last table of the schema lives, which begins with the parents.
fn check(tables: &str, expect: &str) {
    let application = load(&format!("{PARENTS}{tables}"));
    let plan = plan_anew(&application, Vec::new(), 0);
    let last = application.catalog.tables.iter().next_back().expect("there are some");
    assert_eq!(lives(&application.catalog, &plan.placement, last.id), expect, "{tables}");
}

#[test]
fn a_child_lives_beside_its_parent_where_one_foreign_key_decides() {
    let beside_p = "by (p), beside p by foreign key c_p_fkey";
    check("CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL REFERENCES p)", beside_p);
    check("CREATE TABLE c (id serial PRIMARY KEY, p bigint NOT NULL REFERENCES p)", beside_p);
    check("CREATE TABLE c (p int PRIMARY KEY REFERENCES p)", beside_p);
    check("CREATE TABLE c (p int REFERENCES p, n int, PRIMARY KEY (p, n))", beside_p);
    // References that may be absent, to itself, and to copies decide nothing.
    check(
        "CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL REFERENCES p, q bigint REFERENCES q, up int NOT NULL REFERENCES c,
            code text NOT NULL REFERENCES country)",
        beside_p,
    );
    // The parent's order of columns.
    check(
        "CREATE TABLE c (id int PRIMARY KEY, y int NOT NULL, x int NOT NULL, FOREIGN KEY (y, x) REFERENCES pair (b, a))",
        "by (x, y), beside pair by foreign key c_y_x_fkey",
    );
    // Of several the one that is part of the primary key.
    check(
        "CREATE TABLE c (p int REFERENCES p, n int, q bigint NOT NULL REFERENCES q, PRIMARY KEY (p, n))",
        beside_p,
    );
}

#[test]
fn chains_follow() {
    let child = "CREATE TABLE d (p int REFERENCES p, n int, PRIMARY KEY (p, n));";
    check(
        &format!(
            "{child} CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL, n int NOT NULL, FOREIGN KEY (p, n) REFERENCES d)"
        ),
        "by (p), beside d by foreign key c_p_n_fkey",
    );
    // The key of the child does not say where the child lives.
    check(
        "CREATE TABLE d (id int PRIMARY KEY, p int NOT NULL REFERENCES p);
         CREATE TABLE c (id int PRIMARY KEY, d int NOT NULL REFERENCES d)",
        "by (id), the primary key",
    );
    // But it is known at its owner whether there is such a row.
    check(
        "CREATE TABLE d (id int PRIMARY KEY, p int NOT NULL REFERENCES p);
         CREATE TABLE c (d int REFERENCES d, n int, p int NOT NULL REFERENCES p, PRIMARY KEY (d, n))",
        "by (d), beside the key of d by foreign key c_d_fkey",
    );
    check(
        "CREATE TABLE d (id int PRIMARY KEY, p int NOT NULL REFERENCES p, x int, y int, UNIQUE (x, y));
         CREATE TABLE c (a int, b int, n int, PRIMARY KEY (a, b, n), FOREIGN KEY (b, a) REFERENCES d (y, x))",
        "by (a, b), beside the key of d by foreign key c_b_a_fkey",
    );
    check(
        "CREATE TABLE c (id int PRIMARY KEY, d int NOT NULL);
         CREATE TABLE d (id int PRIMARY KEY, c int NOT NULL REFERENCES c);
         ALTER TABLE c ADD FOREIGN KEY (d) REFERENCES d",
        "by (c), beside c by foreign key d_c_fkey",
    );
}

/// As pg_dump writes them: keys behind all tables, primary ones first.
#[test]
fn keys_that_alter_table_adds_decide_as_those_of_create_table() {
    check(
        "CREATE TABLE d (id int NOT NULL, p int NOT NULL);
         CREATE TABLE c (id int NOT NULL, p int NOT NULL, note text);
         ALTER TABLE ONLY d ADD CONSTRAINT d_pkey PRIMARY KEY (id);
         ALTER TABLE ONLY c ADD CONSTRAINT c_pkey PRIMARY KEY (id);
         ALTER TABLE ONLY c ADD CONSTRAINT c_p_fkey FOREIGN KEY (p) REFERENCES p(id);
         ALTER TABLE ONLY d ADD CONSTRAINT d_p_fkey FOREIGN KEY (p) REFERENCES p(id)",
        "by (p), beside p by foreign key c_p_fkey",
    );
    // The key of the parent, and the primary key that the foreign key is in, come later than the table.
    check(
        "CREATE TABLE d (id int NOT NULL, p int NOT NULL);
         CREATE TABLE c (d int NOT NULL, n int NOT NULL, q bigint NOT NULL);
         ALTER TABLE ONLY d ADD CONSTRAINT d_pkey PRIMARY KEY (id);
         ALTER TABLE ONLY c ADD CONSTRAINT c_pkey PRIMARY KEY (d, n);
         ALTER TABLE ONLY c ADD CONSTRAINT c_q_fkey FOREIGN KEY (q) REFERENCES q(id);
         ALTER TABLE ONLY c ADD CONSTRAINT c_d_fkey FOREIGN KEY (d) REFERENCES d(id);
         ALTER TABLE ONLY d ADD CONSTRAINT d_p_fkey FOREIGN KEY (p) REFERENCES p(id)",
        "by (d), beside the key of d by foreign key c_d_fkey",
    );
}

#[test]
fn others_live_by_the_whole_primary_key() {
    check("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)", "by (id), the primary key");
    check("CREATE TABLE c (a int, b int, PRIMARY KEY (b, a))", "by (b, a), the primary key");
    check(
        "CREATE TABLE c (p int REFERENCES p, q bigint REFERENCES q, PRIMARY KEY (p, q))",
        "by (p, q), the primary key",
    );
    check(
        "CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL REFERENCES p, q bigint NOT NULL REFERENCES q)",
        "by (id), the primary key",
    );
    check(
        "CREATE TABLE c (id int PRIMARY KEY, mail text NOT NULL REFERENCES p (mail))",
        "by (id), the primary key",
    );
    // Equal numbers of different types may have different places.
    check("CREATE TABLE c (id int PRIMARY KEY, x int NOT NULL REFERENCES exact)", "by (id), the primary key");
    // An id is drawn where the row lives.
    check("CREATE TABLE c (tenant int, id serial, PRIMARY KEY (tenant, id))", "by (tenant), the primary key");
    // What a statement does not say by itself.
    check(
        "CREATE TABLE c (room text, at timestamptz, day date DEFAULT CURRENT_DATE, n int DEFAULT 1, PRIMARY KEY (room, at, day, n))",
        "by (room, n), the primary key",
    );
    check("CREATE TABLE c (id uuid DEFAULT gen_random_uuid() PRIMARY KEY)", "by (id), the primary key");
    check("CREATE TABLE c (n int)", "by (n), its first column, since it has no primary key");
    check(
        "CREATE TABLE c (id int PRIMARY KEY, p int NOT NULL REFERENCES p); COMMENT ON TABLE c IS 'weir: partition by (id)'",
        "by (id), as its comment says",
    );
}
