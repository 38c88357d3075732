//! Triggers, EXCLUDE, domains, enumerations and partial keys: what a procedure that meets them may do, and
//! what is said of it. A statement that nobody understands is never silence.

mod support;

use weir_analysis::effects::{Operation, Write};
use weir_analysis::{Alone, DecidedBy, InvariantId};
use weir_sql::Application;

fn write(app: &Application, write: &Write) -> String {
    let table = app.catalog.table(write.table);
    let columns = |list: Vec<usize>| {
        let names: Vec<&str> = list.iter().map(|&column| table.columns[column].name.as_str()).collect();
        names.join(",")
    };
    match &write.operation {
        Operation::Insert { on_conflict: Some(conflict), .. } if !conflict.update.is_empty() => {
            let updated = conflict.update.iter().map(|(column, _)| *column).collect();
            format!("{}+({})", table.name, columns(updated))
        }
        Operation::Insert { .. } => format!("{}+", table.name),
        Operation::Update { columns: updated, .. } => {
            format!("{}({})", table.name, columns(updated.iter().map(|(column, _)| *column).collect()))
        }
        Operation::Delete { .. } => format!("{}-", table.name),
    }
}

/// The writes of the first procedure.
#[track_caller]
fn check_writes(schema: &str, expect: &str) {
    let app = support::read_to_analyze(schema);
    let analysis = weir_analysis::analyze(&app);
    let writes: Vec<String> = analysis.effects[0].writes.iter().map(|written| write(&app, written)).collect();
    assert_eq!(writes.join(" "), expect, "{schema}");
}

const TABLES: &str = "
    create table item (id int primary key, stock int, seen timestamptz);
    create table log (item int, was int);
    create function touch() returns trigger language plpgsql as $$
    begin new.seen := now(); return new; end $$;
    create function note() returns trigger language plpgsql as $$
    begin insert into log values (old.id, old.stock); return null; end $$;
    create function maybe() returns trigger language plpgsql as $$
    begin if new.stock < 0 then new.stock := 0; return new; end if; return new; end $$;
    create function dark() returns trigger language plpgsql as $$
    begin execute 'delete from log'; return new; end $$;
";

#[test]
fn triggers_are_followed() {
    let p = |triggers: &str, body: &str| {
        format!("{TABLES} {triggers} create procedure p(k int) language plpgsql as $$ begin {body}; end $$;")
    };
    let touch = "create trigger t before update on item for each row execute function touch();";
    let note =
        "create trigger n after update of stock or delete on item for each row execute function note();";
    for (triggers, body, expect) in [
        ("", "update item set stock = 1 where id = k", "item(stock)"),
        (touch, "update item set stock = 1 where id = k", "item(stock,seen)"),
        (touch, "insert into item values (k, 1)", "item+"),
        (
            touch,
            "insert into item values (k, 1) on conflict (id) do update set stock = 2",
            "item+(stock,seen)",
        ),
        (note, "update item set stock = stock - 1 where id = k", "item(stock) log+"),
        (note, "update item set seen = null where id = k", "item(seen)"),
        (note, "delete from item where id = k", "item- log+"),
        (
            "create trigger m before update on item for each row when (old.stock > 1) execute function maybe();",
            "update item set seen = null where id = k",
            "item(seen,stock)",
        ),
        (
            "create trigger d after insert on item execute function dark();",
            "insert into item values (k, 1)",
            "item+ item+ item(id,stock,seen) item- log+ log(item,was) log-",
        ),
    ] {
        check_writes(&p(triggers, body), expect);
    }
}

#[test]
fn statements_that_nobody_understands_may_do_anything() {
    let tables = "create table a (id int primary key, n int); create table b (id int primary key);
                  create function f(k int) returns int language plpgsql as $$
                  begin delete from b where id = k; return 1; end $$;";
    for (body, expect) in [
        ("listen a", ""),
        ("merge into a using b on a.id = b.id when matched then delete", "a+ a(id,n) a- b+ b(id) b-"),
        ("perform f(k)", "b-"),
        ("perform f(id) from a", "a+ a(id,n) a- b+ b(id) b-"),
        ("execute 'truncate ' || k", "a+ a(id,n) a- b+ b(id) b-"),
    ] {
        let procedure = format!("create procedure p(k int) language plpgsql as $$ begin {body}; end $$;");
        let app = support::read_to_analyze(&format!("{tables} {procedure}"));
        let analysis = weir_analysis::analyze(&app);
        let writes: Vec<String> =
            analysis.effects[1].writes.iter().map(|written| write(&app, written)).collect();
        assert_eq!(writes.join(" "), expect, "{body}");
        assert!(analysis.diagnostics.iter().any(|finding| finding.id == "not-understood"), "{body}");
    }
}

/// `kind confluent alone decided-by` of one invariant and the first procedure.
#[track_caller]
fn check_verdict(schema: &str, invariant: &str, expect: &str) {
    let app = support::read_to_analyze(schema);
    let analysis = weir_analysis::analyze(&app);
    let at = analysis.invariants.iter().position(|other| other.name == invariant);
    let Some(at) = at else {
        panic!("no {invariant} among {:?}", analysis.invariants.iter().map(|i| &i.name).collect::<Vec<_>>())
    };
    let verdict = &analysis.verdict(0, InvariantId(at as u32));
    let found = format!(
        "{} {} {}{}",
        analysis.invariants[at].kind.name(),
        if verdict.confluent { "yes" } else { "no" },
        verdict.alone.name(),
        if verdict.decided_by == DecidedBy::Assumption { " assumed" } else { "" },
    );
    assert_eq!(found, expect, "{schema}");
    assert!(Alone::No != verdict.alone || !verdict.confluent);
}

#[test]
fn verdicts_of_schema_features() {
    let tables = "
        create type state as enum ('open', 'shut');
        create domain amount as int check (value >= 0);
        create table room (id int primary key, guest int, held int, live boolean, name text, state state,
            owed amount,
            exclude using gist (guest with =, held with &&) where (live));
        create unique index room_name on room (lower(name));
        create unique index room_guest on room (guest) where live;
        create unique index room_held on room (held) nulls not distinct;
    ";
    for (body, invariant, expect) in [
        ("insert into room (id, guest) values (k, 1)", "room_guest_held_excl", "exclude no checked"),
        ("update room set live = true where id = k", "room_guest_held_excl", "exclude no checked"),
        ("update room set live = false where id = k", "room_guest_held_excl", "exclude yes proved"),
        ("delete from room where id = k", "room_guest_held_excl", "exclude yes proved"),
        ("update room set name = 'x' where id = k", "room_guest_held_excl", "exclude yes proved"),
        ("update room set name = 'x' where id = k", "room_name", "unique no checked"),
        ("update room set guest = null where id = k", "room_name", "unique yes proved"),
        ("update room set live = true where id = k", "room_guest", "unique no checked"),
        ("update room set live = false where id = k", "room_guest", "unique yes proved"),
        ("insert into room (id, guest, live) values (k, 1, false)", "room_guest", "unique yes proved"),
        ("insert into room (id, guest, live) values (k, 1, true)", "room_guest", "unique no checked"),
        ("update room set held = 3 where id = k", "room_held", "unique no checked"),
        ("update room set state = 'shut' where id = k", "room.state state", "domain yes checked"),
        ("update room set owed = owed - 1 where id = k", "room_owed_amount_check", "domain no checked"),
        ("update room set owed = owed + 1 where id = k", "room_owed_amount_check", "domain yes proved"),
    ] {
        let procedure = format!("create procedure p(k int) language plpgsql as $$ begin {body}; end $$;");
        check_verdict(&format!("{tables} {procedure}"), invariant, expect);
    }
}
