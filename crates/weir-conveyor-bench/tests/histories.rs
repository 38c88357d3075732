//! TPC-W and RUBiS over three real servers whose agents, servers and coordinator are killed meanwhile: no update is lost, none is applied twice,
//! all servers come to the same state of what global operations write, and what answers say of a row fits one order.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use postgres::Client;
use weir_bench::CallGenerator;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_conveyor::settings::Settings;
use weir_conveyor_bench::application::Bench;
use weir_conveyor_bench::calls;
use weir_conveyor_bench::servers::connect;
use weir_conveyor_bench::target::{Deployment, End, Target};
use weir_conveyor_net::connection::next_start;

use crate::chance::Chance;

const SERVERS: u16 = 3;
const CLIENTS: u64 = 6;
const CALLS: u64 = 120;

fn settings() -> Settings {
    Settings {
        global_max: 4,
        local_max: 4,
        idle_ms: 5,
        resend_ms: 50,
        alive_ms: 20,
        silence_ms: 300,
        token_ms: 500,
        ..Settings::default()
    }
}

/// A call that has ended.
struct Called {
    name: String,
    arguments: Vec<Option<String>>,
    placement: Placement,
    /// None: it may have committed or not. The inner one: what its function gives.
    answer: Option<Option<String>>,
}

impl Called {
    fn number(&self, argument: usize) -> i64 {
        self.arguments[argument].as_deref().unwrap().parse().unwrap()
    }

    /// A number in the row that its function gives.
    fn told(&self, column: usize) -> Option<i64> {
        let row = self.answer.as_ref()?.as_deref()?;
        row.trim_matches(['(', ')']).split(',').nth(column)?.parse().ok()
    }
}

struct World {
    bench: Bench,
    deployment: Deployment,
    called: Vec<Called>,
}

/// Something of one server fails, or the coordinator does.
fn fail(deployment: &mut Deployment, chance: &mut Chance) {
    let server = chance.below(u64::from(SERVERS)) as ServerId;
    let config = deployment.configs()[usize::from(server)].clone();
    match chance.below(4) {
        0 => deployment.crash(server).unwrap(),
        1 => {
            let cluster = deployment.cluster().unwrap();
            cluster.stop_coordinator();
            cluster.start_coordinator();
        }
        _ => {
            let cluster = deployment.cluster().unwrap();
            cluster.stop_agent(server);
            cluster.start_agent(server, next_start(&config).unwrap());
        }
    }
}

impl World {
    /// Runs calls of all clients. After every 25 outcomes something fails.
    fn run(name: &str, set: &[(&str, &str)], seed: u64) -> World {
        let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let bench = Bench::of(name, &set).unwrap();
        let mut deployment = Deployment::start_with(&bench, Target::Conveyor(SERVERS), settings()).unwrap();
        let sessions: Vec<_> = (0..CLIENTS).map(|client| deployment.session(client).unwrap()).collect();
        let called = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let (progress, outcomes) = channel();
            for (client, mut session) in sessions.into_iter().enumerate() {
                let (bench, called, progress) = (&bench, &called, progress.clone());
                scope.spawn(move || {
                    let mut generator = CallGenerator::new(&bench.workload, seed, client as u64);
                    for _ in 0..CALLS {
                        let call = generator.next_call().unwrap();
                        let name = bench.application.procedures[call.procedure].name.clone();
                        let arguments = calls::arguments(&bench.application, &call);
                        let (placement, end) = session.call(bench, &call).unwrap();
                        let answer = match end {
                            End::Answered(answer) => Some(Some(answer)),
                            End::Unknown => Some(None),
                            End::Refused(_) | End::Starved => None,
                        };
                        if let Some(answer) = answer {
                            called.lock().unwrap().push(Called { name, arguments, placement, answer });
                        }
                        progress.send(()).unwrap();
                    }
                });
            }
            drop(progress);
            let mut chance = Chance::from_seed(seed);
            for count in 1.. {
                if outcomes.recv().is_err() {
                    break;
                }
                if count % 25 == 0 {
                    fail(&mut deployment, &mut chance);
                }
            }
        });
        let called = called.into_inner().unwrap();
        let unknown = called.iter().filter(|called| called.answer.is_none()).count();
        println!("{name}: {} calls have ended, of {unknown} nobody knows how", called.len());
        assert!(unknown > 0 && called.len() > 300, "{} calls, {unknown}", called.len());
        let world = World { bench, deployment, called };
        world.settle();
        world
    }

    fn client(&self, server: ServerId) -> Client {
        connect(&self.deployment.configs()[usize::from(server)]).unwrap()
    }

    /// Waits until each server has applied what all have closed.
    fn settle(&self) {
        let read = |server: ServerId, column: &str| -> i64 {
            let text = format!("SELECT {column} FROM weir_conveyor.epoch, weir_conveyor.position");
            self.client(server).query_one(&text, &[]).unwrap().get(0)
        };
        // The visits that run now are closed by then, too.
        for _ in 0..2 {
            let closed =
                (0..SERVERS).map(|server| read(server, "closed")).max().unwrap() + i64::from(SERVERS);
            while (0..SERVERS).any(|server| read(server, "applied") < closed) {
                std::thread::yield_now();
            }
        }
    }

    fn of<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Called> {
        self.called.iter().filter(|called| names.contains(&called.name.as_str()))
    }

    /// Servers that have what the call has written.
    fn servers_of(&self, called: &Called) -> Vec<ServerId> {
        match called.placement {
            Placement::Global(_) => (0..SERVERS).collect(),
            Placement::Local(server) => vec![server],
            Placement::Commutative => Vec::new(),
        }
    }

    /// Every server has the same rows.
    fn same_everywhere(&self, query: &str) {
        let text =
            format!("SELECT coalesce(string_agg(r::text, E'\\n' ORDER BY r::text), '') FROM ({query}) r");
        let rows: Vec<String> =
            (0..SERVERS).map(|server| self.client(server).query_one(&text, &[]).unwrap().get(0)).collect();
        assert!(rows.iter().all(|each| *each == rows[0]), "{query} differs");
    }

    /// A number at a server.
    fn count(&self, server: ServerId, query: &str) -> i64 {
        self.client(server).query_one(query, &[]).unwrap().get(0)
    }

    /// Each row that a call has answered with is there, once, and there are not more new ones than calls.
    fn inserted_once(&self, names: &[&str], (table, key): (&str, &str), initial: i64) {
        let global: Vec<&Called> =
            self.of(names).filter(|called| matches!(called.placement, Placement::Global(_))).collect();
        for called in self.of(names) {
            let Some(id) = called.told(0) else { continue };
            for server in self.servers_of(called) {
                let query = format!("SELECT count(*) FROM {table} WHERE {key} = {id}");
                assert_eq!(self.count(server, &query), 1, "{} {id} at server {server}", called.name);
            }
        }
        if global.len() == self.of(names).count() && !global.is_empty() {
            let answered = global.iter().filter(|called| called.answer.is_some()).count() as i64;
            for server in 0..SERVERS {
                let new = self.count(server, &format!("SELECT count(*) FROM {table}")) - initial;
                assert!(
                    (answered..=global.len() as i64).contains(&new),
                    "{table}: {new}, {answered} answered"
                );
            }
        }
    }

    /// What calls add to a row's column: all that were answered, and some of those of which nobody knows. `row` and `amount` of a call.
    fn added_once(
        &self,
        name: &str,
        column: impl Fn(i64) -> String,
        initial: &BTreeMap<i64, i64>,
        amount: impl Fn(&Called) -> i64,
    ) {
        let mut rows: BTreeMap<(ServerId, i64), Vec<&Called>> = BTreeMap::new();
        for called in self.called.iter().filter(|called| called.name == name) {
            for server in self.servers_of(called) {
                rows.entry((server, called.number(0))).or_default().push(called);
            }
        }
        for ((server, row), calls) in rows {
            let Some(initial) = initial.get(&row) else { continue };
            let seen = self.count(server, &column(row)) - initial;
            let amounts: Vec<(i64, bool)> =
                calls.iter().map(|called| (amount(called), called.answer.is_some())).collect();
            let possible = sums(&amounts);
            assert!(possible.contains(&seen), "{name} {row} at server {server}: {seen}, not of {possible:?}");
        }
    }
}

/// Sums of all amounts that are certain, and of any of the others.
fn sums(amounts: &[(i64, bool)]) -> Vec<i64> {
    let mut possible = vec![0];
    for (amount, is_certain) in amounts {
        match is_certain {
            true => possible.iter_mut().for_each(|each| *each += amount),
            false => possible.extend(possible.clone().into_iter().map(|each| each + amount)),
        }
        possible.sort_unstable();
        possible.dedup();
    }
    possible
}

#[test]
fn a_lost_update_and_one_that_was_applied_twice_are_no_sums() {
    let amounts = [(2, true), (3, true), (10, false)];
    assert_eq!(sums(&amounts), [5, 15]);
    assert!(![2, 3, 8, 25].iter().any(|wrong| sums(&amounts).contains(wrong)));
}

/// Values of a column by key, as every server has them in the beginning.
fn initial(bench: &Bench, query: &str) -> BTreeMap<i64, i64> {
    let deployment = Deployment::start(bench, Target::Postgres).unwrap();
    let mut client = connect(&deployment.configs()[0]).unwrap();
    client.query(query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

const TPCW: [(&str, &str); 4] =
    [("items", "100"), ("customers", "60"), ("carts", "40"), ("ordering", "true")];

#[test]
fn purchases_of_tpcw_happen_once_at_every_server() {
    let world = World::run("tpcw", &TPCW, 5);
    let stock = initial(&world.bench, "SELECT i_id::bigint, i_stock::bigint FROM item");
    let before = initial(&world.bench, "SELECT 0::bigint, count(*) FROM orders")[&0];
    let old = initial(&world.bench, "SELECT ol_i_id::bigint, sum(ol_qty)::bigint FROM order_line GROUP BY 1");
    for query in
        ["SELECT * FROM orders", "SELECT * FROM order_line", "SELECT * FROM cc_xacts", "SELECT * FROM item"]
    {
        world.same_everywhere(query);
    }
    let purchases = ["confirm_purchase", "confirm_purchase_to_address"];
    assert!(world.of(&purchases).filter(|called| called.told(0).is_some()).count() > 10);
    world.inserted_once(&purchases, ("orders", "o_id"), before);
    // The stock falls by what is sold, and rises by 21 at a time.
    let mut client = world.client(0);
    let sold = "SELECT i_id::bigint, i_stock::bigint, coalesce(sum(ol_qty), 0)::bigint FROM item \
                LEFT JOIN order_line ON ol_i_id = i_id GROUP BY 1, 2";
    for row in client.query(sold, &[]).unwrap() {
        let (item, now, sold): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let new = sold - old.get(&item).unwrap_or(&0);
        let raised = now - (stock[&item] - new);
        assert!(raised >= 0 && raised % 21 == 0, "item {item}: {} and {new} sold, now {now}", stock[&item]);
    }
    for wrong in [
        "SELECT count(*) FROM orders WHERE NOT EXISTS (SELECT 1 FROM order_line WHERE ol_o_id = o_id)",
        "SELECT count(*) FROM orders WHERE o_total <> coalesce((SELECT sum(cx_xact_amt) FROM cc_xacts WHERE cx_o_id = o_id), 0)",
    ] {
        (0..SERVERS).for_each(|server| assert_eq!(world.count(server, wrong), 0, "{wrong}"));
    }
}

/// Answers of `take_pieces` say how many pieces are left: those of one item are a chain.
fn pieces_are_taken_one_after_the_other(world: &World, quantity: &BTreeMap<i64, i64>) {
    let mut items: BTreeMap<i64, (Vec<(i64, i64)>, bool)> = BTreeMap::new();
    for called in world.of(&["take_pieces"]) {
        let (takes, has_unknown) = items.entry(called.number(0)).or_default();
        match called.told(0) {
            Some(left) => takes.push((left, called.number(1))),
            None => *has_unknown = true,
        }
    }
    for (item, (takes, has_unknown)) in items {
        let Some(quantity) = quantity.get(&item) else { continue };
        chained(*quantity, takes, has_unknown).unwrap_or_else(|why| panic!("item {item}: {why}"));
    }
}

/// Takes, each with what it has left, fit one order that begins with a quantity; others may be among them.
fn chained(quantity: i64, mut takes: Vec<(i64, i64)>, has_unknown: bool) -> Result<(), String> {
    takes.sort_unstable_by(|one, other| other.cmp(one));
    let mut before = quantity;
    for (left, pieces) in takes {
        let expected = before - pieces;
        if left != expected && !(has_unknown && left < expected) {
            return Err(format!("{left} were left, not {expected}"));
        }
        before = left;
    }
    Ok(())
}

#[test]
fn answers_that_fit_no_order_are_found() {
    assert_eq!(chained(10, vec![(3, 5), (8, 2)], false), Ok(()));
    assert_eq!(chained(10, vec![(1, 5), (8, 2)], true), Ok(()));
    assert!(chained(10, vec![(8, 2), (8, 2)], false).is_err(), "two that have seen one state");
    assert!(chained(10, vec![(8, 2), (8, 2)], true).is_err());
    assert!(chained(10, vec![(1, 5), (8, 2)], false).is_err(), "one that was applied twice");
}

#[test]
fn bids_purchases_and_comments_of_rubis_happen_once() {
    let world = World::run("rubis", &[("users", "60"), ("items", "40"), ("old_items", "40")], 6);
    let quantity = initial(&world.bench, "SELECT id::bigint, quantity::bigint FROM items");
    let bids = initial(&world.bench, "SELECT id::bigint, nb_of_bids::bigint FROM items");
    let rating = initial(&world.bench, "SELECT id::bigint, rating::bigint FROM users");
    for (name, table) in [
        ("register_user", "users"),
        ("register_item", "items"),
        ("store_bid", "bids"),
        ("store_buy_now", "buy_now"),
        ("store_comment", "comments"),
    ] {
        world.inserted_once(
            &[name],
            (table, "id"),
            initial(&world.bench, &format!("SELECT 0::bigint, count(*) FROM {table}"))[&0],
        );
    }
    let of_item = |column: &'static str| {
        move |item: i64| format!("SELECT {column}::bigint FROM items WHERE id = {item}")
    };
    world.added_once("raise_item", of_item("nb_of_bids"), &bids, |_| 1);
    world.added_once("take_pieces", of_item("quantity"), &quantity, |called| -called.number(1));
    let of_user = |user: i64| format!("SELECT rating::bigint FROM users WHERE id = {user}");
    world.added_once("change_rating", of_user, &rating, |called| called.number(1));
    pieces_are_taken_one_after_the_other(&world, &quantity);
}
