//! Named objects of a session: prepared statements, and portals, including cursors. Independent of the protocol; asks for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sql::bound::OutputColumn;
use weir_sql::session::Way;
use weir_types::{SqlError, SqlState, Value};

use crate::receiver::{Forward, Given};
use crate::running::RunningQuery;
use crate::statement::Statement;

/// In which formats values come or go, as a client has said it: none is text, one is that of all.
#[derive(Clone, Debug, Default)]
pub struct Formats(pub Vec<i16>);

impl Formats {
    /// A client may name fewer formats than there are values; that is its mistake, not a crash.
    pub fn is_binary(&self, at: usize) -> bool {
        let code = if self.0.len() == 1 { self.0.first() } else { self.0.get(at) };
        code == Some(&1)
    }
}

/// A statement with the values of its parameters.
pub struct Portal {
    pub statement: Arc<Statement>,
    pub values: Vec<Value>,
    pub formats: Formats,
    pub state: PortalState,
    /// It outlives its transaction.
    hold: bool,
    /// The transaction that has made it and is not over.
    born_in: Option<u64>,
    /// Number of savepoints of that transaction when it was made. A roll-back to one of these takes it along.
    depth: usize,
}

pub enum PortalState {
    Bound,
    /// It has run, and gives rows.
    Open(Cursor),
    /// It has run, and gives nothing.
    Over,
}

/// Rows, and the position among them: before the first, on one, or after the last.
pub struct Cursor {
    pub columns: Arc<[OutputColumn]>,
    pub tag: String,
    source: Source,
    /// 0 is before the first row.
    at: usize,
    /// Whether it may go backwards, where that was said.
    scroll: Option<bool>,
}

/// Where a cursor's rows are.
enum Source {
    /// `gone`: number of rows before them. A cursor that has some goes only forward.
    Stored { rows: Arc<[Vec<Value>]>, gone: usize },
    /// The cursor goes only forward.
    Running(RunningQuery),
}

impl Cursor {
    pub fn new(
        columns: Arc<[OutputColumn]>,
        tag: String,
        rows: Vec<Vec<Value>>,
        scroll: Option<bool>,
    ) -> Cursor {
        Cursor { columns, tag, source: Source::Stored { rows: rows.into(), gone: 0 }, at: 0, scroll }
    }

    /// With rows of a query that still runs, if any does, otherwise with these rows.
    pub fn of(
        columns: Arc<[OutputColumn]>,
        tag: String,
        (running, rows): (Option<RunningQuery>, Vec<Vec<Value>>),
        scroll: Option<bool>,
    ) -> Cursor {
        match running {
            None => Cursor::new(columns, tag, rows, scroll),
            Some(query) => {
                Cursor { columns, tag, source: Source::Running(query), at: 0, scroll: Some(false) }
            }
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.source, Source::Running(_))
    }

    /// The query that still runs.
    pub fn running(&mut self) -> Option<&mut RunningQuery> {
        match &mut self.source {
            Source::Running(query) => Some(query),
            Source::Stored { .. } => None,
        }
    }

    /// The running query has given rows.
    pub fn pass(&mut self, given: &Given) {
        self.at += given.skipped + given.count;
        if given.is_over {
            self.store(self.at, Vec::new());
            self.at += 1;
        }
    }

    /// Number of the row that it is on.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The query has ended. The rows behind that position, where the cursor is, are these.
    pub fn store(&mut self, at: usize, rows: Vec<Vec<Value>>) {
        self.source = Source::Stored { rows: rows.into(), gone: at };
        self.at = at;
    }

    /// The next rows, if they are stored, and whether more may follow: as in PostgreSQL, that holds until the end has been reached.
    pub fn next(&mut self, rows_max: usize) -> (&[Vec<Value>], bool) {
        let Source::Stored { rows, gone } = &self.source else { return (&[], true) };
        let start = (self.at - gone).min(rows.len());
        let left = rows.len() - start;
        if rows_max == 0 || rows_max > left {
            self.at = gone + rows.len() + 1;
            return (&rows[start..], false);
        }
        self.at = gone + start + rows_max;
        (&rows[start..start + rows_max], true)
    }

    /// The first and the last row that FETCH asks for. `behind`: the position behind the last row, if that is known.
    ///
    /// # Errors
    /// It was declared NO SCROLL, or its rows are not stored, and it would have to go backwards.
    fn range(&self, way: Way, behind: Option<i64>) -> Result<(i64, i64), SqlError> {
        let here = self.at as i64;
        let (first, last) = match way {
            Way::By(0) => (here, here),
            Way::By(count) if count > 0 => (here.saturating_add(1), here.saturating_add(count)),
            Way::By(count) => (here.saturating_sub(1), here.saturating_add(count)),
            Way::To(row) => {
                let row = if row < 0 { behind.map_or(-1, |behind| behind.saturating_add(row)) } else { row };
                (row, row)
            }
            Way::Over(rows) => (here.saturating_add(rows), here.saturating_add(rows)),
        };
        if self.scroll == Some(false) && (last < here || first == here && here > 0) {
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            let hint = "Declare it with SCROLL option to enable backward scan.";
            return Err(SqlError::new(state, "cursor can only scan forward").with_hint(hint));
        }
        Ok((first, last))
    }

    /// Rows that FETCH asks the running query for.
    ///
    /// # Errors
    /// It would have to go backwards.
    pub fn forward(&self, way: Way) -> Result<Forward, SqlError> {
        let (first, last) = self.range(way, None)?;
        let number = |rows: i64| usize::try_from(rows).unwrap_or_default();
        // Before the first row there is none.
        let first = first.max(1);
        Ok(Forward {
            skip: number(first - 1).saturating_sub(self.at),
            most: number(last.saturating_sub(first).saturating_add(1)),
        })
    }

    /// FETCH of stored rows.
    ///
    /// # Errors
    /// It was declared NO SCROLL, and would have to go backwards.
    pub fn fetch(&mut self, way: Way) -> Result<Vec<Vec<Value>>, SqlError> {
        let Source::Stored { rows, gone } = &self.source else { return Ok(Vec::new()) };
        let (rows, gone) = (rows.clone(), *gone as i64);
        let behind = gone + rows.len() as i64 + 1;
        let (first, last) = self.range(way, Some(behind))?;
        let clamped = |to: i64| to.clamp(0, behind);
        self.at = clamped(last) as usize;
        let row = |at: i64| rows.get(usize::try_from(at - 1 - gone).ok()?).cloned();
        let (first, last) = (clamped(first), clamped(last));
        Ok(match first <= last {
            true => (first..=last).filter_map(row).collect(),
            false => (last..=first).rev().filter_map(row).collect(),
        })
    }
}

/// Objects by name. The unnamed one, whose name is "", is used in most messages, so it is not looked up among the others.
struct ByName<T> {
    unnamed: Option<T>,
    named: BTreeMap<String, T>,
}

impl<T> Default for ByName<T> {
    fn default() -> ByName<T> {
        ByName { unnamed: None, named: BTreeMap::new() }
    }
}

impl<T> ByName<T> {
    fn get(&self, name: &str) -> Option<&T> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }
    }

    fn insert(&mut self, name: &str, one: T) {
        match name.is_empty() {
            true => self.unnamed = Some(one),
            false => drop(self.named.insert(name.to_owned(), one)),
        }
    }

    fn remove(&mut self, name: &str) -> Option<T> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.unnamed.take_if(|one| !stays(one));
        self.named.retain(|_, one| stays(one));
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.unnamed.iter_mut().chain(self.named.values_mut())
    }
}

/// Named objects of a session.
#[derive(Default)]
pub struct Names {
    statements: ByName<Arc<Statement>>,
    portals: ByName<Portal>,
}

impl Names {
    /// # Errors
    /// There is one of that name; the one without a name is replaced.
    pub fn put_statement(&mut self, name: &str, statement: Arc<Statement>) -> Result<(), SqlError> {
        if !name.is_empty() && self.statements.get(name).is_some() {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.statements.insert(name, statement);
        Ok(())
    }

    /// # Errors
    /// There is none.
    pub fn statement(&self, name: &str) -> Result<Arc<Statement>, SqlError> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    /// Says whether there was one.
    pub fn remove_statement(&mut self, name: &str) -> bool {
        self.statements.remove(name).is_some()
    }

    pub fn clear_statements(&mut self) {
        self.statements = ByName::default();
    }

    /// Binds a portal. The unnamed one is replaced.
    ///
    /// # Errors
    /// A portal of that name exists.
    pub fn bind(
        &mut self,
        name: &str,
        (statement, values, formats): (Arc<Statement>, Vec<Value>, Formats),
        (born_in, depth): (Option<u64>, usize),
    ) -> Result<(), SqlError> {
        self.refuse_double(name)?;
        let (state, hold) = (PortalState::Bound, false);
        let portal = Portal { statement, values, formats, state, hold, born_in, depth };
        self.portals.insert(name, portal);
        Ok(())
    }

    /// # Errors
    /// There is a portal of that name.
    pub fn refuse_double(&self, name: &str) -> Result<(), SqlError> {
        match !name.is_empty() && self.portals.get(name).is_some() {
            true => {
                Err(SqlError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")))
            }
            false => Ok(()),
        }
    }

    /// A cursor that was declared.
    pub fn declare(
        &mut self,
        name: &str,
        cursor: Cursor,
        (hold, binary): (bool, bool),
        (born_in, depth): (Option<u64>, usize),
    ) {
        let portal = Portal {
            statement: Arc::new(Statement::empty()),
            values: Vec::new(),
            formats: Formats(vec![i16::from(binary)]),
            state: PortalState::Open(cursor),
            hold,
            born_in,
            depth,
        };
        self.portals.insert(name, portal);
    }

    pub fn known_portal(&self, name: &str) -> Option<&Portal> {
        self.portals.get(name)
    }

    /// # Errors
    /// There is none.
    pub fn portal(&mut self, name: &str) -> Result<&mut Portal, SqlError> {
        self.portals.get_mut(name).ok_or_else(|| no_portal(name, "portal"))
    }

    /// Takes the cursor out, until [`Names::put_cursor`] puts it back. Without that the portal cannot be run any more.
    ///
    /// # Errors
    /// There is none, or it has not run.
    pub fn take_cursor(&mut self, name: &str) -> Result<Cursor, SqlError> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name, "cursor"))?;
        match std::mem::replace(&mut portal.state, PortalState::Over) {
            PortalState::Open(cursor) => Ok(cursor),
            state => {
                portal.state = state;
                let message = format!("portal \"{name}\" cannot be run");
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .with_hint("FETCH from what DECLARE CURSOR has made, or Execute the portal"))
            }
        }
    }

    /// Puts a cursor back, unless its portal is gone.
    pub fn put_cursor(&mut self, name: &str, cursor: Cursor) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.state = PortalState::Open(cursor);
        }
    }

    /// Names of the cursors WITH HOLD whose queries still run.
    pub fn held_and_running(&self) -> Vec<String> {
        let runs =
            |portal: &Portal| matches!(&portal.state, PortalState::Open(cursor) if cursor.is_running());
        let held = self.portals.named.iter().filter(|(_, portal)| portal.hold && runs(portal));
        held.map(|(name, _)| name.clone()).collect()
    }

    /// Ends the queries that still run. Their portals cannot be run any more.
    pub fn end_queries(&mut self) {
        self.portals.values_mut().for_each(Portal::end_query);
    }

    /// A statement has failed: ends the queries of the portals that its error takes along. `depth`: number of savepoints.
    pub fn fail(&mut self, depth: usize) {
        let is_of = |portal: &&mut Portal| portal.born_in.is_some() && portal.depth >= depth;
        self.portals.values_mut().filter(is_of).for_each(Portal::end_query);
    }

    /// The transaction goes back to the savepoint at that position: portals that have been made since are gone.
    pub fn roll_back_to(&mut self, at: usize) {
        self.portals.retain(|portal| portal.born_in.is_none() || portal.depth <= at);
    }

    /// That savepoint and those within it are forgotten.
    pub fn release(&mut self, at: usize) {
        self.portals.values_mut().for_each(|portal| portal.depth = portal.depth.min(at));
    }

    /// Says whether there was one.
    pub fn remove_portal(&mut self, name: &str) -> bool {
        self.portals.remove(name).is_some()
    }

    pub fn clear_portals(&mut self) {
        self.portals = ByName::default();
    }

    /// A transaction is over: of what it has made cursors WITH HOLD stay if it has committed, and what others have made.
    pub fn end_transaction(&mut self, has_committed: bool) {
        self.portals.retain(|portal| portal.hold && (has_committed || portal.born_in.is_none()));
        self.portals.values_mut().for_each(|portal| portal.born_in = None);
    }
}

impl Portal {
    fn end_query(&mut self) {
        if matches!(&self.state, PortalState::Open(cursor) if cursor.is_running()) {
            self.state = PortalState::Over;
        }
    }
}

fn no_statement(name: &str) -> SqlError {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

pub fn no_portal(name: &str, kind: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("{kind} \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(rows: i64, scroll: Option<bool>) -> Cursor {
        let rows = (1..=rows).map(|row| vec![Value::Int(row)]).collect();
        Cursor::new([].into(), "SELECT".to_owned(), rows, scroll)
    }

    /// The same results as PostgreSQL 15.
    #[test]
    fn a_cursor_goes_to_and_fro() {
        let mut cursor = cursor(4, Some(true));
        let mut check = |way: Way, expected: &[i64]| {
            let seen: Vec<Value> = cursor.fetch(way).unwrap().into_iter().flatten().collect();
            let expected: Vec<Value> = expected.iter().map(|row| Value::Int(*row)).collect();
            assert_eq!(format!("{seen:?}"), format!("{expected:?}"), "{way:?}");
        };
        check(Way::By(0), &[]);
        check(Way::By(2), &[1, 2]);
        check(Way::By(0), &[2]);
        check(Way::By(-1), &[1]);
        check(Way::By(-1), &[]);
        check(Way::By(i64::MAX), &[1, 2, 3, 4]);
        check(Way::By(0), &[]);
        check(Way::By(-2), &[4, 3]);
        check(Way::By(-i64::MAX), &[2, 1]);
        check(Way::To(3), &[3]);
        check(Way::To(-1), &[4]);
        check(Way::To(-4), &[1]);
        check(Way::To(9), &[]);
        check(Way::To(0), &[]);
        check(Way::Over(2), &[2]);
        check(Way::Over(-1), &[1]);
        check(Way::Over(0), &[1]);
        check(Way::To(i64::MIN), &[]);
        check(Way::Over(i64::MAX), &[]);
        check(Way::Over(i64::MIN), &[]);
    }

    #[test]
    fn a_cursor_without_scroll_goes_forward() {
        let mut cursor = cursor(3, Some(false));
        assert_eq!(cursor.fetch(Way::By(2)).unwrap().len(), 2);
        assert_eq!(cursor.fetch(Way::By(-1)).unwrap_err().state().as_str(), "55000");
        assert_eq!(cursor.fetch(Way::By(9)).unwrap().len(), 1);
    }

    #[test]
    fn a_portal_gives_so_many_rows_at_a_time() {
        let mut one = cursor(3, None);
        let mut seen = Vec::new();
        loop {
            let (rows, more) = one.next(2);
            seen.push((rows.len(), more));
            if !more {
                break;
            }
        }
        assert_eq!(seen, [(2, true), (1, false)]);
        let mut even = cursor(2, None);
        assert_eq!([even.next(2).1, even.next(2).1], [true, false]);
        assert_eq!(even.next(0).0.len(), 0);
    }
}
