//! TPC-C as a source of transactions, and what its answers must say beside the data at the end.

use std::collections::{BTreeMap, BTreeSet};

use weir_baselines::eris::tpcc::consistency;
use weir_baselines::eris::tpcc::copied::Copied;
use weir_baselines::eris::tpcc::faults::NoFaults;
use weir_baselines::eris::tpcc::generator::Generator;
use weir_baselines::eris::tpcc::procedure::{Answer, Call, Procedure};
use weir_baselines::eris::tpcc::tables::{Order, Tables};
use weir_baselines::eris::tpcc::{DistrictId, Loaded, OrderId, Scale, WarehouseId};
use weir_core::ids::ShardId;

use crate::load::Answered;
use crate::source::Source;

/// Calls of the five transactions.
#[derive(Clone, Debug)]
pub struct TpccSource {
    generator: Generator,
}

impl TpccSource {
    /// Loads the tables that every shard has.
    pub fn new(scale: Scale, seed: u64) -> TpccSource {
        TpccSource { generator: Generator::new(Copied::leak(scale, seed), seed) }
    }
}

impl Source for TpccSource {
    type Origin = Loaded;

    fn origin(&self) -> Loaded {
        Loaded { copied: self.generator.copied(), faults: NoFaults }
    }

    fn with_seed(&self, seed: u64) -> Self {
        TpccSource { generator: self.generator.with_seed(seed) }
    }

    fn first(&self) -> Vec<Call> {
        Vec::new()
    }

    fn draw(&mut self) -> Call {
        self.generator.draw()
    }

    fn is_new_order(answers: &BTreeMap<ShardId, Answer>) -> bool {
        answers.values().any(|answer| matches!(answer, Answer::NewOrder { .. }))
    }

    fn check(
        &self,
        answers: Option<&[Answered<Call>]>,
        data: &BTreeMap<ShardId, Tables>,
    ) -> Result<String, String> {
        let scale = self.generator.copied().scale;
        let shards: Vec<_> = data.values().cloned().collect();
        consistency::check(scale, &shards)?;
        let Some(answers) = answers else { return Ok("all consistency conditions hold".to_owned()) };
        check_answers(scale, answers, &shards)?;
        Ok(format!("{} answers agree, and all consistency conditions hold", answers.len()))
    }
}

type OrderKey = (WarehouseId, DistrictId, OrderId);

/// Each order and payment that clients were told of is there, once, and nothing else is; so are deliveries.
fn check_answers(scale: Scale, answers: &[Answered<Call>], shards: &[Tables]) -> Result<(), String> {
    let orders = orders(shards);
    let (mut entered, mut delivered, mut payments) = (BTreeSet::new(), BTreeSet::new(), 0);
    for each in answers {
        payments += u64::from(matches!(&*each.operation.0, Procedure::Payment(_)));
        for answer in &each.answers {
            check_order(&each.operation, answer, &orders, &mut entered)?;
            check_delivery(&each.operation, answer, &orders, &mut delivered)?;
        }
    }
    let told = (entered.len() as u64, payments);
    let there = consistency::entered(scale, shards);
    if told != there {
        return Err(format!("clients were told of {told:?} orders and payments, and there are {there:?}"));
    }
    let is_later = |order: &&&Order| order.carrier.is_some() && order.id > scale.delivered();
    let there = orders.values().filter(is_later).count();
    if delivered.len() != there {
        return Err(format!("clients were told of {} deliveries, and there are {there}", delivered.len()));
    }
    Ok(())
}

fn orders(shards: &[Tables]) -> BTreeMap<OrderKey, &Order> {
    let mut orders = BTreeMap::new();
    for warehouse in shards.iter().flat_map(|shard| &shard.warehouses) {
        for (number, district) in (0..).zip(&warehouse.districts) {
            orders.extend(district.orders.iter().map(|order| ((warehouse.id, number, order.id), order)));
        }
    }
    orders
}

fn check_order(
    call: &Call,
    answer: &Answer,
    orders: &BTreeMap<OrderKey, &Order>,
    entered: &mut BTreeSet<OrderKey>,
) -> Result<(), String> {
    let (Procedure::NewOrder(order), Answer::NewOrder { order: Some((id, _)), .. }) = (&*call.0, answer)
    else {
        return Ok(());
    };
    let key = (order.warehouse, order.district, *id);
    let is_there = orders.get(&key).is_some_and(|there| {
        there.customer == order.customer && usize::from(there.lines) == order.lines.len()
    });
    if is_there && entered.insert(key) {
        return Ok(());
    }
    Err(format!("order {key:?} was told, and is another one or was told twice"))
}

fn check_delivery(
    call: &Call,
    answer: &Answer,
    orders: &BTreeMap<OrderKey, &Order>,
    delivered: &mut BTreeSet<OrderKey>,
) -> Result<(), String> {
    let (Procedure::Delivery { warehouse, carrier, .. }, Answer::Delivery { orders: told }) =
        (&*call.0, answer)
    else {
        return Ok(());
    };
    for (district, id) in (0..).zip(told) {
        let Some(id) = id else { continue };
        let key = (*warehouse, district, *id);
        let is_there = orders.get(&key).is_some_and(|there| there.carrier == Some(*carrier));
        if !is_there || !delivered.insert(key) {
            return Err(format!("order {key:?} was delivered otherwise, or twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod unit_tests {
    use weir_baselines::eris::application::{Application, OneShot, Origin};
    use weir_baselines::eris::operation::Placement;
    use weir_core::ids::TxnId;

    use super::*;

    /// Executes calls one after the other.
    fn ran(source: &mut TpccSource, calls: u64) -> (Vec<Answered<Call>>, BTreeMap<ShardId, Tables>) {
        let placement = Placement { shards: 2 };
        let mut shards: Vec<_> = (0..2).map(|shard| source.origin().shard(shard, placement)).collect();
        let answered = |sequence| {
            let operation = source.draw();
            let participants = operation.participants(placement).into_iter();
            let execute = |shard: ShardId| shards[usize::from(shard)].execute(sequence, &operation, &[]);
            let answers = participants.map(execute).collect();
            let txn = TxnId { coordinator: 1, sequence };
            Answered { txn, operation, begun_ns: 0, answered_ns: 1, answers }
        };
        let answers = (1..=calls).map(answered).collect();
        (answers, (0..).zip(shards.iter().map(Application::snapshot)).collect())
    }

    #[test]
    fn answers_must_be_of_what_is_there() {
        let mut source = TpccSource::new(Scale { warehouses: 2, customers: 30, items: 60 }, 1);
        let (mut answers, mut data) = ran(&mut source, 500);
        assert!(source.check(Some(&answers), &data).is_ok());
        let is_order = |each: &Answered<Call>| {
            each.answers.iter().any(|answer| matches!(answer, Answer::NewOrder { .. }))
        };
        let lost = answers.iter().position(is_order).map(|place| answers.remove(place)).unwrap();
        assert!(source.check(Some(&answers), &data).is_err(), "an order that nobody was told of");
        answers.extend([lost.clone(), lost]);
        assert!(source.check(Some(&answers), &data).is_err(), "an order that was told twice");
        answers.pop();
        assert!(source.check(Some(&answers), &data).is_ok());
        data.get_mut(&1).unwrap().warehouses[0].ytd += 1;
        assert!(source.check(Some(&answers), &data).is_err(), "condition 1");
    }
}
