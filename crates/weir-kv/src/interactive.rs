//! Interactive transactions: reads that are not known in advance, then the writes that were buffered meanwhile (design.md §5; soundness
//! S14; docs/internals/items.md).
//!
//! The part of the coordinator that groups statements. All statements of a transaction read the same cut, and the transaction counts as
//! one read in flight from its opening to its end, so shards keep what the cut needs.

use weir_core::machine::{Sent, is_late};
use weir_core::participant::READER_DELAY_MS_MAX;

use super::buffer::{Buffer, NotOneWrite};
use super::bytes::Key;
use super::coordinator::{Coordinator, Done, Get, Out, ReadFlight};
use super::cut::{Cut, Opened, Opening};
use super::faults::ClientFaults;
use super::message::{Guard, KeyRange, Reply};
use super::reader::{Read, ReadSet};
use super::write::Write;

/// Isolation between the statements of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All statements read one cut: of every other transaction they see all or nothing.
    ReadAtomic,
    /// Each statement reads its own cut.
    ReadCommitted,
}

#[derive(Debug)]
pub(super) struct Interactive {
    isolation: Isolation,
    buffer: Buffer,
    cut: Option<Cut>,
    /// Read that remains in flight until the transaction has ended.
    held: Option<u64>,
    /// When that read began.
    held_ms: u64,
    /// Statement that waits for the cut.
    waiting: Option<(Vec<Key>, Vec<KeyRange>)>,
    /// Number of the read of the current statement.
    reading: Option<u64>,
    /// The client has received data of the cut.
    told: bool,
    /// Some shard has dropped the cut.
    lost: bool,
    /// Rounds of the current statement that failed, or took the cut.
    rounds: u32,
}

/// A cut that is being taken.
#[derive(Debug)]
pub(super) struct OpeningFlight {
    pub(super) tag: u64,
    pub(super) opening: Opening,
    pub(super) sent: Sent,
}

impl Interactive {
    pub(super) fn has_cut(&self) -> bool {
        self.cut.is_some()
    }
}

impl<F: ClientFaults> Coordinator<F> {
    /// Begins an interactive transaction under that tag, which must be unused. Sends nothing.
    pub fn open(&mut self, tag: u64, isolation: Isolation) {
        let transaction = Interactive {
            isolation,
            buffer: Buffer::default(),
            cut: None,
            held: None,
            held_ms: 0,
            waiting: None,
            reading: None,
            told: false,
            lost: false,
            rounds: 0,
        };
        let earlier = self.interactive.insert(tag, transaction);
        assert!(earlier.is_none(), "tag {tag} is in use");
    }

    /// Returns whether an interactive transaction is open under that tag.
    pub fn is_open(&self, tag: u64) -> bool {
        self.interactive.contains_key(&tag)
    }

    /// Reads; one statement at a time. The answer is `Done::Read`, or `Done::Restart`, which ends the transaction. A transaction that is
    /// not open is answered with a restart.
    pub fn read(&mut self, now_ms: u64, tag: u64, keys: Vec<Key>, ranges: Vec<KeyRange>, out: &mut Out) {
        let Some(transaction) = self.interactive.get_mut(&tag).filter(|transaction| !transaction.lost) else {
            self.roll_back(tag);
            return out.done.push((tag, Done::Restart));
        };
        let waits = transaction.reading.is_some() || transaction.waiting.is_some();
        assert!(!waits, "the statement before has been answered");
        transaction.rounds = 0;
        if transaction.isolation == Isolation::ReadCommitted {
            let reading = self.begin_get(now_ms, tag, (keys, ranges, Vec::new()), (0, true), out);
            return self.note_reading(tag, reading);
        }
        if self.options.bugs.forgets_what_it_saw() {
            transaction.cut = None;
        }
        transaction.waiting = Some((keys, ranges));
        match &transaction.cut {
            Some(_) => self.begin_statement(now_ms, tag, out),
            None => self.take_cut(now_ms, tag, out),
        }
    }

    /// Buffers a write. It is sent at the commit; reads of the transaction see it before.
    ///
    /// # Errors
    /// The write cannot be combined with the transaction's earlier write of the item; nothing has changed then.
    pub fn write(&mut self, tag: u64, key: Key, write: Write) -> Result<(), NotOneWrite> {
        let transaction = self.interactive.get_mut(&tag);
        transaction.map_or(Ok(()), |transaction| transaction.buffer.write(key, write))
    }

    pub(super) fn note_reading(&mut self, tag: u64, reading: u64) {
        self.interactive.get_mut(&tag).expect("it is open").reading = Some(reading);
    }

    /// Ends the transaction and sends the buffered writes. The answer is that of any transaction, or `Done::Restart` if it is not open.
    pub fn commit(&mut self, now_ms: u64, tag: u64, out: &mut Out) {
        self.commit_guarded(now_ms, tag, Vec::new(), out);
    }

    /// Commits if the guards hold; else the answer is `Done::Conflict`.
    pub fn commit_guarded(&mut self, now_ms: u64, tag: u64, guards: Vec<Guard>, out: &mut Out) {
        let Some(transaction) = self.end_interactive(tag) else {
            return out.done.push((tag, Done::Restart));
        };
        self.write_all(now_ms, tag, (transaction.buffer.into_writes(), guards), out);
    }

    /// Ends the transaction and sends these writes, conditional on the guards.
    pub(super) fn commit_with(
        &mut self,
        now_ms: u64,
        tag: u64,
        writes: (Vec<(Key, Write)>, Vec<Guard>),
        out: &mut Out,
    ) {
        match self.end_interactive(tag) {
            Some(_) => self.write_all(now_ms, tag, writes, out),
            None => out.done.push((tag, Done::Restart)),
        }
    }

    /// Sends these writes, conditional on the guards.
    pub(super) fn write_all(
        &mut self,
        now_ms: u64,
        tag: u64,
        (writes, guards): (Vec<(Key, Write)>, Vec<Guard>),
        out: &mut Out,
    ) {
        if writes.is_empty() {
            let done = Done::Committed { read: ReadSet::default(), stamp: None, rounds: (0, 0) };
            return out.done.push((tag, done));
        }
        self.begin_write(now_ms, tag, (writes, guards), ReadSet::default(), 0, out);
    }

    /// Ends the transaction, if it is open, without writing. There is no answer.
    pub fn roll_back(&mut self, tag: u64) {
        self.end_interactive(tag);
    }

    fn end_interactive(&mut self, tag: u64) -> Option<Interactive> {
        let transaction = self.interactive.remove(&tag)?;
        self.end_reads([transaction.held, transaction.reading]);
        Some(transaction)
    }

    fn end_reads(&mut self, reads: [Option<u64>; 2]) {
        reads.into_iter().flatten().for_each(|read| self.reads.drop(read));
        self.drains.on_ended(self.reads.base());
    }

    /// Asks all shards for the cut.
    fn take_cut(&mut self, now_ms: u64, tag: u64, out: &mut Out) {
        let own = self.own_to_name();
        let opening = Opening::new(&self.sessions, own);
        opening.send_pending(self.reads.next(), &mut out.sends);
        let flight = OpeningFlight { tag, opening, sent: Sent::at(now_ms) };
        let held = self.reads.begin(ReadFlight::Opening(Box::new(flight)));
        let transaction = self.interactive.get_mut(&tag).expect("it is open");
        let before = transaction.held.replace(held);
        transaction.held_ms = now_ms;
        transaction.rounds += 1;
        self.end_reads([before, None]);
    }

    pub(super) fn on_opening_reply(&mut self, now_ms: u64, read: u64, reply: Reply, out: &mut Out) {
        let Some(flight) = self.reads.get_mut(read) else { return };
        let ReadFlight::Opening(opening) = flight else { return };
        let tag = opening.tag;
        let opened = match reply {
            Reply::Opened { shard, position, undrained, .. } => {
                opening.opening.on_opened(shard, position, undrained)
            }
            Reply::Again { shard, .. } => opening.opening.on_again(shard),
            _ => return,
        };
        match opened {
            Opened::Wait => {}
            Opened::Again => self.take_cut(now_ms, tag, out),
            Opened::Done(mut cut) => {
                *flight = ReadFlight::Held;
                if self.options.bugs.cut_names_nothing() {
                    cut.forget_names();
                }
                self.interactive.get_mut(&tag).expect("its opening is under way").cut = Some(cut);
                self.begin_statement(now_ms, tag, out);
            }
        }
    }

    /// Reads the statement that waits for the cut.
    fn begin_statement(&mut self, now_ms: u64, tag: u64, out: &mut Out) {
        let transaction = self.interactive.get_mut(&tag).expect("it is open");
        let cut = transaction.cut.as_ref().expect("the cut has been taken");
        let (keys, ranges) = transaction.waiting.take().expect("a statement waits");
        let machine = Read::at_cut(self.options.variant, self.options.shards, keys, ranges, cut);
        transaction.reading = Some(self.reads.next());
        let get = Get {
            tag,
            machine,
            writes: Vec::new(),
            sent: Sent::at(now_ms),
            earlier_rounds: transaction.rounds,
            of_several: true,
        };
        if get.machine.is_waiting() {
            get.machine.send_pending(self.reads.next(), &mut out.sends);
            self.reads.begin(ReadFlight::Get(get));
        } else {
            // An empty statement.
            self.tell_statement(get, ReadSet::default(), out);
        }
    }

    /// Answers a statement whose read has ended.
    pub(super) fn tell_statement(&mut self, get: Get<F>, mut read: ReadSet, out: &mut Out) {
        let Get { tag, machine, earlier_rounds, .. } = get;
        let transaction = self.interactive.get_mut(&tag).expect("its statement was under way");
        transaction.reading = None;
        transaction.told = true;
        transaction.buffer.show_in(&machine.keys, &machine.ranges, &mut read);
        // The first statement took the cut in one round and was read in a second one.
        let own = if transaction.cut.is_some() { 1 } else { machine.rounds };
        out.done.push((tag, Done::Read { read, rounds: earlier_rounds + own }));
    }

    /// A shard has dropped the reader: takes a new cut, unless the client has seen data of the old one.
    pub(super) fn lose_cut(&mut self, now_ms: u64, get: Get<F>, out: &mut Out) {
        let Get { tag, machine, .. } = get;
        let transaction = self.interactive.get_mut(&tag).expect("its statement was under way");
        transaction.reading = None;
        if transaction.told {
            self.roll_back(tag);
            return out.done.push((tag, Done::Restart));
        }
        transaction.cut = None;
        transaction.rounds += 1;
        transaction.waiting = Some((machine.keys, machine.ranges));
        self.take_cut(now_ms, tag, out);
    }

    /// Releases cuts that shards are about to drop too.
    pub(super) fn end_long_reads(&mut self, now_ms: u64, out: &mut Out) {
        let is_long =
            |one: &Interactive| one.held.is_some() && is_late(now_ms, one.held_ms, READER_DELAY_MS_MAX);
        let long = self.interactive.iter().filter(|(_, one)| is_long(one));
        let long: Vec<u64> = long.map(|(tag, _)| *tag).collect();
        for tag in long {
            let transaction = self.interactive.get_mut(&tag).expect("it is open");
            if transaction.reading.is_some() || transaction.waiting.is_some() {
                self.roll_back(tag);
                out.done.push((tag, Done::Restart));
            } else {
                transaction.lost = true;
                let held = transaction.held.take();
                self.end_reads([held, None]);
            }
        }
    }
}
