//! The wire format: messages of every kind come back as they were, and altered bytes are refused or mean something else, without a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::TxnId;
use weir_kv::Bytes;
use weir_ordered::cluster::{Cluster, ReplicaId, Timeouts};
use weir_ordered::footprint::{Access, Footprint};
use weir_ordered::message::{Party, Reply};
use weir_ordered::packet::{Cut, Outcome, Packet, Part, Slot, Stamp, Transaction};
use weir_ordered::replica::Drops;
use weir_ordered::replica::checkpoint::{Answers, Checkpoint, Progress};
use weir_ordered::replica::locks::{Claim, Locks};
use weir_ordered::replica::log::{Entry, Log};
use weir_ordered::replica::records::Shared;
use weir_ordered::sequencer::Sequencer;
use weir_ordered_net::driver::Machine;
use weir_ordered_net::sequencer::SequencerMessage;
use weir_ordered_net::wire::{
    self, DATAGRAM_BYTES, Datagram, Message, OnWire as _, Operation, SMALL_BYTES_MAX,
};

use crate::chance::Chance;

const CLUSTER: Cluster =
    Cluster { shards: 300, replicas: 5, timeouts: Timeouts::DEFAULT, truncate_entries: 1, aside_max: 2 };
const TAG: u64 = 0x5eed;
const SLOT: Slot = Slot { epoch: 3, shard: 2, sequence: 1 << 40 };

fn transaction() -> Arc<Transaction<Operation>> {
    let reply_to = Some("[2001:db8::7]:5432".parse().unwrap());
    let operation = Operation { reply_to, body: Bytes::new(&[9; 50]) };
    let id = TxnId { coordinator: u64::MAX, sequence: 1 << 50 };
    let part = Part::Conclusory { preliminary: 1 << 48, commits: true };
    let destinations = (0..300).collect();
    Arc::new(Transaction { id, floor: 1 << 49, registration: 8, destinations, part, operation })
}

fn packet() -> Packet<Operation> {
    let sequences = (0..300).map(|shard| (shard, (1 << 60) + u64::from(shard))).collect();
    Packet { stamp: Stamp { epoch: 3, sequences }, client_floor: 7, transaction: transaction() }
}

fn log() -> Log<Operation> {
    let mut log = Log::default();
    log.push(Entry::NoOp);
    log.begin_epoch();
    log.push(Entry::Packet(packet()));
    log
}

fn cut() -> Cut {
    // A cut has no other constructor than that of its bytes: it is what a sequencer counts.
    let counters: BTreeMap<u16, u64> = [(0, 5), (299, 1 << 61)].into();
    postcard::from_bytes(&postcard::to_allocvec(&counters).unwrap()).unwrap()
}

fn shared() -> Shared<Operation> {
    let mut drops = Drops::default();
    drops.temporary.insert(SLOT);
    drops.permanent.insert(Slot { sequence: 2, ..SLOT });
    drops.found.insert(Slot { sequence: 3, ..SLOT });
    Shared { log: log(), drops }
}

/// With answers of every kind, locks that are held, and transactions that wait.
fn checkpoint() -> Checkpoint<Operation, Bytes, Bytes> {
    let done = |outcome| Progress::Done { at: 2, outcome };
    let answers = [
        (1, done(Outcome::Executed(Bytes::new(b"one")))),
        (2, done(Outcome::Aborted)),
        (3, Progress::Waiting),
    ];
    let claim = |part, footprint| {
        let transaction = Transaction { part, ..(*transaction()).clone() };
        Claim { transaction: Arc::new(transaction), footprint }
    };
    let items = Footprint::of([(5..=1 << 63, Access::Read), (7..=7, Access::Write)]);
    let mut locks = Locks::default();
    locks.take(claim(Part::Preliminary, items));
    locks.queue(1, claim(Part::Independent, Footprint::Everything));
    locks.queue(2, claim(Part::ReplicaAbort, Footprint::nothing()));
    Checkpoint {
        index: 2,
        application: Bytes::new(&[3; 100]),
        clients: [(6, Answers { registration: 4, floor: 1, answers: answers.into() })].into(),
        client_floor: 3,
        locks,
    }
}

/// A message of every kind.
fn messages() -> Vec<Message> {
    let txn = TxnId { coordinator: 1, sequence: 2 };
    let outcome = Outcome::Executed(Bytes::new(b"answer"));
    let answer = Some(outcome.clone());
    let operation = transaction().operation.clone();
    vec![
        Message::Submit(transaction()),
        Message::Packet(packet()),
        Message::Reply(Reply { txn, epoch: 3, view: 4, index: 5, answer }),
        Message::SequencerRequest { registration: 0 },
        Message::Registered { registration: 9 },
        Message::NewSequencer { epoch: 1, sequencer: u64::MAX, client_floor: 2 },
        Message::Retired { registration: 2 },
        Message::SequencerAlive { epoch: 3, counters: cut(), client_floor: 4 },
        Message::SlotRequest { slot: SLOT },
        Message::SlotFound(packet()),
        Message::SlotDropped { slot: SLOT },
        Message::FindTxn { slot: SLOT },
        Message::TxnRequest { slot: SLOT },
        Message::HasTxn(packet()),
        Message::TempDropped { slot: SLOT, view: 1 },
        Message::TxnFound(packet()),
        Message::TxnDropped { slot: SLOT },
        Message::ViewChange { epoch: 3, view: 4, state: Box::new(shared()) },
        Message::StartView { epoch: 3, view: 4, state: Box::new(shared()) },
        Message::SyncPrepare { epoch: 3, view: 4, index: 5, no_ops: vec![SLOT], complete_from: 1 },
        Message::SyncAck { epoch: 3, view: 4, index: 5, end: 6 },
        Message::SyncCommit { epoch: 3, view: 4, index: 5 },
        Message::EpochChangeRequest { epoch: 3 },
        Message::EpochStateRequest { epoch: 3 },
        Message::EpochState { epoch: 3, started: 2, view: 1, log: log() },
        Message::StartEpoch { epoch: 3, view: 1, log: log() },
        Message::EpochStarted { epoch: 3 },
        Message::JoinRequest { disk: 1 << 61, synchronized: 4 },
        Message::Behind { disk: 1, index: 2 },
        Message::Joined { disk: 1, epoch: 2 },
        Message::Synchronized { epoch: 3, sequence: 4 },
        Message::Stable { epoch: 3, cut: cut() },
        Message::Truncated { epoch: 3, index: 4 },
        Message::StateRequest { index: 4 },
        Message::State { epoch: 3, checkpoint: Arc::new(checkpoint()), log: log() },
        Message::Settled { txn, outcome },
        Message::Reconnaissance { number: 7, operation },
        Message::Reconnoitred { number: 7, answer: Some(Bytes::new(b"read")) },
    ]
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes);
    bytes
}

/// A datagram of one sender with these messages.
fn datagram(from: Party, messages: &[Vec<u8>]) -> Vec<u8> {
    let (mut bytes, datagram) = (Vec::new(), Datagram::new(TAG, from));
    datagram.begin(&mut bytes);
    messages.iter().for_each(|message| Datagram::push(message, &mut bytes));
    datagram.seal(&mut bytes);
    bytes
}

#[test]
fn messages_of_every_kind_come_back() {
    for message in messages() {
        let decoded = wire::decode::<Message>(&bytes(&message), &CLUSTER).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{message:?}"));
    }
}

#[test]
fn a_message_with_a_byte_more_or_less_is_none() {
    for message in messages() {
        let mut bytes = bytes(&message);
        bytes.push(0);
        assert!(wire::decode::<Message>(&bytes, &CLUSTER).is_err(), "{message:?}");
        bytes.truncate(bytes.len() - 2);
        assert!(wire::decode::<Message>(&bytes, &CLUSTER).is_err(), "{message:?}");
    }
}

/// Alters, cuts, extends or repeats some bytes.
fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..chance.between(1, 3) {
        let at = chance.below(bytes.len() as u64) as usize;
        match chance.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 if !bytes.is_empty() => bytes[at] = chance.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, vec![0xff; chance.between(1, 10) as usize])),
            _ => bytes.extend_from_within(at..),
        }
    }
}

#[test]
fn damaged_messages_are_refused_or_read_and_nothing_panics() {
    let (mut chance, mut read, mut refused) = (Chance::from_seed(28), 0, 0);
    for message in messages() {
        let whole = bytes(&message);
        for _ in 0..2_000 {
            let mut damaged = whole.clone();
            damage(&mut damaged, &mut chance);
            match wire::decode::<Message>(&damaged, &CLUSTER) {
                // It is another message, which can be written and read again.
                Ok(other) => {
                    assert!(wire::decode::<Message>(&bytes(&other), &CLUSTER).is_ok());
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(read > 1_000 && refused > 10_000, "{read} read, {refused} refused");
}

#[test]
fn damaged_datagrams_are_refused() {
    let messages: Vec<_> = messages().iter().map(bytes).filter(|each| each.len() < 200).collect();
    let whole = datagram(Party::FailureCoordinator, &messages[..10]);
    let opened = wire::open(TAG, &whole, &CLUSTER).unwrap();
    assert_eq!(opened.from, Party::FailureCoordinator);
    assert_eq!(opened.map(Result::unwrap).collect::<Vec<_>>(), messages[..10]);
    assert!(wire::open(TAG + 1, &whole, &CLUSTER).is_err(), "of another cluster");
    let mut chance = Chance::from_seed(29);
    for _ in 0..20_000 {
        let mut damaged = whole.clone();
        damage(&mut damaged, &mut chance);
        assert!(damaged == whole || wire::open(TAG, &damaged, &CLUSTER).is_err());
    }
}

/// As if whoever sent it had damaged it: the checksum is right.
#[test]
fn datagrams_that_were_written_wrongly_do_not_panic() {
    let messages: Vec<_> = messages().iter().map(bytes).filter(|each| each.len() < 200).collect();
    let (mut chance, mut read) = (Chance::from_seed(30), 0);
    for _ in 0..20_000 {
        let mut damaged = datagram(Party::Client(7), &messages[..5]);
        damage(&mut damaged, &mut chance);
        if damaged.len() < 8 {
            continue;
        }
        Datagram::new(TAG, Party::Client(7)).seal(&mut damaged);
        if let Ok(opened) = wire::open(TAG, &damaged, &CLUSTER) {
            let decoded = opened.map(|each| each.and_then(|each| wire::decode::<Message>(each, &CLUSTER)));
            read += decoded.filter(Result::is_ok).count();
        }
    }
    assert!(read > 10_000, "{read} messages are read");
}

#[test]
fn padding_ends_a_datagram_and_the_longest_message_fits() {
    let longest = Party::Replica(ReplicaId { shard: 299, number: 4 });
    for from in [Party::Client(u64::MAX), Party::Sequencer(u64::MAX), longest] {
        let message = vec![1; SMALL_BYTES_MAX];
        let mut bytes = datagram(from, std::slice::from_ref(&message));
        assert!(bytes.len() <= DATAGRAM_BYTES);
        bytes.resize(DATAGRAM_BYTES, 0);
        Datagram::new(TAG, from).seal(&mut bytes);
        let opened = wire::open(TAG, &bytes, &CLUSTER).unwrap();
        assert_eq!(opened.map(Result::unwrap).collect::<Vec<_>>(), [message]);
    }
}

/// A sequencer that passes bytes on sends what one that reads transactions whole would send.
#[test]
fn a_sequencer_passes_the_bytes_of_transactions_on() {
    let address = "127.0.0.1:1234".parse().unwrap();
    for (reply_to, body) in [(None, vec![]), (None, vec![7; 300]), (Some(address), vec![1; 3])] {
        let operation = Operation { body: Bytes::new(&body), reply_to };
        let submitted = Arc::new(Transaction { operation, ..(*transaction()).clone() });
        let mut bytes = Vec::new();
        wire::encode(&Message::Submit(submitted.clone()), &mut bytes);
        let read = SequencerMessage::read(&bytes, &CLUSTER).unwrap();
        assert!(matches!(read, SequencerMessage::Submit(_)));
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again, bytes);

        let mut sequencer = Sequencer::new(5, CLUSTER);
        let mut whole = sequencer.clone();
        let begun = || Message::NewSequencer { epoch: 3, sequencer: 5, client_floor: 7 };
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        let step = <Sequencer as Machine>::step;
        step(
            &mut sequencer,
            0,
            Party::FailureCoordinator,
            SequencerMessage::Other(Box::new(begun())),
            &mut sent,
        );
        step(&mut sequencer, 0, Party::Client(1), read, &mut sent);
        wire::with_effects(&mut expected, |out| whole.step(begun(), out));
        wire::with_effects(&mut expected, |out| whole.step(Message::Submit(submitted), out));
        let written = |message: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            message(&mut bytes);
            bytes
        };
        assert_eq!(sent.len(), 300 * 5);
        let sent: Vec<_> = sent.iter().map(|one| (one.to, written(&|out| one.message.write(out)))).collect();
        let expected: Vec<_> =
            expected.iter().map(|one| (one.to, written(&|out| wire::encode(&one.message, out)))).collect();
        assert!(sent == expected);
    }
}

/// Of a cluster's parties only clients and replicas submit; bytes that are no transaction are refused as others are.
#[test]
fn a_sequencer_refuses_damaged_transactions() {
    let mut bytes = Vec::new();
    wire::encode(&Message::Submit(transaction()), &mut bytes);
    for at in 0..bytes.len() {
        assert!(SequencerMessage::read(&bytes[..at], &CLUSTER).is_err(), "{at}");
        for bit in 0..8 {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << bit;
            let whole = wire::decode::<Message>(&altered, &CLUSTER).is_ok();
            assert_eq!(SequencerMessage::read(&altered, &CLUSTER).is_ok(), whole, "{at} {bit}");
        }
    }
}
