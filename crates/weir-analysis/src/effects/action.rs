//! Foreign-key actions on children when their parent is deleted or changes its key: ON DELETE and ON UPDATE.
//!
//! The children that go, or whose reference changes, are effects of the transaction like those of its own
//! statements, and so are their children's in turn. Each such write says which key did it ([`super::Write::action`]).

use weir_sql::Span;
use weir_sql::catalog::{ColumnIndex, ForeignKey, ForeignKeyAction, Table, TableId};

use super::interpret::Interpreter;
use super::join::Body;
use super::{Action, ColumnOperation, Frame, Key, Operation, ReadId, Term, TermId};

/// One action of one key, and what sets it off.
#[derive(Clone, Copy)]
struct Acting<'a, 'u> {
    child: &'a Table,
    action: Action,
    done: ForeignKeyAction,
    /// Updates of the parent; `None` if it is deleted.
    updates: Option<&'u [(ColumnIndex, ColumnOperation)]>,
    span: Span,
}

impl<'a> Interpreter<'a> {
    /// The children of rows that were deleted or updated. Called once the write itself is listed.
    pub(super) fn actions(&mut self, table: TableId, operation: &Operation, span: Span) {
        let app = self.app;
        let (row, updates): (Option<ReadId>, &[(ColumnIndex, ColumnOperation)]) = match operation {
            Operation::Delete { row } => (Some(*row), &[]),
            Operation::Update { row, columns } => (Some(*row), columns),
            Operation::Insert { on_conflict: Some(conflict), .. } => (None, &conflict.update),
            Operation::Insert { on_conflict: None, .. } => return,
        };
        let deletes = matches!(operation, Operation::Delete { .. });
        for (child, index, key) in self.dependents.children(&app.catalog, table) {
            if deletes || updates.iter().any(|(column, _)| key.parent_columns.contains(column)) {
                let action = Action { table: child.id, key: index };
                let done = if deletes { key.on_delete } else { key.on_update };
                let updates = (!deletes).then_some(updates);
                self.act(Acting { child, action, done, updates, span }, row);
            }
        }
    }

    fn act(&mut self, acting: Acting<'a, '_>, parent: Option<ReadId>) {
        let Acting { child, action, done, updates, span } = acting;
        if done.refuses() {
            return;
        }
        // A key that acts because it has acted reaches rows of which nothing is known, and these are all.
        let times = self.actions.iter().filter(|running| **running == action).count();
        if times > 1 || !self.enters(Body::Action { action, deletes: updates.is_none() }, span) {
            return;
        }
        let key = &child.foreign_keys[action.key];
        let known = if times == 0 { self.children_of(key, parent) } else { Key::new() };
        self.change_children(acting, known, parent);
    }

    /// The action on children of whatever parents.
    pub(super) fn act_unknown(&mut self, action: Action, deletes: bool, span: Span) {
        let app = self.app;
        let child = app.catalog.table(action.table);
        let key = &child.foreign_keys[action.key];
        let (done, updates) = match deletes {
            true => (key.on_delete, None),
            false => (key.on_update, Some(&[][..])),
        };
        self.change_children(Acting { child, action, done, updates, span }, Key::new(), None);
    }

    fn change_children(&mut self, acting: Acting<'a, '_>, known: Key, parent: Option<ReadId>) {
        let Acting { child, action, done, updates, span } = acting;
        let key = &child.foreign_keys[action.key];
        let site = self.terms().site();
        self.context.push(Frame::Loop { site, count: None });
        let row = self.add_read(child.id, span);
        let read = self.read_mut(row);
        read.columns.extend(&key.columns);
        read.by_key_alone = !known.is_empty() && known.len() == key.columns.len();
        read.key = known;
        read.action = Some(action);
        let operation = match (done, updates) {
            (ForeignKeyAction::Cascade, None) => Operation::Delete { row },
            _ => Operation::Update { row, columns: self.references(child, key, done, parent, updates) },
        };
        self.actions.push(action);
        let outer = self.action.replace(action);
        self.record(child.id, operation, span);
        self.action = outer;
        self.actions.pop();
        self.context.pop();
    }

    /// Key that selects the children of a row.
    fn children_of(&mut self, key: &ForeignKey, parent: Option<ReadId>) -> Key {
        let Some(parent) = parent else { return Key::new() };
        let pairs = key.columns.iter().zip(&key.parent_columns);
        pairs.map(|(&own, &of)| (own, self.old_field(parent, of))).collect()
    }

    /// The children's new references.
    fn references(
        &mut self,
        child: &'a Table,
        key: &ForeignKey,
        done: ForeignKeyAction,
        parent: Option<ReadId>,
        updates: Option<&[(ColumnIndex, ColumnOperation)]>,
    ) -> Vec<(ColumnIndex, ColumnOperation)> {
        let mut columns = Vec::new();
        for (&own, &of) in key.columns.iter().zip(&key.parent_columns) {
            let value = match done {
                ForeignKeyAction::SetDefault => match &child.columns[own].default {
                    Some(default) => self.expr(default),
                    None => self.terms().intern(Term::Null),
                },
                ForeignKeyAction::Cascade => self.new_value(parent, of, updates.unwrap_or_default()),
                _ => self.terms().intern(Term::Null),
            };
            columns.push((own, ColumnOperation::Assign(value)));
        }
        columns
    }

    /// A column of the parent after its update.
    fn new_value(
        &mut self,
        parent: Option<ReadId>,
        column: ColumnIndex,
        updates: &[(ColumnIndex, ColumnOperation)],
    ) -> TermId {
        let change = updates.iter().find(|(updated, _)| *updated == column).map(|(_, operation)| *operation);
        match (change, parent) {
            (Some(ColumnOperation::Assign(term) | ColumnOperation::Apply(term)), _) => term,
            (Some(ColumnOperation::Add(delta)), Some(parent)) => {
                let old = self.old_field(parent, column);
                self.terms().add(old, delta)
            }
            (None, Some(parent)) => self.old_field(parent, column),
            _ => self.terms().unknown(),
        }
    }
}
