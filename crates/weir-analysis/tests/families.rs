//! One column, one family (design.md §4, soundness S2 and S13), and what the plan says of reach.

use crate::support;

use std::collections::BTreeSet;

use weir_analysis::{Analysis, Mechanism, Requirement, TransactionPlan, analyze};
use weir_sql::Application;

const BANK: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, owner text);
    CREATE TABLE note (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);
    CREATE PROCEDURE audit(a integer, b integer, OUT total bigint) LANGUAGE plpgsql AS $$ BEGIN
        SELECT sum(balance) INTO total FROM account WHERE id = a OR id = b; END; $$;
    CREATE PROCEDURE deposit(a integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE account SET balance = balance + n WHERE id = a; END; $$;
    CREATE PROCEDURE rename(a integer, who text) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE account SET owner = who WHERE id = a; END; $$;
    CREATE PROCEDURE write_note(what text) LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO note (text) VALUES (what); END; $$;
    CREATE PROCEDURE peek(a integer, OUT n integer) LANGUAGE plpgsql AS $$ BEGIN
        SELECT balance INTO n FROM account WHERE id = a; END; $$;";

fn plan<'a>(app: &Application, analysis: &'a Analysis, name: &str) -> &'a TransactionPlan {
    let at = app.procedures.iter().position(|procedure| procedure.name == name);
    &analysis.plan.transactions[at.expect("the procedure")]
}

#[test]
fn nobody_is_ordered_without_need() {
    let app = support::application(&[("bank.sql", BANK)]);
    let analysis = analyze(&app);
    assert!(analysis.plan.transactions.iter().all(|plan| !plan.mechanism.is_ordered_family()));
}

#[test]
fn who_writes_what_a_serializable_transaction_reads_is_promoted() {
    let text = format!("{BANK} ALTER PROCEDURE audit SET default_transaction_isolation = 'serializable';");
    let app = support::application(&[("bank.sql", &text)]);
    let analysis = analyze(&app);
    let audit = plan(&app, &analysis, "audit");
    assert_eq!(audit.requirement, Requirement::Serializable);
    assert!(audit.mechanism.is_ordered_family());
    let deposit = plan(&app, &analysis, "deposit");
    assert_eq!(deposit.mechanism, Mechanism::Ordered);
    assert_eq!(deposit.promoted_by, Some(audit.procedure));
    let why =
        "it writes account.balance, which audit uses, and audit runs in order (it is declared serializable)";
    assert!(deposit.why.starts_with(why), "{}", deposit.why);
    // Another column, another table, and a mere reader stay as they are.
    assert_eq!(plan(&app, &analysis, "rename").mechanism, Mechanism::Merge);
    assert!(!plan(&app, &analysis, "write_note").mechanism.is_ordered_family());
    assert_eq!(plan(&app, &analysis, "peek").mechanism, Mechanism::Merge);
}

/// No column is written by both families.
#[track_caller]
fn invariant_one_family_per_column(analysis: &Analysis) {
    let mut ordered = BTreeSet::new();
    let mut merged = BTreeSet::new();
    for plan in &analysis.plan.transactions {
        let written = if plan.mechanism.is_ordered_family() { &mut ordered } else { &mut merged };
        for write in &analysis.effects[plan.procedure].writes {
            written.extend(write.updates().iter().map(|(column, _)| (write.table, Some(*column))));
            if write.is_insert() || write.is_delete() {
                written.insert((write.table, None));
            }
        }
    }
    assert!(ordered.is_disjoint(&merged), "{ordered:?} and {merged:?}");
}

#[test]
fn families_are_disjoint_in_every_choice_of_serializable_procedures() {
    const NAMES: [&str; 5] = ["audit", "deposit", "rename", "write_note", "peek"];
    for choice in 0..1u32 << NAMES.len() {
        let mut text = BANK.to_string();
        for (bit, name) in NAMES.iter().enumerate().filter(|(bit, _)| choice >> bit & 1 == 1) {
            let _ = bit;
            text.push_str(&format!(
                "ALTER PROCEDURE {name} SET default_transaction_isolation = 'serializable';"
            ));
        }
        invariant_one_family_per_column(&analyze(&support::application(&[("bank.sql", &text)])));
    }
}

/// S2: the payer's shard could refuse what the payee's has done.
#[test]
fn a_check_that_one_shard_sees_makes_it_general() {
    let text = "
        CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0));
        CREATE PROCEDURE transfer(a integer, b integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE account SET balance = balance - n WHERE id = a;
            UPDATE account SET balance = balance + n WHERE id = b; END; $$;
        ALTER PROCEDURE transfer SET default_transaction_isolation = 'serializable';";
    let app = support::application(&[("bank.sql", text)]);
    assert_eq!(plan(&app, &analyze(&app), "transfer").mechanism, Mechanism::General);
    let unchecked = text.replace("CHECK (balance >= 0)", "");
    let app = support::application(&[("bank.sql", &unchecked)]);
    assert_eq!(plan(&app, &analyze(&app), "transfer").mechanism, Mechanism::Ordered);
}

/// An assertion of a shape that no rule knows is kept by order, and said to be undecided.
#[test]
fn what_no_rule_decides_runs_in_order() {
    let text = "
        CREATE TABLE booking (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, room integer,
                              first date, last date);
        CREATE PROCEDURE book(r integer, f date, l date) LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO booking (room, first, last) VALUES (r, f, l); END; $$;
        CREATE ASSERTION no_overlap CHECK (NOT EXISTS (
            SELECT 1 FROM booking a JOIN booking b ON a.room = b.room AND a.id < b.id
             WHERE a.first <= b.last AND b.first <= a.last));";
    let app = support::application(&[("rooms.sql", text)]);
    let analysis = analyze(&app);
    let verdict = analysis.verdicts.iter().find(|verdict| !verdict.confluent).expect("one is undecided");
    assert_eq!(verdict.decided_by.name(), "assumption");
    assert!(plan(&app, &analysis, "book").mechanism.is_ordered_family());
}

/// A value that was read and is written back: of two calls at once one is lost.
#[test]
fn lost_updates_are_named() {
    let warned = |body: &str| {
        let text = format!(
            "CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
             CREATE PROCEDURE pay(a integer, n integer) LANGUAGE plpgsql AS $$
             DECLARE old integer; BEGIN {body} END; $$;"
        );
        let app = support::application(&[("bank.sql", &text)]);
        analyze(&app).diagnostics.iter().any(|finding| finding.id == "lost-update")
    };
    assert!(warned(
        "SELECT balance INTO old FROM account WHERE id = a; UPDATE account SET balance = old + n WHERE id = a;"
    ));
    assert!(!warned("UPDATE account SET balance = balance + n WHERE id = a;"));
    assert!(!warned("UPDATE account SET balance = n WHERE id = a;"));
}

/// Calls are followed: the caller has the callee's effects, with its own arguments.
#[test]
fn calls_are_followed() {
    let text = "
        CREATE TABLE account (id integer PRIMARY KEY, balance integer CONSTRAINT c CHECK (balance >= 0));
        CREATE PROCEDURE change(a integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE account SET balance = balance + n WHERE id = a; END; $$;
        CREATE PROCEDURE withdraw(a integer) LANGUAGE plpgsql AS $$ BEGIN CALL change(a, -5); END; $$;
        CREATE PROCEDURE deposit(a integer) LANGUAGE plpgsql AS $$ BEGIN CALL change(a, 5); END; $$;";
    let app = support::application(&[("bank.sql", text)]);
    let analysis = analyze(&app);
    assert!(!plan(&app, &analysis, "withdraw").confluent);
    assert!(plan(&app, &analysis, "deposit").confluent);
}

/// A foreign key makes a transaction look at its parent's shard.
#[test]
fn constraints_count_as_reach() {
    let text = "
        CREATE TABLE shop (id integer PRIMARY KEY);
        CREATE TABLE sale (id integer PRIMARY KEY, shop integer REFERENCES shop (id));
        COMMENT ON TABLE shop IS 'weir: partition by (id)';
        COMMENT ON TABLE sale IS 'weir: partition by (id)';
        CREATE PROCEDURE open_shop(a integer) LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO shop (id) VALUES (a); END; $$;
        CREATE PROCEDURE sell(a integer, s integer) LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO sale (id, shop) VALUES (a, s); END; $$;";
    let app = support::application(&[("shop.sql", text)]);
    let analysis = analyze(&app);
    assert!(plan(&app, &analysis, "open_shop").single_partition);
    assert!(!plan(&app, &analysis, "sell").single_partition);
}

/// design.md §4: FOR UPDATE in a procedure that spans shards is a claim, for whoever writes what it read.
#[test]
fn for_update_over_several_shards_claims_what_it_read() {
    let text = "
        CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, owner text);
        CREATE TABLE log (id integer PRIMARY KEY, account integer);
        CREATE PROCEDURE move(a integer, b integer) LANGUAGE plpgsql AS $$ DECLARE all_of_it integer; BEGIN
            SELECT balance INTO all_of_it FROM account WHERE id = a FOR UPDATE;
            UPDATE account SET balance = 0 WHERE id = a;
            UPDATE account SET balance = balance + all_of_it WHERE id = b; END; $$;
        CREATE PROCEDURE deposit(a integer, n integer) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE account SET balance = balance + n WHERE id = a; END; $$;
        CREATE PROCEDURE rename(a integer, who text) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE account SET owner = who WHERE id = a; END; $$;
        COMMENT ON TABLE account IS 'weir: partition by (id)';";
    let app = support::application(&[("bank.sql", text)]);
    let analysis = analyze(&app);
    let claims = |name: &str| plan(&app, &analysis, name).guards.len();
    assert_eq!((claims("move"), claims("deposit"), claims("rename")), (2, 1, 0));
    assert!(analysis.diagnostics.iter().all(|finding| finding.id != "lock-not-held"));

    // On one shard a transaction runs to completion.
    let one_shard = text.replace("WHERE id = b", "WHERE id = a");
    let app = support::application(&[("bank.sql", &one_shard)]);
    let analysis = analyze(&app);
    assert!(analysis.plan.transactions.iter().all(|plan| plan.guards.is_empty()));

    let unwritten = text.replace("UPDATE account SET balance = 0 WHERE id = a;", "").replace(
        "UPDATE account SET balance = balance + all_of_it WHERE id = b;",
        "INSERT INTO log (id, account) VALUES (b, all_of_it);",
    );
    let app = support::application(&[("bank.sql", &unwritten)]);
    let warned = analyze(&app).diagnostics.iter().any(|finding| finding.id == "lock-not-held");
    assert!(warned);
}

/// One odd assertion sends whoever writes its table in order: it is named, with its place, and so is who would not be. Of two that both
/// ask for order neither is alone to blame.
#[test]
fn the_invariant_that_is_to_blame_is_named() {
    let text = "
        CREATE TABLE doctor (id integer PRIMARY KEY, ward integer NOT NULL, on_call boolean NOT NULL, name text);
        CREATE TABLE bed (id integer PRIMARY KEY, free boolean NOT NULL);
        CREATE PROCEDURE go_off(a integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE doctor SET on_call = false WHERE id = a; END; $$;
        CREATE PROCEDURE come(a integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE doctor SET on_call = true WHERE id = a; END; $$;
        CREATE PROCEDURE use_bed(a integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE bed SET free = false WHERE id = a; END; $$;";
    let someone = "CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM doctor w WHERE NOT EXISTS
        (SELECT 1 FROM doctor d WHERE d.ward = w.ward AND d.on_call)));";
    let anyone = "CREATE ASSERTION anyone CHECK (EXISTS (SELECT 1 FROM doctor WHERE on_call));";
    let blamed = |assertions: &str| {
        let app = support::application(&[("ward.sql", &format!("{text}\n{assertions}"))]);
        let found = analyze(&app).diagnostics;
        let named = found.into_iter().filter(|finding| finding.id == "ordered-by-one");
        named
            .map(|finding| format!("{} {}", app.sources.place(finding.span), finding.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        blamed(someone),
        [
            "ward.sql:7:18 go_off, come run in order because of someone alone: nothing cheaper keeps it, and without it they would not"
        ]
    );
    assert!(blamed(&format!("{someone}\n{anyone}")).is_empty());
    assert!(blamed("").is_empty());
}
