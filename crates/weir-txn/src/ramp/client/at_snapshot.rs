//! Snapshots of a coordinator (docs/internals/snapshots.md): taking them, reading them, keeping them alive and ending them.
//!
//! A snapshot is not a flight: transactions that end while it exists are settled and forgotten as usual.

use std::sync::Arc;

use weir_core::clock::transaction_time;
use weir_core::ids::TxnId;
use weir_core::machine::{Orders, Sent, is_late};
use weir_types::{SqlError, Value};

use super::look_up::Asks;
use super::{Coordinator, Event, Flight, Output};
use crate::exec::gather::Gather;
use crate::exec::program::Program;
use crate::message::{Request, STILL_READ_MS, forgotten_snapshot, schema_has_changed};
use crate::ramp::own_statement;
use crate::ramp::reader::{Read, ReadAction};

/// An order for a snapshot.
#[derive(Debug)]
pub enum OfSnapshot {
    /// Takes the snapshot on all shards, under that schema version.
    Take(Arc<Program>),
    /// A read of the query with these values, at the snapshot.
    Read(Arc<Gather>, Vec<Value>),
    /// Ends the snapshot.
    End,
}

/// A snapshot that has been taken.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Its id at the shards.
    id: TxnId,
    program: Arc<Program>,
    /// When the shards were last sent a keep-alive.
    told_ms: u64,
}

impl Coordinator {
    pub(super) fn of_snapshot(
        &mut self,
        now_ms: u64,
        tag: u64,
        (name, what): (u64, OfSnapshot),
        out: &mut Orders<Request, Event>,
    ) {
        match what {
            OfSnapshot::Take(program) => self.take_snapshot(now_ms, tag, (name, program), out),
            OfSnapshot::Read(gather, values) => {
                if let Err(error) = self.read_snapshot(now_ms, tag, (name, gather, values), out) {
                    let result = Err(error);
                    out.done.push((tag, Event::ReadDone { result, rounds: 0, fetched: 0, examined: 0 }));
                }
            }
            OfSnapshot::End => {
                self.end_snapshot(name, out);
                out.done.push((tag, Event::Answered(Ok(Output::default()))));
            }
        }
    }

    fn take_snapshot(
        &mut self,
        now_ms: u64,
        tag: u64,
        (name, program): (u64, Arc<Program>),
        out: &mut Orders<Request, Event>,
    ) {
        let sequence = self.flights.next();
        let read = TxnId { coordinator: self.id, sequence };
        let machine =
            Read::begin_snapshot(read, program.schema_version, &self.sessions, &mut self.read_actions);
        self.flights.begin(Flight::Snapshot { tag, name, machine, program, sent: Sent::at(now_ms) });
        // It counts as an active read until all shards keep the snapshot (S10).
        self.reads.push_back(sequence);
        self.perform_snapshot(now_ms, sequence, out);
    }

    pub(super) fn perform_snapshot(&mut self, now_ms: u64, sequence: u64, out: &mut Orders<Request, Event>) {
        for action in std::mem::take(&mut self.read_actions) {
            if let ReadAction::Send(shard, request) = action {
                out.sends.push((shard, request));
                continue;
            }
            let Some(Flight::Snapshot { tag, name, program, .. }) = self.flights.end(sequence) else {
                unreachable!("the snapshot is being taken")
            };
            self.pass_reads();
            match action {
                ReadAction::Done(_) => {
                    let id = TxnId { coordinator: self.id, sequence };
                    self.snapshots.insert(name, Snapshot { id, program, told_ms: now_ms });
                    out.done.push((tag, Event::Answered(Ok(Output::default()))));
                }
                ReadAction::Failed(error) => out.done.push((tag, Event::Answered(Err(error)))),
                ReadAction::Again => return self.take_snapshot(now_ms, tag, (name, program), out),
                ReadAction::Send(..) => {}
            }
        }
    }

    fn read_snapshot(
        &mut self,
        now_ms: u64,
        tag: u64,
        (name, gather, values): (u64, Arc<Gather>, Vec<Value>),
        out: &mut Orders<Request, Event>,
    ) -> Result<(), SqlError> {
        let Some(Snapshot { id, program, .. }) = self.snapshots.get(&name) else {
            return Err(forgotten_snapshot());
        };
        let (snapshot, program) = (*id, program.clone());
        if gather.schema_version != program.schema_version {
            return Err(schema_has_changed());
        }
        let _watch = self.interrupts.watch(own_statement(tag));
        let queries = gather.queries(&values, (&program, transaction_time(now_ms)))?;
        let sequence = self.flights.next();
        let read = TxnId { coordinator: self.id, sequence };
        let machine = Read::begin_at_snapshot(read, snapshot, queries, &mut self.read_actions);
        let (within, asks, sent) = (None, Asks::Rows, Sent::at(now_ms));
        self.flights.begin(Flight::Read { tag, machine, gather, values, within, asks, program, sent });
        self.reads.push_back(sequence);
        self.perform_read(now_ms, sequence, out);
        Ok(())
    }

    /// Ends a snapshot, or one that is still being taken.
    pub(super) fn end_snapshot(&mut self, name: u64, out: &mut Orders<Request, Event>) {
        if let Some(Snapshot { id, program, .. }) = self.snapshots.remove(&name) {
            let end = |shard| (shard, Request::EndSnapshot { snapshot: id });
            return out.sends.extend((0..program.shards).map(end));
        }
        let is_it = |flight: &Flight| matches!(flight, Flight::Snapshot { name: of, .. } if *of == name);
        let taken = self.flights.iter_mut().find(|(_, flight)| is_it(flight)).map(|(sequence, _)| sequence);
        if let Some(sequence) = taken {
            self.give_up_snapshot(sequence, &forgotten_snapshot(), out);
        }
    }

    /// Ends the taking of a snapshot with that error.
    pub(super) fn give_up_snapshot(
        &mut self,
        sequence: u64,
        error: &SqlError,
        out: &mut Orders<Request, Event>,
    ) {
        let Some(Flight::Snapshot { tag, machine, .. }) = self.flights.end(sequence) else { return };
        self.pass_reads();
        machine.end(&mut self.read_actions);
        out.sends.extend(self.read_actions.drain(..).filter_map(ReadAction::into_send));
        out.done.push((tag, Event::Answered(Err(error.clone()))));
    }

    /// Sends keep-alives for the snapshots to all shards.
    pub(super) fn keep_snapshots(&mut self, now_ms: u64, out: &mut Orders<Request, Event>) {
        for Snapshot { id, program, told_ms } in self.snapshots.values_mut() {
            if is_late(now_ms, *told_ms, STILL_READ_MS) {
                *told_ms = now_ms;
                let told = |shard| (shard, Request::SnapshotIsRead { snapshot: *id });
                out.sends.extend((0..program.shards).map(told));
            }
        }
    }
}
