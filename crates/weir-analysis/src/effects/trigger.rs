//! Triggers that a write fires: BEFORE triggers, which may change the row, and AFTER triggers with effects of their own.
//!
//! A trigger that may skip the row (RETURN NULL) is assumed not to: the write is listed anyway.

use weir_sql::Span;
use weir_sql::bound::{Procedure, Step, StepKind};
use weir_sql::catalog::{TableId, Trigger, TriggerTiming};

use super::interpret::{Interpreter, Slot};
use super::join::Body;
use super::{ColumnOperation, Frame, Operation, ReadId, Term, TermId, Write};

/// The row before and behind a write, by column; NULLs where there is none.
struct Rows {
    old: Vec<Slot>,
    new: Vec<Slot>,
}

/// Which of a trigger's events a write is.
#[derive(Clone, Copy)]
enum Event<'o> {
    Insert,
    Update(&'o [(usize, ColumnOperation)]),
    Delete,
}

impl Event<'_> {
    fn fires(self, trigger: &Trigger) -> bool {
        let events = &trigger.events;
        match self {
            Event::Insert => events.insert,
            Event::Delete => events.delete,
            Event::Update(columns) => {
                let named = |of: &usize| columns.iter().any(|(column, _)| column == of);
                events.update && (events.update_of.is_empty() || events.update_of.iter().any(named))
            }
        }
    }
}

impl<'a> Interpreter<'a> {
    /// Records the write, as changed by its triggers, and the effects of the triggers.
    pub(super) fn record(&mut self, table: TableId, mut operation: Operation, span: Span) -> Operation {
        let context = self.context.clone();
        let triggers = self.dependents.triggers(table);
        let action = self.action.take();
        if triggers.is_empty() {
            let moment = self.moment();
            let write = Write { table, operation: operation.clone(), context, moment, span, action };
            self.effects.writes.push(write);
            self.actions(table, &operation, span);
            return operation;
        }
        let is_before = |index: &usize| self.app.catalog.triggers[*index].timing == TriggerTiming::Before;
        let (before, after): (Vec<usize>, Vec<usize>) = triggers.iter().partition(|index| is_before(index));
        self.before(table, &mut operation, &before, span);
        let moment = self.moment();
        let write = Write { table, operation: operation.clone(), context, moment, span, action };
        self.effects.writes.push(write);
        self.actions(table, &operation, span);
        let mut rows = self.rows_around(table, &operation);
        for event in events(&operation) {
            self.fire_all(event, &after, &mut rows, span);
        }
        operation
    }

    /// Applies the assignments of BEFORE triggers to NEW.
    fn before(&mut self, table: TableId, operation: &mut Operation, triggers: &[usize], span: Span) {
        if triggers.is_empty() {
            return;
        }
        let given = self.rows_around(table, operation);
        let mut rows = Rows { old: given.old.clone(), new: given.new.clone() };
        for event in events(operation) {
            self.fire_all(event, triggers, &mut rows, span);
        }
        let mut changed: Vec<(usize, TermId)> = Vec::new();
        for (column, (&given, &new)) in given.new.iter().zip(&rows.new).enumerate() {
            if new != given {
                let (given, new) = (self.term_of(given), self.term_of(new));
                changed.extend((new != given).then_some((column, new)));
            }
        }
        let assign = |columns: &mut Vec<(usize, ColumnOperation)>| {
            for &(column, term) in &changed {
                columns.retain(|(other, _)| *other != column);
                columns.push((column, ColumnOperation::Assign(term)));
            }
        };
        match operation {
            Operation::Insert { values, on_conflict } => {
                changed.iter().for_each(|&(column, term)| values[column] = term);
                if let Some(conflict) = on_conflict.as_mut().filter(|conflict| !conflict.update.is_empty()) {
                    assign(&mut conflict.update);
                }
            }
            Operation::Update { columns, .. } => assign(columns),
            Operation::Delete { .. } => {}
        }
    }

    fn rows_around(&mut self, table: TableId, operation: &Operation) -> Rows {
        let width = self.app.catalog.table(table).columns.len();
        let null = Slot::Known(self.terms().intern(Term::Null));
        let found = |row: ReadId| (0..width).map(|column| Slot::Column { row, column }).collect::<Vec<_>>();
        match operation {
            Operation::Insert { values, .. } => {
                Rows { old: vec![null; width], new: values.iter().map(|&term| term.into()).collect() }
            }
            Operation::Delete { row } => Rows { old: found(*row), new: vec![null; width] },
            Operation::Update { row, columns } => {
                let old = found(*row);
                let mut new = old.clone();
                for &(column, operation) in columns {
                    new[column] = match operation {
                        ColumnOperation::Assign(term) | ColumnOperation::Apply(term) => term.into(),
                        ColumnOperation::Add(delta) => {
                            let before = self.old_field(*row, column);
                            self.terms().add(before, delta).into()
                        }
                        ColumnOperation::Max(_) | ColumnOperation::Min(_) => self.unknown_slot(),
                    };
                }
                Rows { old, new }
            }
        }
    }

    /// A column that has not been read yet: it counts as read where the trigger uses it.
    pub(super) fn old_field(&mut self, row: ReadId, column: usize) -> TermId {
        match self.effects.read(row).key.iter().find(|(bound, _)| *bound == column) {
            Some((_, term)) => *term,
            None => self.terms().intern(Term::Field { row, column }),
        }
    }

    fn fire_all(&mut self, event: Event<'_>, triggers: &[usize], rows: &mut Rows, span: Span) {
        let app = self.app;
        for &index in triggers.iter().filter(|&&index| event.fires(&app.catalog.triggers[index])) {
            self.fire(index, rows, span);
        }
    }

    /// Runs the trigger's body over the rows, and leaves in them what it makes of NEW.
    fn fire(&mut self, index: usize, rows: &mut Rows, span: Span) {
        let app = self.app;
        let (trigger, body) = (&app.catalog.triggers[index], Body::Trigger(index));
        let recursive = self.is_running(&trigger.body);
        if recursive {
            self.join_again(body, format!("trigger {}, which sets itself off,", trigger.name), span);
        }
        let decides_row = trigger.timing == TriggerTiming::Before && trigger.each_row;
        if recursive || !self.enters(body, span) {
            if decides_row {
                self.forget_new(trigger, &mut rows.new);
            }
            return;
        }
        let outside = (std::mem::take(&mut self.relations), std::mem::take(&mut self.ctes));
        let irregular = self.effects.irregular;
        let caller = self.enter(&trigger.body);
        if trigger.each_row {
            for (variable, &value) in trigger.new.iter().zip(&rows.new) {
                self.set(*variable, value);
            }
            for (variable, &value) in trigger.old.iter().zip(&rows.old) {
                self.set(*variable, value);
            }
        }
        let site = self.terms().site();
        let mut fires = true;
        let conditional = trigger.condition.as_ref().map(|condition| {
            self.value(condition);
            fires = !self.testable(condition).is_some_and(|held| self.effects.is_never_true(&held));
            self.context.push(Frame::Branch { site, branch: 0, branches: 2 });
        });
        let returned = if fires { self.body_of_trigger(&trigger.body) } else { Vec::new() };
        if conditional.is_some() {
            self.context.pop();
        }
        self.exit(caller);
        (self.relations, self.ctes) = outside;
        if returns_at_end_only(&trigger.body) {
            self.effects.irregular = irregular;
        }
        if !decides_row {
            return;
        }
        for (column, new) in rows.new.iter_mut().enumerate() {
            let mut options: Vec<Slot> = returned.iter().filter_map(|row| row.get(column).copied()).collect();
            if conditional.is_some() || options.is_empty() {
                options.push(*new);
            }
            *new = self.choice(&options);
        }
    }
}

fn events(operation: &Operation) -> Vec<Event<'_>> {
    match operation {
        Operation::Insert { on_conflict: Some(conflict), .. } if !conflict.update.is_empty() => {
            vec![Event::Insert, Event::Update(&conflict.update)]
        }
        Operation::Insert { .. } => vec![Event::Insert],
        Operation::Update { columns, .. } => vec![Event::Update(columns)],
        Operation::Delete { .. } => vec![Event::Delete],
    }
}

/// Then a RETURN leaves nothing undone.
fn returns_at_end_only(body: &Procedure) -> bool {
    let is_return = |step: &Step| matches!(step.kind, StepKind::Return { .. });
    let plain = |step: &Step| {
        matches!(
            step.kind,
            StepKind::Assign { .. } | StepKind::Sql { .. } | StepKind::Raise(_) | StepKind::Null
        )
    };
    match body.body.split_last() {
        Some((last, before)) => (is_return(last) || plain(last)) && before.iter().all(plain),
        None => true,
    }
}
