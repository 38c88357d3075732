//! TPC-C over some shards in one process: what is rolled back leaves nothing, and the conditions hold unless a bug is planted.

use super::super::application::OneShot;
use super::consistency::{check, entered};
use super::faults::PlantedBugs;
use super::generator::Generator;
use super::procedure::{Line, NewOrder, Procedure};
use super::*;

const SCALE: Scale = Scale { warehouses: 3, customers: 30, items: 60 };
const PLACEMENT: Placement = Placement { shards: 2 };

fn copied() -> &'static Copied {
    static COPIED: std::sync::OnceLock<Copied> = std::sync::OnceLock::new();
    COPIED.get_or_init(|| Copied::load(SCALE, 7))
}

fn shards<F: Faults>(faults: F) -> Vec<Tpcc<F>> {
    let loaded = Loaded { copied: copied(), faults };
    (0..PLACEMENT.shards).map(|shard| loaded.shard(shard, PLACEMENT)).collect()
}

fn snapshots<F: Faults>(shards: &[Tpcc<F>]) -> Vec<Tables> {
    shards.iter().map(Application::snapshot).collect()
}

/// Executes a call at its participants.
fn execute<F: Faults>(shards: &mut [Tpcc<F>], index: Index, call: &Call) -> Vec<Answer> {
    let participants = call.participants(PLACEMENT);
    participants.into_iter().map(|shard| shards[usize::from(shard)].execute(index, call, &[])).collect()
}

fn ran<F: Faults>(faults: F, seed: u64, calls: u64) -> Vec<Tpcc<F>> {
    let (mut shards, mut generator) = (shards(faults), Generator::new(copied(), seed));
    for index in 1..=calls {
        execute(&mut shards, index, &generator.draw());
    }
    shards
}

#[test]
fn the_conditions_hold_at_the_beginning_and_after_any_calls() {
    assert_eq!(check(SCALE, &snapshots(&shards(NoFaults))), Ok(()));
    for seed in 0..3 {
        let after = snapshots(&ran(NoFaults, seed, 2_000));
        assert_eq!(check(SCALE, &after), Ok(()));
        let (orders, payments) = entered(SCALE, &after);
        assert!((800..1_000).contains(&orders) && (760..960).contains(&payments), "{orders} {payments}");
    }
}

/// A roll-back restores the data, after any transactions and any number of times.
#[test]
fn a_roll_back_restores_exactly_what_was() {
    for seed in 0..30 {
        let (mut shards, mut generator) = (shards(NoFaults), Generator::new(copied(), seed));
        let mut chance = Chance::new(seed);
        let (mut then, mut forgotten) = (vec![snapshots(&shards)], 0);
        for _ in 0..12 {
            for _ in 0..chance.between(1, 20) {
                execute(&mut shards, then.len() as Index, &generator.draw());
                then.push(snapshots(&shards));
            }
            let last = then.len() as u64 - 1;
            forgotten = chance.between(forgotten, last);
            shards.iter_mut().for_each(|shard| shard.forget(forgotten));
            let to = chance.between(forgotten, last);
            shards.iter_mut().for_each(|shard| shard.roll_back(to));
            then.truncate(to as usize + 1);
            assert!(snapshots(&shards) == then[to as usize], "seed {seed}, back to {to} of {last}");
        }
    }
}

#[test]
fn a_snapshot_is_restored_and_goes_on_alike() {
    let (mut shards, mut generator) = (ran(NoFaults, 1, 200), Generator::new(copied(), 9));
    let mut others = self::shards(NoFaults);
    for (other, shard) in others.iter_mut().zip(&shards) {
        other.restore(200, &shard.snapshot());
    }
    for index in 201..400 {
        let call = generator.draw();
        assert_eq!(execute(&mut others, index, &call), execute(&mut shards, index, &call));
    }
    others.iter_mut().for_each(|shard| shard.roll_back(200));
    assert!(snapshots(&others) == snapshots(&ran(NoFaults, 1, 200)));
}

#[test]
fn what_is_executed_for_good_is_what_is_executed() {
    let (mut shards, mut others) = (shards(NoFaults), shards(NoFaults));
    let mut generator = Generator::new(copied(), 3);
    for index in 1..300 {
        let call = generator.draw();
        for shard in call.participants(PLACEMENT) {
            let (one, other) = (&mut shards[usize::from(shard)], &mut others[usize::from(shard)]);
            let foretold = one.answer(&call, &[]);
            let answer = one.execute(index, &call, &[]);
            assert_eq!((&foretold, &other.execute_for_good(&call, &[])), (&answer, &answer));
        }
    }
    others.iter_mut().for_each(|shard| shard.roll_back(0));
    assert!(snapshots(&shards) == snapshots(&others), "nothing is undone");
}

#[test]
fn an_unused_item_rolls_an_order_back_at_all_shards() {
    let mut shards = shards(NoFaults);
    let before = snapshots(&shards);
    let line = |item, supply| Line { item, supply, quantity: 3 };
    let mut order = NewOrder {
        warehouse: 0,
        district: 4,
        customer: 5,
        entered_ms: 1,
        lines: vec![line(1, 0), line(2, 1), line(SCALE.items, 0)],
    };
    let rolled_back = execute(&mut shards, 1, &Call(Procedure::NewOrder(order.clone()).into()));
    assert_eq!(rolled_back, [Answer::RolledBack, Answer::RolledBack]);
    assert!(snapshots(&shards) == before);
    order.lines.pop();
    let entered = execute(&mut shards, 2, &Call(Procedure::NewOrder(order).into()));
    let [Answer::NewOrder { order: Some((id, sum)), stock }, Answer::NewOrder { order: None, stock: remote }] =
        &entered[..]
    else {
        panic!("{entered:?}")
    };
    assert_eq!((*id, stock[0].0, remote[0].0), (SCALE.customers + 1, 0, 1));
    assert!(*sum > 0);
}

/// Clause 5.2.3, 2.4.1 and 2.5.1; eris.txt §8.2: "10% of transactions issued to multiple participants", with a warehouse at each shard.
#[test]
fn the_mix_is_that_of_the_specification() {
    let copied = Copied::leak(Scale { warehouses: 15, customers: 30, items: 200 }, 1);
    let mut generator = Generator::new(copied, 5);
    let calls: Vec<_> = (0..40_000).map(|_| generator.draw()).collect();
    let share = |is: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count() as f64 / 400.0;
    let distributed = share(&|call| call.participants(Placement { shards: 15 }).len() > 1);
    assert!((9.5..11.5).contains(&distributed), "{distributed}%");
    let rolled_back = share(&|call| match &*call.0 {
        Procedure::NewOrder(order) => order.lines.iter().any(|line| copied.item(line.item).is_none()),
        _ => false,
    });
    assert!((0.3..0.6).contains(&rolled_back), "{rolled_back}%");
    let kind = |call: &Call| match &*call.0 {
        Procedure::NewOrder(_) => 0,
        Procedure::Payment(_) => 1,
        Procedure::OrderStatus { .. } => 2,
        Procedure::Delivery { .. } => 3,
        Procedure::StockLevel { .. } => 4,
    };
    for (number, expected) in [45.0, 43.0, 4.0, 4.0, 4.0].into_iter().enumerate() {
        let seen = share(&|call| kind(call) == number);
        assert!((seen - expected).abs() < 1.0, "{seen}% for {expected}%");
    }
}

/// No two accesses of a call have a key in common, as locks need it.
#[test]
fn a_call_names_each_key_once() {
    let mut generator = Generator::new(copied(), 2);
    for _ in 0..1_000 {
        let call = generator.draw();
        let mut keys: Vec<_> = (0..2).flat_map(|shard| call.keys_read_at(shard, PLACEMENT)).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "{call:?}");
    }
}

#[test]
fn planted_bugs_break_conditions() {
    let broken = |bugs| check(SCALE, &snapshots(&ran(bugs, 1, 2_000))).unwrap_err();
    let none = PlantedBugs::default();
    assert!(broken(PlantedBugs { loses_remote_stock: true, ..none }).contains("condition 13"));
    assert!(broken(PlantedBugs { loses_remote_payment: true, ..none }).contains("condition 10"));
    assert!(broken(PlantedBugs { delivers_again: true, ..none }).contains("condition 5"));
    let mut shards = ran(PlantedBugs { leaves_lines: true, ..none }, 1, 100);
    shards.iter_mut().for_each(|shard| shard.roll_back(50));
    assert!(check(SCALE, &snapshots(&shards)).unwrap_err().contains("condition 4"));
    assert_eq!(check(SCALE, &snapshots(&ran(none, 1, 2_000))), Ok(()));
}
