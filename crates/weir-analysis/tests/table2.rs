//! coordination-avoidance.txt, Table 2, as its body says it (§5.1–5.2): invariant × operation → confluent?
//!
//! Each case is a schema, a procedure `t` and perhaps others, and the verdict on one invariant for `t`: the rule that
//! decides it, and where the paper says so. The table's garbled rows are read as the text does: `>` is confluent under
//! increment, not under decrement. The payroll of §2 and §5 and the bank of §4.1 and §5.2 are behind the table's rows.

use crate::support;

use weir_analysis::{Analysis, DecidedBy, GuardKind, InvariantId, Mechanism, Rule, Verdict, analyze};
use weir_sql::Application;

struct Case {
    /// The row of Table 2, or what of the text it is.
    row: &'static str,
    /// The section that says so.
    cites: &'static str,
    schema: &'static str,
    /// The body of procedure `t(p integer, q integer)`, then bodies of `u`, `v`.
    bodies: &'static [&'static str],
    invariant: &'static str,
    confluent: bool,
    guard: Option<GuardKind>,
    /// Rule that decides.
    rule: Rule,
}

const ITEM: &str = "CREATE TABLE item (id integer PRIMARY KEY, n integer NOT NULL, m integer);
                    COMMENT ON TABLE item IS 'weir: partition by (id)';";

const CASES: &[Case] = &[
    Case {
        row: "equality, any", cites: "§5.1 Equality", rule: Rule::PerRecord,
        schema: ITEM,
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "item.n not null",
        confluent: true,
        guard: None,
    },
    Case {
        row: "inequality, any", cites: "§5.1 Equality", rule: Rule::PerRecord,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <> 7));",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "c",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, choose specific value", cites: "§5.1 Uniqueness", rule: Rule::UniqueChosen,
        schema: ITEM,
        bodies: &["INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "uniqueness, choose some value", cites: "§5.1 Uniqueness", rule: Rule::UniqueGenerated,
        schema: "CREATE TABLE item (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);",
        bodies: &["INSERT INTO item (n) VALUES (q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, choose some value (uuid)", cites: "§5.1 Uniqueness", rule: Rule::UniqueGenerated,
        schema: "CREATE TABLE item (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, n integer);",
        bodies: &["INSERT INTO item (n) VALUES (q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, delete", cites: "§5.1 Uniqueness", rule: Rule::UniqueDelete,
        schema: ITEM,
        bodies: &["DELETE FROM item WHERE id = p;", "INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "uniqueness, read", cites: "§5.1 Uniqueness", rule: Rule::Untouched,
        schema: ITEM,
        bodies: &["PERFORM n FROM item WHERE id = p;", "INSERT INTO item (id, n) VALUES (p, q);"],
        invariant: "item_pkey",
        confluent: true,
        guard: None,
    },
    Case {
        row: "AUTO_INCREMENT (dense), insert", cites: "§5.1 Uniqueness", rule: Rule::DenseInsert,
        schema: DENSE,
        bodies: &["UPDATE counter SET next = next + 1 WHERE c = p RETURNING next - 1 INTO x;
                   INSERT INTO bill (c, no) VALUES (p, x);"],
        invariant: "dense",
        confluent: false,
        guard: Some(GuardKind::Sequence),
    },
    Case {
        row: "AUTO_INCREMENT (unique only), insert", cites: "§5.1 Uniqueness", rule: Rule::UniqueCounted,
        schema: "CREATE TABLE counter (c integer PRIMARY KEY, next integer NOT NULL);
                 CREATE TABLE bill (c integer, no integer, PRIMARY KEY (c, no));",
        bodies: &["UPDATE counter SET next = next + 1 WHERE c = p RETURNING next - 1 INTO x;
                   INSERT INTO bill (c, no) VALUES (p, x);"],
        invariant: "bill_pkey",
        confluent: false,
        guard: Some(GuardKind::Sequence),
    },
    Case {
        row: "AUTO_INCREMENT, number chosen by the caller", cites: "§5.1 Uniqueness", rule: Rule::DenseInsert,
        schema: DENSE,
        bodies: &["INSERT INTO bill (c, no) VALUES (p, q);"],
        invariant: "dense",
        confluent: false,
        guard: None,
    },
    Case {
        row: "foreign key, insert", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyInsert,
        schema: PARENT,
        bodies: &["INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "foreign key, insert beside delete", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyDelete,
        schema: PARENT,
        bodies: &["INSERT INTO child (parent) VALUES (p);", "DELETE FROM parent WHERE id = p;"],
        invariant: "has_parent",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "foreign key, delete", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyDelete,
        schema: PARENT,
        bodies: &["DELETE FROM parent WHERE id = p;", "INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: false,
        guard: Some(GuardKind::Claim),
    },
    Case {
        row: "foreign key, cascading delete", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyCascade,
        schema: CASCADE,
        bodies: &["DELETE FROM parent WHERE id = p;", "INSERT INTO child (parent) VALUES (p);"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "foreign key, insert beside cascading delete", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyCascade,
        schema: CASCADE,
        bodies: &["INSERT INTO child (parent) VALUES (p);", "DELETE FROM parent WHERE id = p;"],
        invariant: "has_parent",
        confluent: true,
        guard: None,
    },
    Case {
        row: "secondary indexing, update", cites: "§5.1, Table 2", rule: Rule::SecondaryIndex,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer); CREATE INDEX item_n ON item (n);",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "item_n",
        confluent: true,
        guard: None,
    },
    Case {
        row: "materialized views, update", cites: "§5.1 Materialized Views", rule: Rule::MaterializedView,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer);
                 CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM item;",
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        invariant: "total",
        confluent: true,
        guard: None,
    },
    Case {
        row: "> under increment", cites: "§5.2", rule: Rule::BoundAway,
        bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case { row: "> under decrement", bodies: &["UPDATE item SET n = n - 1 WHERE id = p;"], ..ABOVE },
    Case {
        row: "> under a delta of unknown sign", cites: "§5.2", rule: Rule::BoundToward,
        bodies: &["UPDATE item SET n = n + q WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "> under a delta that is checked to be positive", cites: "§5.2", rule: Rule::BoundAway,
        bodies: &["IF q <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE item SET n = n + q WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case {
        row: "> under a delta that only one branch checks", cites: "§5.2", rule: Rule::BoundToward,
        bodies: &["IF p = 1 THEN IF q <= 0 THEN RAISE EXCEPTION 'no'; END IF; END IF;
                   UPDATE item SET n = n + q WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "> under update", cites: "§5.2", rule: Rule::PerRecord,
        bodies: &["UPDATE item SET n = q WHERE id = p;"],
        confluent: true,
        guard: None,
        ..ABOVE
    },
    Case {
        row: "> under update beside decrement", cites: "§5.2", rule: Rule::BoundToward,
        bodies: &["UPDATE item SET n = q WHERE id = p;", "UPDATE item SET n = n - 1 WHERE id = p;"],
        ..ABOVE
    },
    Case {
        row: "< under decrement", cites: "§5.2", rule: Rule::BoundAway,
        bodies: &["UPDATE item SET n = n - 1 WHERE id = p;"],
        confluent: true,
        guard: None,
        ..BELOW
    },
    Case { row: "< under increment", bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"], ..BELOW },
    Case {
        row: "counter, inequality", cites: "§5.2", rule: Rule::BoundAvoid,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n <> 7));",
        bodies: &["UPDATE item SET n = n + 1 WHERE id = p;"],
        invariant: "c",
        confluent: false,
        guard: Some(GuardKind::Lock),
    },
    Case {
        row: "one row, two columns written apart", cites: "§5.1 Equality, with columns that merge one by one", rule: Rule::RecordSkew,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer, m integer, CONSTRAINT c CHECK (n <= m));",
        bodies: &["UPDATE item SET n = q WHERE id = p;", "UPDATE item SET m = q WHERE id = p;"],
        invariant: "c",
        confluent: false,
        guard: Some(GuardKind::Lock),
    },
    Case {
        row: "one row, two columns written together", cites: "§5.1 Equality, with columns that merge one by one", rule: Rule::PerRecord,
        schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer, m integer, CONSTRAINT c CHECK (n <= m));",
        bodies: &["UPDATE item SET n = q, m = q WHERE id = p;"],
        invariant: "c",
        confluent: true,
        guard: None,
    },
    // Lists, and sets and maps as rows: §5.2.
    Case { row: "CONTAINS, append [list]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::ListMember, schema: LIST_CONTAINS,
        bodies: &["UPDATE list SET items = array_append(items, q) WHERE id = p;", REPLACE], invariant: "c", confluent: true, guard: None },
    Case { row: "CONTAINS, remove [list]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::ListMember, schema: LIST_CONTAINS,
        bodies: &["UPDATE list SET items = array_remove(items, q) WHERE id = p;", "UPDATE list SET items = q || items WHERE id = p;"], invariant: "c", confluent: true, guard: None },
    Case { row: "CONTAINS beside NULL, remove [list]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::ListMutated, schema: LIST_CONTAINS_OR_NULL,
        bodies: &["UPDATE list SET items = array_remove(items, q) WHERE id = p;"], invariant: "c", confluent: false, guard: Some(GuardKind::Lock) },
    Case { row: "NOT CONTAINS, append [list]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::ListMember,
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (13 <> ALL (items)));",
        bodies: &["UPDATE list SET items = array_append(items, q) WHERE id = p;", REPLACE], invariant: "c", confluent: true, guard: None },
    Case { row: "NOT CONTAINS, insert [set]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::PerRecord, schema: SET,
        bodies: &["INSERT INTO member (of, item) VALUES (p, q);", "DELETE FROM member WHERE of = p AND item = q;"], invariant: "no_13", confluent: true, guard: None },
    Case { row: "CONTAINS, insert [set]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::Counterpart, schema: SET,
        bodies: &["INSERT INTO member (of, item) VALUES (p, q);"], invariant: "has_5", confluent: true, guard: None },
    Case { row: "NOT CONTAINS, put [map]", cites: "Table 2, [NOT] CONTAINS", rule: Rule::PerRecord,
        schema: "CREATE TABLE entry (of integer, key integer, value integer, PRIMARY KEY (of, key));
                 CREATE ASSERTION no_13 CHECK (NOT EXISTS (SELECT 1 FROM entry WHERE key = 13));",
        bodies: &["INSERT INTO entry (of, key, value) VALUES (p, q, q) ON CONFLICT (of, key) DO UPDATE SET value = excluded.value;"],
        invariant: "no_13", confluent: true, guard: None },
    Case { row: "HEAD=, mutation [list]", cites: "Table 2, HEAD=", rule: Rule::ListMutated,
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (items[1] = 7));",
        bodies: &[REPLACE], invariant: "c", confluent: false, guard: Some(GuardKind::Lock) },
    Case { row: "TAIL=, mutation [list]", cites: "Table 2, TAIL=", rule: Rule::ListMutated,
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL,
                                    CONSTRAINT c CHECK (items[cardinality(items)] = 7));",
        bodies: &[REPLACE], invariant: "c", confluent: false, guard: Some(GuardKind::Lock) },
    Case { row: "length=, mutation [list]", cites: "Table 2, length=", rule: Rule::ListMutated,
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (cardinality(items) = 3));",
        bodies: &[REPLACE], invariant: "c", confluent: false, guard: Some(GuardKind::Lock) },
    Case { row: "length=, replaced as a whole [list]", cites: "§5.1 Equality", rule: Rule::PerRecord,
        schema: "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (cardinality(items) = 3));",
        bodies: &["UPDATE list SET items = ARRAY[p, q, 0] WHERE id = p;"], invariant: "c", confluent: true, guard: None },
    Case { row: "length=, mutation [list of rows]", cites: "Table 2, length=", rule: Rule::TakenTwice,
        schema: "CREATE TABLE list (id integer PRIMARY KEY);
                 CREATE TABLE element (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, list integer NOT NULL REFERENCES list);
                 CREATE ASSERTION three CHECK (NOT EXISTS (SELECT 1 FROM list
                     WHERE (SELECT count(*) FROM element WHERE element.list = list.id) <> 3));",
        bodies: &["DELETE FROM element WHERE list = p; INSERT INTO element (list) VALUES (p);"],
        invariant: "three", confluent: false, guard: None },
    // The payroll of §2, §4.1 and §5.
    Case { row: "payroll: an employee with a number of its own choice", cites: "§2, §5.1: {Stan:5} and {Mary:5}", rule: Rule::UniqueChosen, schema: PAYROLL,
        bodies: &["INSERT INTO employee (id, department, salary) VALUES (p, q, 1);"], invariant: "employee_pkey", confluent: false, guard: Some(GuardKind::Claim) },
    Case { row: "payroll: some number for a new employee", cites: "§5.1", rule: Rule::UniqueGenerated, schema: PAYROLL,
        bodies: &["INSERT INTO employee (department, salary) VALUES (q, 1);"], invariant: "employee_pkey", confluent: true, guard: None },
    Case { row: "payroll: Stan and Mary join a department", cites: "§2, §5.1 Foreign Keys", rule: Rule::ForeignKeyInsert, schema: PAYROLL,
        bodies: &["INSERT INTO employee (department, salary) VALUES (q, 1);"], invariant: "in_department", confluent: true, guard: None },
    Case { row: "payroll: an employee changes departments", cites: "§5.1: as long as the departments do not change", rule: Rule::ForeignKeyInsert, schema: PAYROLL,
        bodies: &["UPDATE employee SET department = q WHERE id = p;"], invariant: "in_department", confluent: true, guard: None },
    Case { row: "payroll: a department is closed beside that", cites: "§5.1 Foreign Keys", rule: Rule::ForeignKeyDelete, 
        schema: "CREATE TABLE department (id integer PRIMARY KEY);
                 CREATE TABLE employee (id integer PRIMARY KEY, department integer NOT NULL CONSTRAINT in_department REFERENCES department);",
        bodies: &["DELETE FROM department WHERE id = p;", "UPDATE employee SET department = q WHERE id = p;"], invariant: "in_department", confluent: false, guard: Some(GuardKind::Claim) },
    Case { row: "payroll: no salary above 50,000, under a raise", cites: "§2 and §5.2; the sentence on raises does not fit this bound, the definition decides", rule: Rule::BoundToward, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = salary + 100 WHERE id = p;"], invariant: "salary_bound", confluent: false, guard: Some(GuardKind::Escrow) },
    Case { row: "payroll: no salary above 50,000, under a demotion", cites: "§2 and §5.2", rule: Rule::BoundAway, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = salary - 100 WHERE id = p;"], invariant: "salary_bound", confluent: true, guard: None },
    Case { row: "payroll: a salary that is set", cites: "§5.2: update", rule: Rule::PerRecord, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = q WHERE id = p;"], invariant: "salary_bound", confluent: true, guard: None },
    Case { row: "payroll: a least salary, under a raise", cites: "§5.2: support for concurrent salary raises", rule: Rule::BoundAway, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = salary + 100 WHERE id = p;"], invariant: "salary_least", confluent: true, guard: None },
    Case { row: "payroll: a least salary, under a demotion", cites: "§5.2: but not concurrent salary demotions", rule: Rule::BoundToward, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = salary - 100 WHERE id = p;"], invariant: "salary_least", confluent: false, guard: Some(GuardKind::Escrow) },
    Case { row: "payroll: the total of all salaries, under a raise", cites: "§5.2: the \"total salary\" row", rule: Rule::SumOfDeltas, schema: PAYROLL,
        bodies: &["UPDATE employee SET salary = salary + q WHERE id = p AND department = 1;
                   UPDATE department SET total = total + q WHERE id = 1;"], invariant: "total_salary", confluent: true, guard: None },
    // The bank accounts of §1, §2, §4.1 and §5.2.
    Case { row: "bank: no balance below zero, under withdrawals", cites: "§1, §4.1 and Figure 2", rule: Rule::BoundToward, schema: BANK,
        bodies: &["UPDATE account SET balance = balance - 60 WHERE id = p;"], invariant: "not_negative", confluent: false, guard: Some(GuardKind::Escrow) },
    Case { row: "bank: no balance below zero, under deposits", cites: "§4.3, Lamport's audit", rule: Rule::BoundAway, schema: BANK,
        bodies: &["UPDATE account SET balance = balance + 60 WHERE id = p;"], invariant: "not_negative", confluent: true, guard: None },
    Case { row: "bank: the audit beside deposits", cites: "§2 and §4.3, Lamport's audit", rule: Rule::Untouched, schema: BANK,
        bodies: &["PERFORM balance FROM account;", "UPDATE account SET balance = balance + 60 WHERE id = p;"], invariant: "not_negative", confluent: true, guard: None },
    Case { row: "bank: a balance that is read and written back keeps no total (the Lost Update)", cites: "§5.2", rule: Rule::SumOverwritten, schema: BANK,
        bodies: &["SELECT balance INTO STRICT x FROM account WHERE id = p; INSERT INTO movement (account, amount) VALUES (p, q);
                   UPDATE account SET balance = x + q WHERE id = p;"], invariant: "balance_is_sum", confluent: false, guard: None },
    Case { row: "bank: a balance that is a counter does", cites: "§5.2", rule: Rule::SumOfDeltas, schema: BANK,
        bodies: &["INSERT INTO movement (account, amount) VALUES (p, q); UPDATE account SET balance = balance + q WHERE id = p;"],
        invariant: "balance_is_sum", confluent: true, guard: None },
];

const LIST_CONTAINS: &str = "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (5 = ANY (items)),
    CHECK (array_position(items, NULL) IS NULL));";
/// Here NULL hides that 5 is missing.
const LIST_CONTAINS_OR_NULL: &str = "CREATE TABLE list (id integer PRIMARY KEY, items integer[] NOT NULL, CONSTRAINT c CHECK (5 = ANY (items)));";
const REPLACE: &str = "UPDATE list SET items = array_append(array_remove(items, q), 7) WHERE id = p;";
const SET: &str = "
    CREATE TABLE collection (id integer PRIMARY KEY);
    CREATE TABLE member (of integer, item integer, PRIMARY KEY (of, item));
    CREATE ASSERTION no_13 CHECK (NOT EXISTS (SELECT 1 FROM member WHERE item = 13));
    CREATE ASSERTION has_5 CHECK (NOT EXISTS (SELECT 1 FROM collection WHERE NOT EXISTS (
        SELECT 1 FROM member WHERE of = collection.id AND item = 5)));";
const PAYROLL: &str = "
    CREATE TABLE department (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0);
    CREATE TABLE employee (
        id integer GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        department integer NOT NULL CONSTRAINT in_department REFERENCES department,
        salary integer NOT NULL CONSTRAINT salary_bound CHECK (salary <= 50000)
                                CONSTRAINT salary_least CHECK (salary >= 0));
    CREATE ASSERTION total_salary CHECK (NOT EXISTS (SELECT 1 FROM department
        WHERE total <> (SELECT coalesce(sum(salary), 0) FROM employee WHERE department = department.id)));";
const BANK: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL DEFAULT 0
                                                          CONSTRAINT not_negative CHECK (balance >= 0));
    CREATE TABLE movement (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer NOT NULL REFERENCES account,
                           amount integer NOT NULL);
    CREATE ASSERTION balance_is_sum CHECK (NOT EXISTS (SELECT 1 FROM account
        WHERE balance <> (SELECT coalesce(sum(amount), 0) FROM movement WHERE account = account.id)));";

const DENSE: &str = "
    CREATE TABLE counter (c integer PRIMARY KEY, next integer NOT NULL);
    CREATE TABLE bill (c integer, no integer, PRIMARY KEY (c, no));
    CREATE ASSERTION dense CHECK (NOT EXISTS (
        SELECT 1 FROM counter
         WHERE next - 1 <> (SELECT max(no) FROM bill WHERE bill.c = counter.c)));";
const PARENT: &str = "
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
        CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id));";
const CASCADE: &str = "
    CREATE TABLE parent (id integer PRIMARY KEY);
    CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent integer,
        CONSTRAINT has_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);";
const ABOVE: Case = Case {
    row: "",
    cites: "",
    rule: Rule::BoundToward,
    schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n >= 0));",
    bodies: &[],
    invariant: "c",
    confluent: false,
    guard: Some(GuardKind::Escrow),
};
const BELOW: Case = Case {
    schema: "CREATE TABLE item (id integer PRIMARY KEY, n integer CONSTRAINT c CHECK (n < 100));",
    ..ABOVE
};

fn load(case: &Case) -> Application {
    let mut procedures = String::new();
    for (name, body) in ["t", "u", "v"].iter().zip(case.bodies) {
        procedures.push_str(&format!(
            "CREATE PROCEDURE {name}(p integer, q integer) LANGUAGE plpgsql AS $$
             DECLARE x integer; BEGIN {body} END; $$;\n"
        ));
    }
    support::application(&[("schema.sql", case.schema), ("procedures.sql", &procedures)])
}

/// Error in the verdict of the analysis, if any.
fn verdict_error(case: &Case, app: &Application, analysis: &Analysis) -> Option<String> {
    let at = analysis.invariants.iter().position(|invariant| invariant.name == case.invariant)?;
    let verdict = analysis.verdict(0, InvariantId(at as u32));
    assert_eq!(app.procedures[verdict.transaction].name, "t");
    if verdict.confluent != case.confluent {
        return Some(format!("confluent is {}: {}", verdict.confluent, verdict.because));
    }
    if verdict.decided_by != DecidedBy::Rule(case.rule) {
        return Some(format!("decided by {:?}", verdict.decided_by));
    }
    let guards: Vec<GuardKind> = analysis.plan.transactions[0]
        .guards
        .iter()
        .filter(|guard| guard.keeps.iter().any(|kept| kept.0 as usize == at))
        .map(|guard| guard.kind)
        .collect();
    let expected: Vec<GuardKind> = case.guard.into_iter().collect();
    if guards != expected {
        return Some(format!("guards are {guards:?}"));
    }
    let needs_order = !case.confluent && case.guard.is_none();
    let mechanism = analysis.plan.transactions[0].mechanism;
    let in_order = mechanism.is_ordered_family();
    // Another invariant of the case may need it.
    let is_other = |verdict: &&Verdict| !verdict.confluent && verdict.invariant.0 as usize != at;
    let may_be_in_order = analysis.verdicts.iter().any(|verdict| is_other(&verdict));
    (needs_order && !in_order || in_order && !needs_order && !may_be_in_order)
        .then(|| format!("mechanism is {}", Mechanism::name(mechanism)))
}

#[test]
fn table_2() {
    let mut errors = Vec::new();
    for case in CASES {
        let app = load(case);
        let analysis = analyze(&app);
        assert!(
            analysis.invariants.iter().any(|i| i.name == case.invariant),
            "{}: no such invariant",
            case.row
        );
        errors.extend(
            verdict_error(case, &app, &analysis)
                .map(|error| format!("{} ({}): {error}", case.row, case.cites)),
        );
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// Negative control: a wrong verdict, either way, on any row, is seen.
#[test]
fn a_planted_wrong_verdict_is_caught() {
    for case in CASES {
        let app = load(case);
        let mut analysis = analyze(&app);
        let flipped = |at: usize| {
            let mut verdict = analysis.verdict(0, InvariantId(at as u32)).into_owned();
            verdict.confluent = !verdict.confluent;
            verdict
        };
        analysis.verdicts = (0..analysis.invariants.len()).map(flipped).collect();
        assert!(verdict_error(case, &app, &analysis).is_some(), "{}: not caught", case.row);
    }
}

/// Negative control: a plan that lost its guard is seen.
#[test]
fn a_plan_without_its_guard_is_caught() {
    for case in CASES.iter().filter(|case| case.guard.is_some()) {
        let app = load(case);
        let mut analysis = analyze(&app);
        analysis.plan.transactions[0].guards.clear();
        assert!(verdict_error(case, &app, &analysis).is_some(), "{}: not caught", case.row);
    }
}
