//! Operation Partitioning: conflicts, classes and routing, case by case (operation-partitioning.txt §3).

use crate::support;

use weir_analysis::partitioning::{Definition, Method, Sets, conflict, partition};
use weir_analysis::{Analysis, Weights, analyze};
use weir_sql::Application;

/// `name: class (parameters)` of every transaction.
fn classes(app: &Application, analysis: &Analysis) -> Vec<String> {
    let routings = analysis.partitioning.transactions.iter().zip(&app.procedures);
    routings
        .map(|(routing, procedure)| {
            let parameters = routing.parameters();
            let names: Vec<&str> =
                parameters.iter().map(|&at| procedure.parameters[at].name.as_str()).collect();
            format!("{}: {} ({})", procedure.name, routing.class.name(), names.join(", "))
        })
        .collect()
}

/// Read to be analysed: triggers, exclusions and computed columns do not run yet.
fn application(schema: &str, procedures: &[(&str, &str)]) -> Application {
    let mut text = schema.to_string();
    for (head, body) in procedures {
        text.push_str(&format!(
            "CREATE PROCEDURE {head} LANGUAGE plpgsql AS $$ DECLARE n integer; m bigint; BEGIN {body} END; $$;\n"
        ));
    }
    support::read_to_analyze(&text)
}

struct Case {
    what: &'static str,
    schema: &'static str,
    procedures: &'static [(&'static str, &'static str)],
    expect: &'static [&'static str],
}

#[track_caller]
fn check(cases: &[Case]) {
    let mut errors = Vec::new();
    for case in cases {
        let app = application(case.schema, case.procedures);
        let actual = classes(&app, &analyze(&app));
        if actual != case.expect {
            errors.push(format!("{}:\n  is  {actual:?}\n  not {:?}", case.what, case.expect));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

const CARTS: &str = "
    CREATE TABLE sc (id bigint, i_id integer, qty integer NOT NULL, PRIMARY KEY (id, i_id));
    CREATE TABLE item (i_id integer PRIMARY KEY, stock integer NOT NULL);";

const ROWS: &str = "CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer, label text, v integer);";

/// The paper's own examples.
#[test]
fn as_the_paper_says() {
    check(&[
        Case {
            what: "§3.1: createCart and doCart share the cart's id",
            schema: "CREATE TABLE sc (id bigint, i_id integer, qty integer, PRIMARY KEY (id));",
            procedures: &[
                ("create_cart(sid bigint)", "INSERT INTO sc (id) VALUES (sid);"),
                (
                    "do_cart(sid bigint, iid integer, q integer)",
                    "UPDATE sc SET qty = q WHERE id = sid AND i_id = iid;",
                ),
            ],
            expect: &["create_cart: local (sid)", "do_cart: local (sid)"],
        },
        Case {
            what: "Figure 1: order is global because of the stock, the others are local",
            schema: CARTS,
            procedures: &[
                (
                    "add(c bigint, i integer, q integer)",
                    "SELECT stock INTO STRICT n FROM item WHERE i_id = i;
                     IF n < q THEN RAISE EXCEPTION 'sold out'; END IF;
                     INSERT INTO sc VALUES (c, i, q);",
                ),
                (
                    "order_all(c bigint)",
                    "UPDATE item SET stock = stock - sc.qty FROM sc WHERE sc.id = c AND sc.i_id = item.i_id;",
                ),
                ("view(c bigint)", "SELECT sum(qty) INTO n FROM sc WHERE id = c;"),
            ],
            expect: &["add: local (c)", "order_all: global (c)", "view: local (c)"],
        },
        Case {
            what: "§3.2 commutative: reads what never changes; writes what nobody reads",
            schema: "CREATE TABLE config (name text PRIMARY KEY, value text);
                     CREATE TABLE log (at timestamp, line text);
                     CREATE TABLE event (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, line text);",
            procedures: &[
                ("setting(wanted text)", "PERFORM value FROM config WHERE name = wanted;"),
                ("note(what text)", "INSERT INTO log VALUES (now(), what);"),
                ("record(what text)", "INSERT INTO event (line) VALUES (what);"),
            ],
            expect: &["setting: commutative ()", "note: commutative ()", "record: commutative ()"],
        },
        Case {
            what: "§3.1 several parameters: bids by bidder and by item",
            schema: "CREATE TABLE bid (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                       bidder bigint NOT NULL, item bigint NOT NULL, amount integer);",
            procedures: &[
                (
                    "store(who bigint, what bigint, n integer)",
                    "INSERT INTO bid (bidder, item, amount) VALUES (who, what, n);",
                ),
                ("mine(who bigint)", "SELECT sum(amount) INTO n FROM bid WHERE bidder = who;"),
                ("history(what bigint)", "SELECT max(amount) INTO n FROM bid WHERE item = what;"),
            ],
            expect: &["store: local/global (who, what)", "mine: local (who)", "history: local (what)"],
        },
        Case {
            what: "§6: a server's own ids route to it",
            schema: "CREATE TABLE cart (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size integer);",
            procedures: &[
                ("create_cart()", "INSERT INTO cart (size) VALUES (0);"),
                ("change(c bigint)", "UPDATE cart SET size = size + 1 WHERE id = c;"),
            ],
            expect: &["create_cart: local ()", "change: local (c)"],
        },
    ]);
}

/// Accesses that the paper's sets omit.
#[test]
fn accesses_beyond_the_paper() {
    check(&[
        Case {
            what: "columns in conditions are read",
            schema: ROWS,
            procedures: &[
                ("mark(k integer)", "UPDATE t SET a = 1 WHERE id = k;"),
                ("marked(l text)", "SELECT count(*) INTO n FROM t WHERE label = l AND a = 1;"),
            ],
            expect: &["mark: global (k)", "marked: local ()"],
        },
        Case {
            what: "rows that come and go are read by whoever counts",
            schema: ROWS,
            procedures: &[
                ("drop_row(k integer)", "DELETE FROM t WHERE id = k;"),
                ("count_all()", "SELECT count(*) INTO n FROM t;"),
            ],
            expect: &["drop_row: global (k)", "count_all: local ()"],
        },
        Case {
            what: "a condition on a column that changes tells no rows apart",
            schema: ROWS,
            procedures: &[
                ("count_label(l text)", "UPDATE t SET v = v + 1 WHERE label = l;"),
                ("relabel(k integer, l text)", "UPDATE t SET label = l WHERE id = k;"),
            ],
            expect: &["count_label: global ()", "relabel: global (k)"],
        },
        Case {
            what: "the same, if nobody changes it",
            schema: ROWS,
            procedures: &[("count_label(l text)", "UPDATE t SET v = v + 1 WHERE label = l;")],
            expect: &["count_label: local (l)"],
        },
        Case {
            what: "a unique value is looked for",
            schema: "CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE);",
            procedures: &[
                ("register(who text)", "INSERT INTO u (name) VALUES (who);"),
                ("rename(k bigint)", "PERFORM 1 FROM u WHERE id = k;"),
            ],
            expect: &["register: local (who)", "rename: local (k)"],
        },
        Case {
            what: "also by calls of the one transaction that writes the table",
            schema: "CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE NOT NULL);",
            procedures: &[("register(who text, m text)", "INSERT INTO u (name) VALUES (who);")],
            expect: &["register: local (who)"],
        },
        Case {
            what: "an excluded row is looked for, where its operator is equality",
            schema: "CREATE TABLE stay (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, room integer NOT NULL,
                         nights daterange, EXCLUDE USING gist (room WITH =, nights WITH &&));",
            procedures: &[("book(r integer)", "INSERT INTO stay (room) VALUES (r);")],
            expect: &["book: local (r)"],
        },
        Case {
            what: "what is computed from a column changes with it",
            schema: "CREATE TABLE t (id integer PRIMARY KEY, a integer, twice integer GENERATED ALWAYS AS (a + a) STORED,
                                     thrice integer GENERATED ALWAYS AS (a + a + a) STORED);",
            procedures: &[
                ("put(k integer)", "INSERT INTO t (id, a) VALUES (k, 1);"),
                ("look()", "PERFORM 1 FROM t WHERE twice = 2 AND thrice = 3;"),
            ],
            expect: &["put: global (k)", "look: local ()"],
        },
        Case {
            what: "triggers write too",
            schema: "CREATE TABLE t (id integer PRIMARY KEY, v integer);
                     CREATE TABLE last (one integer PRIMARY KEY, id integer);
                     CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                         UPDATE last SET id = NEW.id WHERE one = 1; RETURN NEW; END; $$;
                     CREATE TRIGGER noted AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();",
            procedures: &[("put(k integer)", "UPDATE t SET v = 1 WHERE id = k;")],
            expect: &["put: global (k)"],
        },
        Case {
            what: "a parent is looked for",
            schema: "CREATE TABLE p (id integer PRIMARY KEY);
                     CREATE TABLE c (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, p integer REFERENCES p);",
            procedures: &[
                ("open(k integer)", "INSERT INTO p VALUES (k);"),
                ("use(k integer)", "INSERT INTO c (p) VALUES (k);"),
                ("use_two(k integer, l integer)", "INSERT INTO c (p) VALUES (k), (l);"),
            ],
            expect: &["open: global (k)", "use: local (k)", "use_two: local (k)"],
        },
        Case {
            what: "children go with their parent",
            schema: "CREATE TABLE p (id integer PRIMARY KEY);
                     CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p ON DELETE CASCADE, v integer);",
            procedures: &[
                ("close(k integer)", "DELETE FROM p WHERE id = k;"),
                ("of_child(k integer)", "SELECT v INTO n FROM c WHERE id = k;"),
            ],
            expect: &["close: global (k)", "of_child: local ()"],
        },
    ]);
}

/// Conditions beyond equalities of columns and parameters.
#[test]
fn conditions_beyond_the_paper() {
    let bodies: &[(&str, &str, &str, bool)] = &[
        ("other constants", "label = 'x'", "label = 'y'", false),
        ("the same constant", "label = 'x'", "label = 'x'", true),
        ("lists that share nothing", "a IN (1, 2)", "a IN (3, 4)", false),
        ("lists that share something", "a IN (1, 2)", "a IN (2, 3)", true),
        ("any of an array", "a = ANY (ARRAY[1, 2])", "a = 3", false),
        ("ranges apart", "a < 10", "a >= 10", false),
        ("ranges that meet", "a <= 10", "a >= 10", true),
        ("a range around", "a BETWEEN 3 AND 5", "a BETWEEN 6 AND 9", false),
        ("bounds through another column", "a < b AND b < 5", "a > 7", false),
        ("sums", "a = b + 1 AND b = 3", "a = 5", false),
        ("sums that fit", "a = b + 1 AND b = 3", "a = 4", true),
        ("not equal", "a <> 3", "a = 3", false),
        ("negated", "NOT (a = 3 OR b = 4)", "a = 3", false),
        ("alternatives, all apart", "(a = 1 OR a = 2)", "(a = 3 OR b = 4) AND b = 5", false),
        ("alternatives, one meets", "(a = 1 OR a = 2)", "(a = 2 OR b = 4) AND b = 5", true),
        ("null and a value", "a IS NULL", "a = 1", false),
        ("null and not null", "a IS NULL", "a IS NOT NULL", false),
        ("null and null", "a IS NULL", "a IS NULL", true),
        ("null and a parameter", "a IS NULL", "a = p", false),
        ("false", "false", "a = 1", false),
        ("the same function", "abs(a) = 1", "abs(a) = 2", false),
        ("another function", "abs(a) = 1", "a = -1", true),
        ("a subquery with the same row", "a IN (SELECT 7)", "a = 8", false),
        ("what is not understood", "label LIKE 'x%'", "label = 'y'", true),
        (
            "an outer join keeps what it does not match",
            "id IN (SELECT x.id FROM t x LEFT JOIN o ON x.a = 1)",
            "a = 2",
            true,
        ),
        ("an inner join does not", "id IN (SELECT x.id FROM t x JOIN o ON x.a = 1)", "a = 2", false),
        (
            "not exists says nothing of the row",
            "NOT EXISTS (SELECT 1 FROM o WHERE o.id = 1 AND t.a = 1)",
            "a = 1",
            true,
        ),
        ("exists does", "EXISTS (SELECT 1 FROM o WHERE o.id = t.a AND o.id = 1)", "a = 2", false),
    ];
    let schema = format!("{ROWS} CREATE TABLE o (id integer PRIMARY KEY, v integer);");
    let mut errors = Vec::new();
    for (what, one, other, meet) in bodies {
        let (one, other) =
            (format!("SELECT v INTO n FROM t WHERE {one};"), format!("UPDATE t SET v = 1 WHERE {other};"));
        let app = application(&schema, &[("l()", &one), ("r(p integer)", &other)]);
        let analysis = analyze(&app);
        let found = analysis.partitioning.conflicts.iter().any(|found| found.left != found.right);
        if found != *meet {
            errors.push(format!("{what}: is {found}"));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Keys that are equal for a reason that is not in one condition.
#[test]
fn keys_that_are_forced() {
    const ORDERS: &str = "
        CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, v integer);
        CREATE TABLE line (order_id bigint, n integer, v integer, PRIMARY KEY (order_id, n));";
    check(&[
        Case {
            what: "a line's order names the customer: joined rows with one key are one row",
            schema: ORDERS,
            procedures: &[
                (
                    "lines_of(c bigint)",
                    "SELECT sum(line.v) INTO n FROM orders JOIN line ON line.order_id = orders.id WHERE orders.customer = c;",
                ),
                (
                    "set_lines(d bigint)",
                    "UPDATE line SET v = 0 FROM orders WHERE line.order_id = orders.id AND orders.customer = d;",
                ),
            ],
            expect: &["lines_of: local (c)", "set_lines: local (d)"],
        },
        Case {
            what: "the order that is inserted with its lines",
            schema: "CREATE SEQUENCE ids;
                CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL);
                CREATE TABLE line (order_id bigint, n integer, v integer, PRIMARY KEY (order_id, n));",
            procedures: &[
                (
                    "lines_of(c bigint)",
                    "SELECT sum(line.v) INTO n FROM orders JOIN line ON line.order_id = orders.id WHERE orders.customer = c;",
                ),
                (
                    "buy(d bigint)",
                    "m := nextval('ids'); INSERT INTO orders VALUES (m, d); INSERT INTO line VALUES (m, 1, 5);",
                ),
            ],
            expect: &["lines_of: local (c)", "buy: local (d)"],
        },
        Case {
            what: "not if the order may be left out, so that somebody else may give the line one",
            schema: "CREATE SEQUENCE ids;
                CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL);
                CREATE TABLE line (order_id bigint, n integer, v integer);",
            procedures: &[
                (
                    "lines_of(c bigint)",
                    "SELECT sum(line.v) INTO n FROM orders JOIN line ON line.order_id = orders.id WHERE orders.customer = c;",
                ),
                (
                    "buy(d bigint, half boolean)",
                    "m := nextval('ids'); INSERT INTO line VALUES (m, 1, 5);
                     IF half THEN RETURN; END IF; INSERT INTO orders VALUES (m, d);",
                ),
                ("adopt(o bigint, c bigint)", "INSERT INTO orders VALUES (o, c);"),
            ],
            expect: &["lines_of: local (c)", "buy: global (d)", "adopt: local/global (o, c)"],
        },
        Case {
            what: "a number that is taken is seen by whoever chooses it, whatever else the rows hold",
            schema: "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL);",
            procedures: &[("open(o bigint, c bigint)", "INSERT INTO orders VALUES (o, c);")],
            expect: &["open: local (o)"],
        },
        Case {
            what: "not if orders may go and come back with another customer",
            schema: ORDERS,
            procedures: &[
                (
                    "lines_of(c bigint)",
                    "SELECT sum(line.v) INTO n FROM orders JOIN line ON line.order_id = orders.id WHERE orders.customer = c;",
                ),
                (
                    "set_lines(d bigint)",
                    "UPDATE line SET v = 0 FROM orders WHERE line.order_id = orders.id AND orders.customer = d;",
                ),
                ("forget(o bigint)", "DELETE FROM orders WHERE id = o;"),
            ],
            expect: &["lines_of: local ()", "set_lines: global ()", "forget: global (o)"],
        },
        Case {
            what: "a view is looked through",
            schema: "CREATE TABLE t (id integer PRIMARY KEY, v integer);
                     CREATE VIEW seen AS SELECT id, v FROM t WHERE v > 0;",
            procedures: &[
                ("look(k integer)", "SELECT v INTO n FROM seen WHERE id = k;"),
                ("put(k integer)", "UPDATE t SET v = 1 WHERE id = k;"),
            ],
            expect: &["look: local (k)", "put: local (k)"],
        },
        Case {
            what: "text and number are not routed alike",
            schema: "CREATE TABLE t (id integer PRIMARY KEY, v integer);",
            procedures: &[
                ("look(k text)", "SELECT v INTO n FROM t WHERE id = k::integer;"),
                ("put(k integer)", "UPDATE t SET v = 1 WHERE id = k;"),
            ],
            expect: &["look: local ()", "put: global (k)"],
        },
        Case {
            what: "nor is a value that the body replaces, nor one with several spellings",
            schema: "CREATE TABLE t (id integer PRIMARY KEY, v integer); CREATE TABLE p (id numeric PRIMARY KEY, v integer);",
            procedures: &[
                ("put(k integer)", "IF k < 0 THEN k := 0; END IF; UPDATE t SET v = 1 WHERE id = k;"),
                ("pay(k numeric)", "UPDATE p SET v = 1 WHERE id = k;"),
            ],
            expect: &["put: global ()", "pay: global ()"],
        },
        Case {
            what: "ids of two sequences may be one number",
            schema: "CREATE SEQUENCE one; CREATE SEQUENCE two; CREATE TABLE t (id bigint, v integer);",
            procedures: &[
                ("first()", "INSERT INTO t VALUES (nextval('one'), 1);"),
                ("second()", "m := nextval('two'); UPDATE t SET v = 1 WHERE id = m;"),
            ],
            expect: &["first: local ()", "second: local ()"],
        },
    ]);
}

/// The paper's sets hold what is returned and what is updated: they miss that `mark` decides what `marked` sees,
/// and what DELETE takes away. With them both would run anywhere.
#[test]
fn the_papers_sets_miss_conflicts() {
    let app = application(
        ROWS,
        &[
            ("mark(k integer)", "UPDATE t SET a = 1 WHERE id = k;"),
            ("marked()", "SELECT sum(v) INTO n FROM t WHERE a = 1;"),
            ("drop_row(k integer)", "DELETE FROM t WHERE id = k;"),
        ],
    );
    let effects = analyze(&app).effects;
    let pairs = |definition| {
        let sets = Sets::new(&app.catalog, &effects, definition);
        let found = conflict::conflicts(&app, &effects, &sets);
        found.iter().map(|found| (found.left, found.right)).collect::<Vec<_>>()
    };
    assert_eq!(pairs(Definition::Paper), [(0, 0)]);
    assert_eq!(pairs(Definition::Complete), [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]);
}

/// Weights decide which of two conflicts stays between servers.
#[test]
fn weights_steer_the_array() {
    let app = application(
        ROWS,
        &[
            (
                "touch(x integer, y integer)",
                "UPDATE t SET v = 1 WHERE a = x; UPDATE t SET label = '' WHERE b = y;",
            ),
            ("by_a(x integer)", "SELECT v INTO n FROM t WHERE a = x;"),
            ("by_b(y integer)", "PERFORM label FROM t WHERE b = y;"),
        ],
    );
    let effects = analyze(&app).effects;
    let home = |name: &str| {
        let weights = Weights { by_name: [(name.to_string(), 10.0)].into() };
        partition(&app, &effects, &weights).transactions[0].home
    };
    assert_eq!(home("by_a"), Some(0));
    assert_eq!(home("by_b"), Some(1));
}

/// A declared placement decides by what those are routed who find their rows by it, whatever the weights say.
#[test]
fn declared_placements_are_fixed() {
    let home = |comment: &str| {
        let app = support::application(&[(
            "case.sql",
            &format!(
                "CREATE TABLE t (a integer PRIMARY KEY, v integer); CREATE TABLE u (b integer PRIMARY KEY, v integer);
                 {comment}
                 CREATE PROCEDURE p(x integer, y integer) LANGUAGE plpgsql AS $$ BEGIN
                     UPDATE t SET v = 1 WHERE a = x; UPDATE u SET v = 1 WHERE b = y; END; $$;
                 CREATE PROCEDURE q(x integer) LANGUAGE plpgsql AS $$ BEGIN
                     UPDATE t SET v = 2 WHERE a = x; END; $$;
                 CREATE PROCEDURE r(y integer) LANGUAGE plpgsql AS $$ BEGIN
                     UPDATE u SET v = 2 WHERE b = y; END; $$;"
            ),
        )]);
        let weights = Weights { by_name: [("q".to_string(), 10.0)].into() };
        partition(&app, &analyze(&app).effects, &weights).transactions[0].home
    };
    assert_eq!(home(""), Some(0));
    assert_eq!(home("COMMENT ON TABLE u IS 'weir: partition by (b)';"), Some(1));
    assert_eq!(home("COMMENT ON TABLE t IS 'weir: partition by (a)';"), Some(0));
    assert_eq!(home("COMMENT ON TABLE u IS 'weir: partition by (v)';"), Some(0));
}

/// A recursive body that is not followed may access anything.
#[test]
fn what_is_not_followed_is_global() {
    let app = support::application(&[(
        "case.sql",
        "CREATE TABLE t (id integer PRIMARY KEY, v integer);
         CREATE PROCEDURE again(k integer) LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET v = 1 WHERE id = k; CALL again(k); END; $$;
         CREATE PROCEDURE look(k integer) LANGUAGE plpgsql AS $$ BEGIN
             PERFORM v FROM t WHERE id = k; END; $$;",
    )]);
    assert_eq!(classes(&app, &analyze(&app)), ["again: global ()", "look: local ()"]);
}

/// Every global transaction says which conflict makes it so, in the plan, in JSON and in the text.
#[test]
fn every_global_transaction_has_a_reason() {
    for example in ["tpcc", "tpcw", "rubis", "payroll", "smallbank", "social", "auction", "escrow-tickets"] {
        let app = support::example(example, |_, text| text);
        let analysis = analyze(&app);
        let json = weir_analysis::to_json(&app, &analysis);
        let transactions = json["transactions"].as_array().expect("a list");
        for transaction in transactions {
            let class = transaction["class"].as_str().expect("a class");
            let reason = transaction["global_because"]["text"].as_str();
            assert_eq!(reason.is_some(), class.contains("global"), "{example}: {transaction}");
        }
    }
}

/// From the array to the tables' columns: the user's come first, then those that calls find their rows by.
#[test]
fn placement_follows_the_array() {
    const TEXT: &str = "
        CREATE TABLE shop (id integer PRIMARY KEY, v integer);
        CREATE TABLE sale (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shop integer, v integer);
        CREATE TABLE town (id integer PRIMARY KEY, name text);
        CREATE PROCEDURE sell(s integer) LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO sale (shop, v) VALUES (s, 1); UPDATE shop SET v = v + 1 WHERE id = s; END; $$;
        CREATE PROCEDURE sales(s integer) LANGUAGE plpgsql AS $$ BEGIN
            PERFORM sum(v) FROM sale WHERE shop = s; PERFORM v FROM shop WHERE id = s; END; $$;
        CREATE PROCEDURE where_is(k integer) LANGUAGE plpgsql AS $$ BEGIN
            PERFORM name FROM town WHERE id = k; END; $$;";
    let columns = |text: &str| -> Vec<String> {
        let app = support::application(&[("case.sql", text)]);
        let json = weir_analysis::to_json(&app, &analyze(&app));
        let tables = json["tables"].as_array().expect("a list").iter();
        tables.map(|table| format!("{}{}", table["partition_columns"], table["replicated"])).collect()
    };
    assert_eq!(columns(TEXT), ["[\"id\"]false", "[\"shop\"]false", "[]true"]);
    let declared = format!("{TEXT} COMMENT ON TABLE sale IS 'weir: partition by (id)';");
    assert_eq!(columns(&declared), ["[\"id\"]false", "[\"id\"]false", "[]true"]);
}

/// Sixty procedures with six parameters each over fourteen tables: decided exactly.
#[test]
fn sixty_procedures() {
    let mut seed = 3u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut text = String::new();
    for table in 0..14 {
        text.push_str(&format!(
            "CREATE TABLE t{table} (a bigint, b bigint, c bigint, v integer, PRIMARY KEY (a, b, c));"
        ));
    }
    for procedure in 0..60 {
        let mut body = String::new();
        for _ in 0..4 {
            let table = below(14);
            let (one, other) = (["a", "b"][below(2) as usize], ["b", "c"][below(2) as usize]);
            let condition = format!("{one} = p{} AND {other} = p{}", below(6), below(6));
            body.push_str(&match below(3) {
                0 => format!("UPDATE t{table} SET v = 1 WHERE {condition};"),
                _ => format!("PERFORM v FROM t{table} WHERE {condition};"),
            });
        }
        let parameters: Vec<String> = (0..6).map(|index| format!("p{index} bigint")).collect();
        let parameters = parameters.join(", ");
        text.push_str(&format!(
            "CREATE PROCEDURE q{procedure}({parameters}) LANGUAGE plpgsql AS $$ BEGIN {body} END; $$;"
        ));
    }
    let app = support::application(&[("sixty.sql", &text)]);
    let partitioning = analyze(&app).partitioning;
    assert_eq!(partitioning.method, Method::BranchAndBound);
    assert_eq!(partitioning.gap(), 0.0);
}
