//! Triggers, EXCLUDE, domains, enumerations and partial keys: what a procedure that meets them may do, and
//! what is said of it. A statement that nobody understands is never silence.

use crate::support;

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
            // It sets itself off: once more whatever it may do.
            "item+ item+ item(id,stock,seen) item- log+ log(item,was) log- item+ item(id,stock,seen) item- log+ log(item,was) log-",
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

/// The mechanism of the plan for the first procedure, and its verdict on the named invariant: `yes`, `no`, or `undecided`.
#[track_caller]
fn check_plan(schema: &str, invariant: &str, expect: &str) {
    let app = support::read_to_analyze(schema);
    let analysis = weir_analysis::analyze(&app);
    let at =
        analysis.invariants.iter().position(|one| one.name == invariant).map(|at| InvariantId(at as u32));
    let said = at.map(|at| match analysis.verdict(0, at) {
        verdict if verdict.confluent => "yes",
        verdict if verdict.decided_by == DecidedBy::Assumption => "undecided",
        _ => "no",
    });
    let plan = &analysis.plan.transactions[0];
    let actual = format!("{} {}", said.unwrap_or("nothing of that name"), plan.mechanism.name());
    assert_eq!(actual, expect, "{invariant} of {schema}: {}", plan.why);
}

/// An argument that becomes a column may be NULL. Where the transaction does nothing else, it then writes NULL over NULL, and in the merge
/// over what the other branch has set.
#[test]
fn arguments_may_be_null() {
    let tables =
        "create table orders (id int primary key, carrier int); create table fresh (id int primary key);
        create assertion delivered check (not exists (select 1 from orders o
            where (o.carrier is null) <> exists (select 1 from fresh f where f.id = o.id)));";
    let procedure = |name: &str, body: &str| {
        format!("create procedure {name}(o int, c int) language plpgsql as $$ begin {body} end $$;")
    };
    let deliver =
        procedure("deliver", "update orders set carrier = c where id = o; delete from fresh where id = o;");
    let place = procedure("place", "insert into orders values (o, null); insert into fresh values (o);");
    check_plan(&format!("{tables}{deliver}{place}"), "delivered", "yes merge");
    let mark = procedure("mark", "update orders set carrier = c where id = o;");
    check_plan(&format!("{tables}{mark}{deliver}{place}"), "delivered", "no ordered");
    // Two columns that are set at once.
    let pair = "create table pair (id int primary key, a int, b int);
        create assertion both check (not exists (select 1 from pair p where (p.a is null) <> (p.b is null)));";
    let set = procedure("set", "update pair set a = c, b = c where id = o;");
    check_plan(&format!("{pair}{set}"), "both", "yes merge");
    let half = procedure("half", "update pair set a = c where id = o;");
    check_plan(&format!("{pair}{half}{set}"), "both", "no ordered");
}

/// An assertion, trigger or constraint that is left out makes the verdicts on what it may be about undecided.
#[test]
fn what_is_left_out_decides_nothing() {
    let tree = "create table node (id int primary key, parent int references node (id));
        create procedure move(p int, q int) language plpgsql as $$ begin update node set parent = q where id = p; end $$;";
    let acyclic = "create assertion acyclic check (not exists (with recursive up (id, above) as (
        select id, parent from node union select up.id, node.parent from up join node on node.id = up.above)
        select 1 from up where id = above));";
    check_plan(&format!("{tree}{acyclic}"), "acyclic", "undecided ordered");
    let ranked = "create assertion ranked check (not exists (
        select 1 from (select rank() over (order by parent) as r from node) as n where n.r > 3));";
    check_plan(&format!("{tree}{ranked}"), "ranked", "undecided ordered");
    // A rule rewrites what is written.
    let rule = "create rule keep as on update to node do also delete from node where id = old.parent;";
    check_plan(&format!("{tree}{rule}"), "keep", "undecided ordered");
}

/// A table that the schema does not have, and sequences that begin again.
#[test]
fn what_is_not_known_is_not_fine() {
    // Else a name that is not there is the input's mistake.
    let known = "-- weir: accepted by PostgreSQL\ncreate table item (id int primary key, n int not null);";
    let body =
        |body: &str| format!("create procedure p(a int, b int) language plpgsql as $$ begin {body} end $$;");
    check_plan(
        &format!("{known}{}", body("insert into elsewhere (id) values (a);")),
        "item_pkey",
        "yes general",
    );
    let both = body("update item set n = a where id = b; delete from elsewhere where id = a;");
    check_plan(&format!("{known}{both}"), "item.n not null", "undecided general");
    let numbers = |sequence: &str, body: &str| {
        format!(
            "create sequence numbers {sequence}; create sequence others; create table ticket (no bigint primary key);
             create procedure p(a int) language plpgsql as $$ begin {body} end $$;"
        )
    };
    let draw = "insert into ticket (no) values (nextval('numbers'));";
    check_plan(&numbers("", draw), "ticket_pkey", "yes merge");
    check_plan(&numbers("maxvalue 5 cycle", draw), "ticket_pkey", "no ramp");
    check_plan(&numbers("increment -1 minvalue -5 cycle", draw), "ticket_pkey", "no ramp");
    let set = format!("{draw} perform setval('numbers', 1);");
    check_plan(&numbers("", &set), "ticket_pkey", "no ramp");
    check_plan(
        &numbers("", "insert into ticket (no) values (nextval('numbers') % 5);"),
        "ticket_pkey",
        "no ramp",
    );
    // Two sequences, of which one is drawn by an update.
    let another = format!("{draw} update ticket set no = nextval('others') where no = a;");
    check_plan(&numbers("", &another), "ticket_pkey", "no ramp");
    let token = |value: &str| {
        format!(
            "create table token (value text primary key);
             create procedure p(a int) language plpgsql as $$ begin insert into token (value) values ({value}); end $$;"
        )
    };
    check_plan(&token("gen_random_uuid()::text"), "token_pkey", "yes merge");
    check_plan(&token("gen_random_uuid()::text::varchar(4)"), "token_pkey", "no ramp");
    check_plan(&token("left(gen_random_uuid()::text, 4)"), "token_pkey", "no ramp");
    check_plan(&token("now()::text"), "token_pkey", "no ramp");
}
