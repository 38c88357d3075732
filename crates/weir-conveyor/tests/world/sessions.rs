//! Sessions: pieces of work that databases do, step by step, as the plans of the protocol say.
//!
//! A session whose agent has died goes on for a while, and may commit: nobody hears of it.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_conveyor::epochs::{ServerId, StartNumber, VisitNumber};
use weir_conveyor::plan::{Capture, Step, Transaction, transactions};
use weir_conveyor::routing::{MapChange, Routing};
use weir_conveyor::token::Visit;
use weir_conveyor::work::{Done, EpochRow, Work, WorkId};

use crate::world::application::{Answer, Cell, Change, Number, Operation, Row, Statement, Update, told};
use crate::world::database::{Base, Blocked, Database, Item, TxnId, Value};
use crate::world::events::Event;
use crate::world::history::Executed;
use crate::world::{SimDone, SimWork, World};

/// No operation has a higher number.
const LOGS_MAX: Number = 3_000;

pub type SessionId = u64;
type SimStep = Step<Operation, Update>;

/// A session.
#[derive(Debug)]
pub struct Session {
    pub agent: ServerId,
    pub start: StartNumber,
    pub id: WorkId,
    pub server: ServerId,
    /// The start of the database in which the session began.
    pub database_start: u64,
    pub work: SimWork,
    /// Transactions that have not committed; the first is the current one.
    left: VecDeque<Transaction<Operation, Update>>,
    txn: Option<TxnId>,
    step: usize,
    /// Units of the step that are done: statements, or rows.
    unit: usize,
    run: Run,
    contents: Option<Arc<Visit<Update>>>,
    /// The rows of another server, as of this moment.
    base: Option<Base>,
    pub is_orphan: bool,
    pub is_cancelled: bool,
}

/// What an operation has done so far.
#[derive(Debug, Default)]
struct Run {
    number: Number,
    read: Answer,
    /// Versions of other operations that it has read.
    reads: Vec<(Row, Number)>,
    changes: Vec<Change>,
}

impl Run {
    fn statement(
        &mut self,
        database: &mut Database,
        txn: TxnId,
        statement: Statement,
    ) -> Result<(), Blocked> {
        let row = statement.row();
        let cell = database.cell(txn, row);
        let found = cell.and_then(|cell| cell.value);
        if matches!(statement, Statement::Take(_)) {
            let cell = Cell { value: found, writer: self.number };
            self.changes.push(Change { row, cell, is_insert: true });
        }
        if let Some(value) = statement.write(found, &self.read) {
            let cell = Cell { value, writer: self.number };
            database.write(txn, Item::Row(row), Some(Value::Cell(cell)))?;
            self.changes.push(Change { row, cell, is_insert: found.is_none() });
        }
        let writer = cell.map_or(0, |cell| cell.writer);
        if writer != self.number {
            self.reads.push((row, writer));
        }
        self.read.push(told(found));
        Ok(())
    }
}

/// How a session goes on.
enum Progress {
    Goes,
    Waits,
    Ends(SimDone),
}

impl Session {
    fn current(&self) -> Option<&SimStep> {
        self.left.front()?.steps.get(self.step)
    }

    fn next_step(&mut self) {
        self.step += 1;
        self.unit = 0;
    }

    /// Does one unit of the current step. `Some`: the transaction ends without a commit.
    fn unit(&mut self, database: &mut Database, txn: TxnId) -> Result<Option<SimDone>, Blocked> {
        let Some(step) = self.current().cloned() else { return Ok(None) };
        match step {
            Step::ReadState => {}
            Step::LockEpoch(license) => {
                database.share(txn, Item::Epoch)?;
                if !epoch_row(database, txn).licenses(license) {
                    return Ok(Some(Done::NotLicensed));
                }
            }
            Step::ReadEpoch(license) => {
                if !epoch_row(database, txn).licenses(license) {
                    return Ok(Some(Done::NotLicensed));
                }
            }
            Step::CheckMap(version) => {
                if map_of(database, txn).version != version {
                    return Ok(Some(Done::WrongMap));
                }
            }
            Step::CheckMapAtMost(version) => {
                if map_of(database, txn).version > version {
                    return Ok(Some(Done::WrongMap));
                }
            }
            Step::CopyBase(_) => {
                let own = map_of(database, txn).version;
                let is_known =
                    |base: &Base, server| base.map.version > own && !base.map.absent.contains(server);
                return self.copy(database, txn, is_known);
            }
            Step::CopyAnyBase(_) => {
                let is_known = |base: &Base, server| !base.map.absent.contains(server);
                return self.copy(database, txn, is_known);
            }
            Step::Run(operation, capture) => return self.run(database, txn, &operation, capture),
            Step::Apply(update) => return self.apply(database, txn, &update),
            Step::MovePosition { after, to } => {
                let position = database.read(txn, Item::Position);
                if position != Some(Value::Position(after)) {
                    return Ok(Some(Done::State(database.state())));
                }
                database.write(txn, Item::Position, Some(Value::Position(to)))?;
            }
            Step::Adopt(epoch) => change_row(database, txn, |row| row.adopted(epoch)).map(drop)?,
            Step::Fence(epoch, visit) => {
                change_row(database, txn, |row| row.fenced(epoch, visit)).map(drop)?
            }
            Step::Close(license) => {
                if !change_row(database, txn, |row| row.ended(license))? {
                    return Ok(Some(Done::State(database.state())));
                }
            }
            Step::ReadOutbox(number) => {
                let updates = database.outbox(txn, number);
                self.contents = Some(Arc::new(Visit { number, updates }));
            }
            Step::DeleteOutbox { up_to } => {
                for item in database.outboxes_up_to(up_to) {
                    database.write(txn, item, None)?;
                }
            }
            Step::CaptureApart(visit) => {
                let apart = database.begin(weir_conveyor::plan::Isolation::Serializable);
                self.write_outbox(database, apart, visit, None)?;
                database.commit(apart)?;
            }
        }
        self.next_step();
        Ok(None)
    }

    fn run(
        &mut self,
        database: &mut Database,
        txn: TxnId,
        operation: &Operation,
        capture: Capture,
    ) -> Result<Option<SimDone>, Blocked> {
        if self.unit == 0 {
            self.run = Run { number: operation.number, ..Run::default() };
        }
        if let Some(statement) = operation.statements.get(self.unit) {
            self.run.statement(database, txn, *statement)?;
            self.unit += 1;
            return Ok(None);
        }
        match capture {
            Capture::Nothing => {}
            Capture::Columns(visit) if operation.change.is_some() => {
                self.change_map(database, txn, (visit, operation))?;
            }
            Capture::Columns(visit) => self.write_outbox(database, txn, visit, None)?,
            Capture::Statements(visit) => self.write_outbox(database, txn, visit, Some(operation))?,
        }
        self.next_step();
        Ok(None)
    }

    /// The map changes here, and everywhere with the visit, which has the rows that move.
    fn change_map(
        &self,
        database: &mut Database,
        txn: TxnId,
        (visit, operation): (VisitNumber, &Operation),
    ) -> Result<(), Blocked> {
        let Some(change) = &operation.change else { return Ok(()) };
        let next = map_of(database, txn).changed(self.server, change).expect("the map allows the change");
        database.write(txn, Item::Map, Some(Value::Map(next.clone())))?;
        let to = |change: &Change| (next.owner(change.row.slot().expect("a cart moves")), *change);
        let mut rows: Vec<_> = self.run.changes.iter().map(to).collect();
        if let MapChange::Leave { heir, .. } = change {
            // The scan reads also what is not there.
            let logs = (0..LOGS_MAX).map(Row::Log);
            let found = logs.filter_map(|row| Some((row, database.cell(txn, row)?)));
            rows.extend(found.map(|(row, cell)| (*heir, Change { row, cell, is_insert: true })));
        }
        let order = database.next_order();
        let update = Update::Map(Box::new(next), rows);
        database.write(txn, Item::Outbox(visit, order), Some(Value::Update(update)))
    }

    /// Takes everything of another server. `is_known`: that server knows that this one is a member.
    fn copy(
        &mut self,
        database: &mut Database,
        txn: TxnId,
        is_known: impl Fn(&Base, ServerId) -> bool,
    ) -> Result<Option<SimDone>, Blocked> {
        if !map_of(database, txn).absent.contains(self.server) {
            return Ok(Some(Done::State(database.state())));
        }
        let Some(Base { rows, position, mut map }) = self.base.take_if(|base| is_known(base, self.server))
        else {
            return Ok(Some(Done::WrongMap));
        };
        map.absent = map.absent.without(self.server);
        let gone = database.rows().into_keys().filter(|row| !rows.contains_key(row));
        for row in gone.collect::<Vec<_>>() {
            database.write(txn, Item::Row(row), None)?;
        }
        for (row, cell) in rows {
            database.write(txn, Item::Row(row), Some(Value::Cell(cell)))?;
        }
        database.write(txn, Item::Map, Some(Value::Map(map)))?;
        database.write(txn, Item::Position, Some(Value::Position(position)))?;
        self.next_step();
        Ok(None)
    }

    fn write_outbox(
        &self,
        database: &mut Database,
        txn: TxnId,
        visit: VisitNumber,
        statements: Option<&Operation>,
    ) -> Result<(), Blocked> {
        if self.run.changes.is_empty() {
            return Ok(());
        }
        let update = match statements {
            Some(operation) => Update::Statements(operation.clone()),
            None => Update::Columns(self.run.changes.clone()),
        };
        let order = database.next_order();
        database.write(txn, Item::Outbox(visit, order), Some(Value::Update(update)))
    }

    fn apply(
        &mut self,
        database: &mut Database,
        txn: TxnId,
        update: &Update,
    ) -> Result<Option<SimDone>, Blocked> {
        let is_left = match update {
            Update::Columns(changes) => {
                let change = changes.get(self.unit);
                change.map(|change| apply_change(database, txn, change)).transpose()?.is_some()
            }
            Update::Map(map, rows) => {
                if self.unit == 0 {
                    database.write(txn, Item::Map, Some(Value::Map(Routing::clone(map))))?;
                }
                let row = rows.get(self.unit);
                if let Some((to, change)) = row
                    && *to == self.server
                {
                    database.write(txn, Item::Row(change.row), Some(Value::Cell(change.cell)))?;
                }
                row.is_some()
            }
            Update::Statements(operation) => {
                if self.unit == 0 {
                    self.run = Run { number: operation.number, ..Run::default() };
                }
                let statement = operation.statements.get(self.unit);
                statement.map(|each| self.run.statement(database, txn, *each)).transpose()?.is_some()
            }
        };
        match is_left {
            true => self.unit += 1,
            false => self.next_step(),
        }
        Ok(None)
    }
}

/// A missing row is passed over.
fn apply_change(database: &mut Database, txn: TxnId, change: &Change) -> Result<(), Blocked> {
    let is_there = database.cell(txn, change.row).is_some_and(|cell| cell.value.is_some());
    if is_there || change.is_insert {
        database.write(txn, Item::Row(change.row), Some(Value::Cell(change.cell)))?;
    }
    Ok(())
}

fn map_of(database: &mut Database, txn: TxnId) -> Routing {
    match database.read(txn, Item::Map) {
        Some(Value::Map(map)) => map,
        other => panic!("the map is {other:?}"),
    }
}

fn epoch_row(database: &mut Database, txn: TxnId) -> EpochRow {
    match database.read(txn, Item::Epoch) {
        Some(Value::Epoch(row)) => row,
        other => panic!("the epoch row is {other:?}"),
    }
}

/// Returns whether the row has changed. Otherwise it is not locked, as by an UPDATE whose condition is false.
fn change_row(
    database: &mut Database,
    txn: TxnId,
    change: impl Fn(EpochRow) -> EpochRow,
) -> Result<bool, Blocked> {
    let row = epoch_row(database, txn);
    let new = change(row);
    if new != row {
        database.write(txn, Item::Epoch, Some(Value::Epoch(new)))?;
    }
    Ok(new != row)
}

impl World {
    /// An agent has a database do something.
    pub(super) fn start_session(&mut self, agent: ServerId, start: StartNumber, id: WorkId, work: SimWork) {
        let server = match work {
            Work::Read { server, .. } | Work::Fence { server, .. } => server,
            _ => agent,
        };
        let session = Session {
            agent,
            start,
            id,
            server,
            database_start: self.databases[&server].start,
            left: transactions(&work, &self.profile.plan_bugs).into(),
            work,
            txn: None,
            step: 0,
            unit: 0,
            run: Run::default(),
            contents: None,
            base: None,
            is_orphan: false,
            is_cancelled: false,
        };
        let number = self.next_session;
        self.next_session += 1;
        self.sessions.insert(number, session);
        self.schedule_step(number);
    }

    pub(super) fn schedule_step(&mut self, session: SessionId) {
        let slow = self.is_faulty && self.chance.per_mille(self.profile.slow);
        let most_ms = if slow { self.profile.slow_ms } else { self.profile.step_ms };
        let after_ms = self.chance.between(0, most_ms);
        self.schedule(after_ms, Event::Step(session));
    }

    pub(super) fn step_session(&mut self, number: SessionId) {
        let Some(mut session) = self.sessions.remove(&number) else { return };
        match self.progress(&mut session) {
            Progress::Ends(done) => self.end_session(&session, done),
            Progress::Goes | Progress::Waits => {
                self.sessions.insert(number, session);
                self.schedule_step(number);
            }
        }
    }

    fn end_session(&mut self, session: &Session, done: SimDone) {
        if let Some(database) = self.databases.get_mut(&session.server)
            && let Some(txn) = session.txn
        {
            database.abort(txn);
        }
        let after_ms = self.chance.between(0, 2);
        let (agent, start, id) = (session.agent, session.start, session.id);
        let database = (session.server, session.database_start);
        self.schedule(after_ms, Event::Done { agent, start, id, done, database });
    }

    fn progress(&mut self, session: &mut Session) -> Progress {
        let is_cut = self.is_cut_off(session.agent, session.server);
        let is_killed = session.is_orphan && self.chance.per_mille(60);
        let Some(database) = self.databases.get_mut(&session.server) else {
            return Progress::Ends(Done::Lost);
        };
        if !database.is_up || database.start != session.database_start {
            session.txn = None;
            return Progress::Ends(Done::Lost);
        }
        if is_cut || is_killed {
            return Progress::Ends(Done::Lost);
        }
        let Some(txn) = session.txn else {
            let Some(transaction) = session.left.front() else { return Progress::Ends(Done::Lost) };
            session.txn = Some(database.begin(transaction.isolation));
            (session.step, session.unit) = (0, 0);
            return Progress::Goes;
        };
        if session.is_cancelled {
            return Progress::Ends(Done::Cancelled);
        }
        if session.current().is_none() {
            return self.commit(session, txn);
        }
        if let Some(Step::CopyBase(from) | Step::CopyAnyBase(from)) = session.current().cloned() {
            let source = self.databases.get(&from).filter(|source| source.is_up);
            session.base = source.map(Database::base);
            if session.base.is_none() || self.is_cut_off(session.agent, from) {
                return Progress::Ends(Done::Lost);
            }
        }
        let Some(database) = self.databases.get_mut(&session.server) else {
            return Progress::Ends(Done::Lost);
        };
        match session.unit(database, txn) {
            Ok(None) => Progress::Goes,
            Ok(Some(done)) => Progress::Ends(done),
            Err(Blocked::Waits) => Progress::Waits,
            Err(Blocked::Fails) => Progress::Ends(Done::SerializationFailure),
        }
    }

    /// Commits the current transaction. The last one gives the result of the session.
    fn commit(&mut self, session: &mut Session, txn: TxnId) -> Progress {
        session.txn = None;
        let Some(database) = self.databases.get_mut(&session.server) else { return Progress::Goes };
        let Ok(sequence) = database.commit(txn) else { return Progress::Ends(Done::SerializationFailure) };
        let state = database.state();
        let Some(transaction) = session.left.pop_front() else { return Progress::Goes };
        self.note_commit(session, &transaction, sequence);
        if !session.left.is_empty() {
            return Progress::Goes;
        }
        Progress::Ends(match &session.work {
            Work::Load | Work::Apply { .. } | Work::End { .. } | Work::Copy { .. } => Done::State(state),
            Work::Adopt { .. } | Work::Fence { .. } => Done::Row(state.row),
            Work::Execute { .. } => Done::Executed(session.run.read.clone()),
            Work::Truncate { .. } => Done::Truncated,
            Work::Read { server, visit } => {
                let read = session.contents.clone().expect("the outbox is read");
                Done::Contents(self.read_early.get(&(*server, *visit)).cloned().unwrap_or(read))
            }
        })
    }

    fn note_commit(
        &mut self,
        session: &Session,
        transaction: &Transaction<Operation, Update>,
        sequence: u64,
    ) {
        for step in &transaction.steps {
            match (step, &session.work) {
                (Step::Run(operation, _), Work::Execute { license, .. }) => {
                    if let (Some(change), Some(map)) = (&operation.change, self.maps.get(&operation.map)) {
                        let next = map.changed(session.server, change).expect("the map allows the change");
                        self.counts.map_changes += 1;
                        self.counts.moved_rows += session.run.changes.len() as u64;
                        self.counts.left += u64::from(matches!(change, MapChange::Leave { .. }));
                        self.counts.joined += u64::from(matches!(change, MapChange::Joined));
                        self.maps.insert(next.version, next);
                    }
                    let run = &session.run;
                    self.history.executed.push(Executed {
                        operation: operation.clone(),
                        server: session.server,
                        license: *license,
                        sequence,
                        answer: run.read.clone(),
                        reads: run.reads.clone(),
                        writes: run.changes.iter().map(|change| change.row).collect(),
                    });
                }
                (Step::ReadOutbox(visit), Work::End { .. } | Work::Fence { .. }) => {
                    // A planted bug: the contents are those of this snapshot.
                    let contents = session.contents.clone().expect("the outbox is read");
                    self.read_early.insert((session.server, *visit), contents);
                }
                _ => {}
            }
        }
        let applies = transaction.steps.iter().any(|step| matches!(step, Step::Apply(_)));
        if let Work::Apply { visit, .. } = &session.work
            && applies
        {
            self.history.applied(session.server, visit.number, session.id);
        }
    }
}
