//! Transactions that change nothing: their answers wait for no record of their own, and no restart lets them take effect behind the client's
//! back (docs/ramp.md, "Calls that change nothing").

use std::sync::Arc;

use weir_core::ids::{Sender, ShardId, Timestamp, TxnId};
use weir_core::lsn::{Lsn, Outgoing};
use weir_core::machine::{Coordinator as _, Durable as _, Effects, Exposed as _, Orders, Shard as _};
use weir_core::termination::Timeouts;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Age, Attachment, Begun, Output, Reply, Request, Work};
use weir_txn::ramp::{Begin, Coordinator, Event, Protocol};
use weir_txn::shard::{Node, Record};

use crate::calls::{self, call};

const NOW_MS: u64 = 1_000_000_000;
const OPEN: usize = 0;
const CLOSE: usize = 1;
const DRAW: usize = 2;
/// The record of the shard's start.
const STARTED: Lsn = Lsn(1);

const ACCOUNTS: &str = "
CREATE SEQUENCE number;
CREATE TABLE account (id integer PRIMARY KEY);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account VALUES (a) ON CONFLICT DO NOTHING; END $$;
CREATE PROCEDURE close(a integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM account WHERE id = a; END $$;
CREATE PROCEDURE draw(a integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM account WHERE id = a AND nextval('number') < 0; PERFORM nextval('number'); END $$;
";

fn program() -> Arc<Program> {
    calls::program(&calls::application(ACCOUNTS), 1)
}

fn begun(txn: TxnId) -> Begun {
    let TxnId { coordinator, sequence } = txn;
    Begun { age: Age { sequence, coordinator }, at_ms: NOW_MS }
}

/// A shard with a log of which nothing is durable but its start, and its next transaction.
struct Stage {
    shard: Node<PlantedBugs>,
    next: u64,
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        let mut shard = Node::recover(0, program(), bugs, Timeouts::default(), []);
        assert_eq!(shard.take_records().len(), 1);
        shard.on_durable(STARTED);
        Stage { shard, next: 0 }
    }

    /// The shard hears the request as from another process.
    fn say(&mut self, request: Request) -> Vec<Outgoing<u64, Reply>> {
        let request = sent(&request);
        let (mut effects, from) = (Effects::default(), Sender::Coordinator(request.txn().coordinator));
        self.shard.step(NOW_MS, from, request, &mut effects);
        effects.replies
    }

    fn txn(&mut self) -> TxnId {
        self.next += 1;
        TxnId { coordinator: 1, sequence: self.next }
    }

    /// A call that names that incarnation.
    fn request(&mut self, procedure: usize, incarnation: Option<u64>) -> Request {
        let txn = self.txn();
        Request::Execute { txn, begun: begun(txn), call: Box::new(call(procedure, &[1])), incarnation }
    }

    /// Runs it in the first incarnation; gives whether it was answered as unchanged, and the position that the answer waits for.
    fn call(&mut self, procedure: usize) -> (bool, Lsn) {
        let request = self.request(procedure, Some(1));
        match &self.say(request)[..] {
            [Outgoing { message: Reply::Unchanged { .. }, after, .. }] => (true, *after),
            [Outgoing { message: Reply::Executed { result: Ok(_), .. }, after, .. }] => (false, *after),
            other => panic!("{other:?}"),
        }
    }
}

/// The request as another process gets it.
fn sent(request: &Request) -> Request {
    let bytes = postcard::to_allocvec(&(request, <Node>::attachment(request))).unwrap();
    let (mut request, attachment): (Request, Attachment) = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(<Node>::attach(&mut request, attachment), None);
    request
}

#[test]
fn a_call_waits_only_for_what_it_has_read() {
    let mut stage = Stage::new(PlantedBugs::default());
    assert_eq!(stage.call(CLOSE), (true, Lsn::START), "no row, as the durable log says");
    let (is_unchanged, opened) = stage.call(OPEN);
    assert!(!is_unchanged && opened > STARTED);
    assert_eq!(stage.call(OPEN), (true, opened), "the row in its way is not durable");
    stage.shard.on_durable(opened);
    assert_eq!(stage.call(OPEN), (true, Lsn::START));
    let (_, closed) = stage.call(CLOSE);
    assert!(closed > opened);
    assert_eq!(stage.call(CLOSE), (true, closed), "that the row is gone is not durable");
}

/// A later call must not be given the values again.
#[test]
fn a_call_that_draws_from_a_sequence_is_logged() {
    let mut stage = Stage::new(PlantedBugs::default());
    let (is_unchanged, drawn) = stage.call(DRAW);
    assert!(!is_unchanged && drawn > STARTED);
}

/// The answer to a repetition comes from memory, although another transaction has made room for an effect meanwhile.
#[test]
fn a_repetition_takes_no_effect() {
    let mut stage = Stage::new(PlantedBugs::default());
    let close = stage.request(CLOSE, Some(1));
    stage.say(close.clone());
    stage.call(OPEN);
    for again in [close.clone(), without_incarnation(close)] {
        let replies = stage.say(again);
        assert!(matches!(replies[..], [Outgoing { message: Reply::Executed { result: Ok(_), .. }, .. }]));
        assert_eq!(stage.shard.storage.row_counts().next(), Some(1));
    }
}

fn without_incarnation(request: Request) -> Request {
    match request {
        Request::Execute { txn, begun, call, .. } => Request::Execute { txn, begun, call, incarnation: None },
        other => other,
    }
}

/// The shard has answered that no row is there, restarts, and gets a late copy of the request when there is one.
fn rows_after_a_late_request(bugs: PlantedBugs) -> Option<usize> {
    let mut stage = Stage::new(bugs);
    let close = stage.request(CLOSE, Some(1));
    stage.say(close.clone());
    stage.call(OPEN);
    let start = Node::recover(0, program(), bugs, Timeouts::default(), []).take_records();
    let records: Vec<_> = start.into_iter().chain(stage.shard.take_records()).collect();
    stage.shard = Node::recover(0, program(), bugs, Timeouts::default(), records);
    stage.say(close);
    stage.shard.storage.row_counts().next()
}

#[test]
fn a_restarted_shard_ignores_a_late_request() {
    assert_eq!(rows_after_a_late_request(PlantedBugs::default()), Some(1));
}

#[test]
fn a_shard_that_runs_a_late_request_is_caught() {
    let bugs = PlantedBugs { runs_late_requests: true, ..PlantedBugs::default() };
    assert_eq!(rows_after_a_late_request(bugs), Some(0));
}

/// The incarnation of such a shard is a clock, of which its drain epochs carry a part.
#[test]
fn a_shard_without_a_log_ignores_no_request() {
    let mut stage = Stage::new(PlantedBugs::default());
    let started = Record::Started { incarnation: 1_800_000_000_000 };
    stage.shard =
        Node::recover(0, program(), PlantedBugs::default(), Timeouts::default(), [started]).without_log();
    let mut coordinator = coordinator();
    coordinator.on_epoch(0, stage.shard.epoch());
    let mut orders = Orders::default();
    coordinator.begin(NOW_MS, 7, Begin::Call(call(OPEN, &[1])), &mut orders);
    let (_, request) = orders.sends.pop().unwrap();
    assert!(matches!(request, Request::Execute { incarnation: Some(_), .. }));
    let replies = stage.say(request);
    assert!(matches!(replies[..], [Outgoing { message: Reply::Executed { result: Ok(_), .. }, .. }]));
}

/// An open transaction that has changed nothing ends without a record, unless it may have been given values of a sequence.
#[test]
fn an_open_transaction_waits_only_for_sequences() {
    for (procedure, is_logged) in [(CLOSE, false), (DRAW, true)] {
        let mut stage = Stage::new(PlantedBugs::default());
        let (txn, participants): (_, Arc<[ShardId]>) = (stage.txn(), Arc::new([0]));
        let call = Arc::new(call(procedure, &[1]));
        let work = Work { number: 1, opened: None, call, participants, answers: Vec::new() };
        stage.say(Request::Work { txn, begun: begun(txn), work: Box::new(work) });
        let (participants, above): (Arc<[ShardId]>, _) = (Arc::new([]), Timestamp::default());
        let finish = Request::Finish { txn, begun: begun(txn), participants, above, opened: 1 };
        let replies = stage.say(finish.clone());
        let [Outgoing { message: Reply::Decided { .. }, after, .. }] = &replies[..] else {
            panic!("{replies:?}");
        };
        assert_eq!(*after > STARTED, is_logged);
        let again = stage.say(finish);
        assert!(matches!(again[..], [Outgoing { message: Reply::Decided { .. }, .. }]), "{again:?}");
    }
}

/// A coordinator that has heard from the shard.
fn coordinator() -> Coordinator {
    let mut coordinator = Coordinator::resending(1, program(), Protocol::RampFast);
    let epoch = Node::recover(0, program(), PlantedBugs::default(), Timeouts::default(), []).epoch();
    coordinator.on_epoch(0, epoch);
    coordinator
}

/// The coordinator handles a reply; returns the requests that it sends, and whether it answers the client.
fn answer(coordinator: &mut Coordinator, reply: Reply) -> (Vec<Request>, bool) {
    let mut orders = Orders::default();
    coordinator.on_reply(NOW_MS, reply, &mut orders);
    let is_answered = orders.done.iter().any(|(_, event)| matches!(event, Event::Answered(Ok(_))));
    (orders.sends.into_iter().map(|(_, request)| request).collect(), is_answered)
}

#[test]
fn the_answer_to_the_only_request_counts() {
    let mut coordinator = coordinator();
    let mut orders = Orders::default();
    coordinator.begin(NOW_MS, 7, Begin::Call(call(CLOSE, &[1])), &mut orders);
    let [(0, Request::Execute { txn, incarnation: Some(1), .. })] = orders.sends[..] else {
        panic!("it knows the incarnation: {:?}", orders.sends);
    };
    assert!(answer(&mut coordinator, Reply::Unchanged { txn, output: Output::default() }).1);
}

/// Another incarnation may have run the second request, with an effect: then the answer of the first would be wrong.
#[test]
fn an_answer_without_a_record_does_not_count_once_the_call_was_sent_again() {
    let mut coordinator = coordinator();
    let mut orders = Orders::default();
    coordinator.begin(NOW_MS, 7, Begin::Call(call(CLOSE, &[1])), &mut orders);
    let mut sent = Orders::default();
    for later in 1..100 {
        coordinator.on_timer(NOW_MS + later * 100, &mut sent);
    }
    let [(0, Request::Execute { txn, incarnation: None, .. }), ..] = sent.sends[..] else {
        panic!("any incarnation may run it: {:?}", sent.sends);
    };
    let unchanged = Reply::Unchanged { txn, output: Output::default() };
    let (asked, is_answered) = answer(&mut coordinator, unchanged.clone());
    assert!(!is_answered && matches!(asked[..], [Request::Execute { incarnation: None, .. }]), "{asked:?}");
    let executed = Reply::Executed { txn, result: Ok(Output::default()) };
    assert!(answer(&mut coordinator, executed).1);
    let (asked, is_answered) = answer(&mut coordinator, unchanged);
    assert!(asked.is_empty() && !is_answered);
}
