//! Anything at all is said to shards: conversations are recorded, damaged, and said again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use weir_core::machine::Outgoing;
use weir_core::machine::{Coordinator as _, CoordinatorOf, Durable, Effects, Orders, Shard};
use weir_kv::{
    Bytes, Coordinator, Isolation, Key, KeyRange, Options, Partition, Progress, Reply, Request, Timeouts,
    Transaction, Variant, Write, log,
};
use weir_net::frame;
use weir_sql::Sources;
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::message::{self, Attachment, Call, Callee};
use weir_txn::ramp::{Begin, Coordinator as Calls, Protocol};
use weir_txn::shard::Node;
use weir_types::Value;
use weir_types::memory::WorkingMemory;

use super::*;

const SHARDS: ShardId = 3;
const HERE: ShardId = 1;
const NOW_MS: u64 = 1_000_000;
const OLDEST: u16 = *body::VERSIONS.start();
const NEWEST: u16 = *body::VERSIONS.end();
/// A coordinator has seen no histories of shards.
const NO_NEWS: Vec<(ShardId, Vec<Mark>)> = Vec::new();

/// A shard that writes whatever it is sent, so that damage shows.
struct Credulous(Partition);

impl Shard for Credulous {
    type Request = Request;
    type Reply = Reply;
    type Progress = Progress;

    fn id(&self) -> ShardId {
        self.0.id()
    }

    fn epoch(&self) -> u64 {
        self.0.epoch()
    }

    fn on_progress(&mut self, now_ms: u64, coordinator: u64, progress: Progress) {
        self.0.on_progress(now_ms, coordinator, progress);
    }

    fn step(&mut self, now_ms: u64, from: Sender, request: Request, out: &mut Effects<Request, Reply>) {
        self.0.step(now_ms, from, request, out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Request, Reply>) {
        self.0.on_timer(now_ms, out);
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }
}

impl Durable for Credulous {
    type Record = log::Record;

    fn take_records(&mut self) -> Vec<log::Record> {
        self.0.take_records()
    }

    fn snapshot(&mut self) -> log::Record {
        self.0.snapshot()
    }
}

impl Exposed for Credulous {
    type Description = ();
    type Attachment = ();

    fn refuses(&self, progress: &Progress) -> Option<&'static str> {
        self.0.refuses(progress)
    }

    fn refuses_request(&self, from: Sender, request: &Request, shards: ShardId) -> Option<&'static str> {
        // A table of all sequences there are would not be a panic, but the end of this process.
        self.0.refuses_request(from, request, shards).filter(|why| !why.contains("item"))
    }

    fn undecided(&self) -> impl Iterator<Item = u64> {
        self.0.undecided()
    }
}

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }
}

/// Body of a frame with one request.
fn write_body<S>(
    version: u16,
    progress: &S::Progress,
    request: &S::Request,
    attachment: S::Attachment,
) -> Vec<u8>
where
    S: Exposed,
    S::Request: Serialize,
    S::Progress: Serialize,
{
    let mut out = Vec::new();
    body::write(progress, &mut out);
    if version >= COMPARES_FROM {
        body::write(&NO_NEWS, &mut out);
    }
    body::write(request, &mut out);
    if version >= ATTACHES_FROM {
        body::write(&attachment, &mut out);
    }
    out
}

/// Bodies of the frames from one coordinator to one shard in an undamaged run. `begin` begins its transactions.
fn record<S, C>(
    version: u16,
    shards: &mut [S],
    coordinator: &mut C,
    transactions: u64,
    mut begin: impl FnMut(&mut C, u64, &mut Orders<S::Request, C::Done>),
) -> Vec<Vec<u8>>
where
    S: Exposed,
    C: CoordinatorOf<S>,
    S::Request: Serialize,
    S::Progress: Serialize,
{
    let mut said = Vec::new();
    for n in 0..transactions {
        let mut orders = Orders::default();
        begin(coordinator, n, &mut orders);
        while !orders.sends.is_empty() {
            for (to, request) in std::mem::take(&mut orders.sends) {
                let progress = coordinator.progress(to);
                if to == HERE {
                    said.push(write_body::<S>(version, &progress, &request, S::attachment(&request)));
                }
                let (shard, mut effects) = (&mut shards[usize::from(to)], Effects::default());
                shard.on_progress(NOW_MS, 7, progress);
                shard.step(NOW_MS, Sender::Coordinator(7), request, &mut effects);
                coordinator.on_epoch(to, shard.epoch());
                for Outgoing { message: reply, .. } in effects.replies {
                    coordinator.on_reply(NOW_MS, reply, &mut orders);
                }
            }
        }
    }
    said
}

/// Frames of transactions over items.
fn conversation(variant: Variant, version: u16) -> Vec<Vec<u8>> {
    let mut shards: Vec<Partition> = (0..SHARDS).map(|id| Partition::new(id, NoFaults)).collect();
    let options =
        Options { variant, shards: SHARDS, links_keep_order: false, one_phase: false, bugs: NoFaults };
    let key = |n: u64| Key::from(format!("key{n}").as_str());
    record(version, &mut shards, &mut Coordinator::new(7, 0, options), 24, |coordinator, n, orders| {
        let range = KeyRange { from: key(n), to: key(n + 3) };
        let transaction = Transaction {
            reads: (n % 4..n % 4 * 2).map(key).collect(),
            ranges: if n % 6 == 5 { vec![range] } else { Vec::new() },
            writes: (n..n + n % 5).map(|n| (key(n), Write::Put(Bytes::from("value")))).collect(),
        };
        if n % 8 == 3 {
            coordinator.open(n, Isolation::ReadAtomic);
            coordinator.read(NOW_MS, n, transaction.reads, Vec::new(), orders);
        } else {
            coordinator.begin(NOW_MS, n, transaction, orders);
        }
    })
}

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, note text);
CREATE PROCEDURE open(a integer, said text) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account VALUES (a, 0, said); END $$;
CREATE PROCEDURE transfer(a integer, b integer, amount integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
END $$;
";

/// A program, and the frames from a coordinator of its calls to one shard.
fn calls() -> (Arc<Program>, Vec<Vec<u8>>) {
    let mut sources = Sources::default();
    sources.add("accounts.sql", ACCOUNTS);
    let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let analysis = weir_analysis::analyze(&application);
    let program = Arc::new(Program::compile(&application, &analysis.plan, SHARDS).unwrap());
    let mut shards: Vec<Node> = (0..SHARDS).map(|id| node(id, &program)).collect();
    let mut coordinator = Calls::resending(7, program.clone(), Protocol::RampFast);
    let said = record(NEWEST, &mut shards, &mut coordinator, 40, |coordinator, n, orders| {
        let int = |n: u64| Value::Int(n as i64);
        let (procedure, args) = match n % 4 {
            0 | 1 => (0, vec![int(n), Value::Text("a note".into())]),
            _ => (1, vec![int(n / 4), int(n / 2), int(5)]),
        };
        coordinator.begin(NOW_MS, n, Begin::Call(call_of(procedure, args)), orders);
    });
    (program, said)
}

fn call_of(procedure: usize, args: Vec<Value>) -> Call {
    Call {
        callee: Callee::Procedure(procedure),
        args,
        transaction_time: 0.into(),
        schema_version: 0,
        memory: WorkingMemory::default(),
    }
}

fn node(id: ShardId, program: &Arc<Program>) -> Node {
    Node::recover(id, program.clone(), NoFaults, Default::default(), [])
}

fn damage(body: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    for _ in 0..1 + chance.below(3) {
        let at = chance.below(body.len());
        match chance.below(6) {
            0 if !body.is_empty() => body[at] ^= 1 << chance.below(8),
            1 if !body.is_empty() => body[at] = [0, 1, 0x7F, 0x80, 0xFF][chance.below(5)],
            2 => body.truncate(at),
            // A number of many bytes, in the middle.
            3 => drop(body.splice(at..at, [0xFF; 9])),
            4 => drop(body.splice(at.., other[chance.below(other.len())..].iter().copied())),
            _ => body.extend(other),
        }
    }
}

/// Sends damaged frames to a shard. Returns the number of those accepted.
fn say<S>(shard: &mut S, (said, version): (&[Vec<u8>], u16), seed: u64) -> usize
where
    S: Exposed,
    S::Request: DeserializeOwned,
    S::Progress: DeserializeOwned,
{
    let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(seed));
    let (mut effects, seen) = (Effects::default(), Seen::default());
    let mut believed = 0;
    for _ in 0..40 {
        let mut body = said[chance.below(said.len())].clone();
        if chance.below(3) > 0 {
            damage(&mut body, &said[chance.below(said.len())], &mut chance);
        }
        let (from, kind) = match chance.below(5) {
            0 => (Sender::Shard(chance.below(3) as ShardId), Kind::Peer),
            1 => (Sender::Coordinator(8), Kind::Requests),
            _ => (Sender::Coordinator(7), Kind::Requests),
        };
        let mut bytes = Vec::new();
        frame::push(&mut bytes, kind, |out| out.extend(&body)).unwrap();
        let (frame, _) = frame::first(&bytes).unwrap().unwrap();
        let step = |shard: &mut S, request| shard.step(NOW_MS, from, request, &mut effects);
        believed += usize::from(take(shard, (NOW_MS, SHARDS, &seen), (from, version), frame, step).is_ok());
        shard.on_timer(NOW_MS + chance.below(3_000) as u64, &mut effects);
        assert!(effects.peers.drain(..).all(|request| request.to < SHARDS), "there is no such shard");
        effects.replies.clear();
        shard.take_records();
    }
    believed
}

/// A shard of calls takes a request and its attachment in the form of that version; gives the attachment of the request that it runs.
fn taken(version: u16, request: &message::Request, attachment: Attachment) -> Result<Attachment, Fault> {
    let mut node = node(HERE, &calls().0);
    let progress = message::Progress { settled_below: 0, drained: 0 };
    let body = write_body::<Node>(version, &progress, request, attachment);
    let (mut run, peer) = (None, (Sender::Coordinator(7), version));
    let step = |_: &mut Node, request| run = Some(<Node>::attachment(&request));
    take(&mut node, (NOW_MS, SHARDS, &Seen::default()), peer, (Kind::Requests, &body), step)?;
    Ok(run.expect("it is run"))
}

#[test]
fn a_request_takes_along_what_its_version_knows() {
    let txn = weir_core::ids::TxnId { coordinator: 7, sequence: 0 };
    let age = message::Age { sequence: 0, coordinator: 7 };
    let begun = message::Begun { age, at_ms: NOW_MS };
    let (program, _) = calls();
    let opens = |n: i64| call_of(0, vec![Value::Int(n), Value::Null]);
    let call = (0..).map(opens).find(|call| program.participants(call).unwrap() == [HERE]).unwrap();
    let request = message::Request::Execute { txn, begun, call: Box::new(call), incarnation: None };
    let memory = WorkingMemory { files_bytes_max: Some(0), ..WorkingMemory::default() };
    let some = Attachment { incarnation: Some(1), memory: Some(memory) };
    for version in body::VERSIONS {
        let expected = if version >= ATTACHES_FROM { some } else { Attachment::default() };
        assert_eq!(taken(version, &request, some), Ok(expected), "version {version}");
    }
    let memory = WorkingMemory { sort_bytes: usize::MAX, ..memory };
    let fault = taken(NEWEST, &request, Attachment { memory: Some(memory), ..some }).unwrap_err();
    assert!(fault.to_string().contains("working memory that no session has"), "{fault}");
}

fn cases() -> u64 {
    std::env::var("WEIR_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500)
}

#[test]
fn whatever_is_said_to_a_shard_it_goes_on() {
    let mut believed = 0;
    let variants = [Variant::Fast, Variant::Small, Variant::HYBRID].into_iter();
    for (variant, version) in variants.flat_map(|variant| [(variant, OLDEST), (variant, NEWEST)]) {
        let said = conversation(variant, version);
        assert!(said.len() > 20);
        for seed in 0..cases() / 2 {
            let mut shard = Partition::recover(HERE, NoFaults, Timeouts::default(), []);
            believed += say(&mut shard, (&said, version), seed);
            // Its records are enough to start from.
            let snapshot = shard.snapshot();
            Partition::recover(HERE, NoFaults, Timeouts::default(), [snapshot]);
        }
    }
    assert!(believed > 0, "all of it was refused: nothing has been tried");
}

#[test]
fn whatever_is_said_to_a_shard_of_calls_it_goes_on() {
    let (program, said) = calls();
    assert!(said.len() > 20);
    let mut believed = 0;
    for seed in 0..cases() {
        let mut shard = node(HERE, &program);
        believed += say(&mut shard, (&said, NEWEST), seed);
        let snapshot = shard.snapshot();
        Node::recover(HERE, program.clone(), NoFaults, Default::default(), [snapshot]);
    }
    assert!(believed > 0, "all of it was refused: nothing has been tried");
}

#[test]
fn a_shard_that_believes_everything_is_brought_down() {
    let said = conversation(Variant::HYBRID, OLDEST);
    let falls = |seed| {
        let shard = Partition::recover(HERE, NoFaults, Timeouts::default(), []);
        catch_unwind(AssertUnwindSafe(|| say(&mut Credulous(shard), (&said, OLDEST), seed))).is_err()
    };
    std::panic::set_hook(Box::new(|_| ()));
    let seed = (0..3_000).find(|seed| falls(*seed));
    drop(std::panic::take_hook());
    assert!(seed.is_some());
}
