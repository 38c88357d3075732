//! Predicts from the text of a call what depends on the rows that it meets on several shards: refusals, and writes for other shards.
//!
//! With several shards, a row cannot move to another shard. Rows of INSERT … SELECT must live where the query runs, and children of other
//! shards change when the call has run, so that no other statement of it may meet them: a procedure that meets such rows runs as an
//! interactive call instead. The other cases are refused at run time (`exec/write`), with the errors made here.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::ids::ShardId;
use weir_sql::Catalog;
use weir_sql::bound::{
    Expr, ExprKind, FromItem, Insert, InsertSource, Procedure, RelationId, Statement, Step, StepKind,
};
use weir_sql::catalog::{ColumnIndex, ForeignKeyAction, TableId};
use weir_sql::walk::{Part, each_part, each_statement_expr, each_step, has_subquery};
use weir_types::{SqlError, SqlState};

use super::call::OVER_SEVERAL_SHARDS;
use super::compile::each_statement;
use super::routing::{Route, Router, fixed_columns, inserted, same_expr};
use super::sequences::has_a_share_for_each;
use super::walk;
use super::write::{Children, ForeignKeyRule, Reference, TableRules};
use crate::storage::{EntriesSchema, IndexColumn, IndexId, IndexSchema, Schema, TableSchema};

pub fn leaves_copies(foreign_key: &str) -> SqlError {
    let message = format!(
        "removing a parent of \"{foreign_key}\", of whose children every shard has a copy, is not supported"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Partition the child table, by the column that refers to the parent if possible.")
}

/// Ends of the messages of errors that a call has as one message alone: statement by statement it runs.
const AS_ONE_MESSAGE: [&str; 2] = [
    ", whose children on other shards change, together with other statements about these is not supported",
    " with one statement is not supported",
];

/// Returns whether the call runs as an interactive one.
pub fn is_of_one_message(error: &SqlError) -> bool {
    error.state() == SqlState::FEATURE_NOT_SUPPORTED
        && AS_ONE_MESSAGE.iter().any(|end| error.message().ends_with(end))
}

pub fn acts_elsewhere(foreign_key: &str) -> SqlError {
    let message = format!("removing a parent of \"{foreign_key}\"{}", AS_ONE_MESSAGE[0]);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Say the statements one by one, in a transaction.")
}

pub fn inserts_elsewhere(table: &str) -> SqlError {
    let message = format!("inserting rows of several shards into \"{table}\"{}", AS_ONE_MESSAGE[1]);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("Insert them one by one in a loop.")
}

pub fn moves(table: &str) -> SqlError {
    let message = format!(
        "moving a row of \"{table}\" to another shard, together with other statements,{OVER_SEVERAL_SHARDS}"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Say the statements one by one, in a transaction.")
}

pub fn global_arbiter(table: &str) -> SqlError {
    let message = format!(
        "ON CONFLICT of several rows, or in a DO block, at a unique key of \"{table}\" whose columns do not say on which shard a row lives \
         is not supported"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Insert the rows one by one, or name a key that contains the partition columns: ON CONFLICT (…).",
    )
}

/// Reasons why each statement of a procedure has to be one by itself.
const MEETS_ROWS: &str = "the row that an INSERT … ON CONFLICT meets may live on any shard";
const WRITES_COPIES: &str = "it writes a table that every shard has a copy of";

/// Predictions for the calls of a procedure.
pub struct Foretold {
    /// Possible refusals, each once, in statement order.
    pub refusals: Vec<SqlError>,
    /// It may derive writes for other shards: of entries of global keys, or for foreign keys.
    pub carries: bool,
    /// It may derive entries of rows that it inserts.
    pub inserts_entries: bool,
    /// See [`CompiledProcedure::meets_actions`](super::program::CompiledProcedure).
    pub meets_actions: bool,
    /// Reason why each of its statements has to be one by itself.
    pub by_statements: Option<&'static str>,
    /// It is met by rows that move: then each of its statements has to be one by itself.
    pub moves: Option<SqlError>,
}

/// A change of a table's rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Goes,
    /// Assigns these columns.
    Gets(BTreeSet<ColumnIndex>),
}

struct Foreseen<'a> {
    router: &'a Router<'a>,
    rules: &'a [Arc<TableRules>],
    schema: &'a Schema,
    shards: ShardId,
    /// The procedure, and whether it is a statement by itself.
    whole: (&'a Procedure, bool),
    seen: BTreeSet<(TableId, Change, bool)>,
    /// Children on other shards of the change that is followed, and what becomes of them, may change when the call has run.
    is_elsewhere: bool,
    /// Tables with such children.
    acts_on: BTreeSet<TableId>,
    /// Foreign keys whose action they are.
    actions: Vec<String>,
    /// Some of them get another key.
    rekeys: bool,
    foretold: Foretold,
}

/// Predicts refusals and derived writes of a procedure on several shards.
pub fn foretold(
    router: &Router<'_>,
    (schema, rules, shards): (&Schema, &[Arc<TableRules>], ShardId),
    (procedure, is_statement): (&Procedure, bool),
) -> Foretold {
    let foretold = Foretold {
        refusals: Vec::new(),
        carries: false,
        inserts_entries: false,
        meets_actions: false,
        by_statements: None,
        moves: None,
    };
    let mut foreseen = Foreseen {
        router,
        rules,
        schema,
        shards,
        whole: (procedure, is_statement),
        seen: BTreeSet::new(),
        is_elsewhere: false,
        acts_on: BTreeSet::new(),
        actions: Vec::new(),
        rekeys: false,
        foretold,
    };
    each_statement(&procedure.body, &mut |statement, _| foreseen.statement(statement));
    if !foreseen.acts_on.is_empty() && !is_statement && foreseen.meets(procedure) {
        foreseen.foretold.meets_actions = true;
        for name in std::mem::take(&mut foreseen.actions) {
            foreseen.refuse(acts_elsewhere(&name));
        }
    }
    foreseen.foretold
}

/// Returns whether the step itself reads no rows, or is a statement.
fn is_plain(step: &Step) -> bool {
    let plain = |expr: &Expr| !has_subquery(expr);
    match &step.kind {
        StepKind::Sql { .. }
        | StepKind::Block { .. }
        | StepKind::Loop { .. }
        | StepKind::GetRowCount { .. }
        | StepKind::Null => true,
        StepKind::If { branches, .. } => branches.iter().all(|(condition, _)| plain(condition)),
        StepKind::Assign { value, .. } => plain(value),
        StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => when.iter().all(plain),
        StepKind::Return { value } => value.iter().all(plain),
        _ => false,
    }
}

/// Every table that the statement reads or writes.
fn tables_of(statement: &Statement) -> BTreeSet<TableId> {
    let mut tables = BTreeSet::new();
    let mut visit = |part: Part<'_>| {
        if let Part::From(FromItem::Table { table, .. }) = part {
            tables.insert(*table);
        }
    };
    let from = match statement {
        Statement::Update(update) => &update.from[..],
        Statement::Delete(delete) => &delete.using[..],
        _ => &[],
    };
    from.iter().for_each(|item| each_part(Part::From(item), &mut visit));
    if let Statement::Query(query) = statement {
        each_part(Part::Query(query), &mut visit);
    }
    if let Statement::Insert(Insert { source: InsertSource::Query(query), .. }) = statement {
        each_part(Part::Query(query), &mut visit);
    }
    // Those of subqueries.
    each_statement_expr(statement, &mut |expr| each_part(Part::Expr(expr), &mut visit));
    match statement {
        Statement::Insert(insert) => drop(tables.insert(insert.table)),
        Statement::Update(update) => drop(tables.insert(update.table)),
        Statement::Delete(delete) => drop(tables.insert(delete.table)),
        Statement::Query(_) => {}
    }
    tables
}

impl Foreseen<'_> {
    fn catalog(&self) -> &Catalog {
        self.router.catalog
    }

    fn refuse(&mut self, error: SqlError) {
        let refusals = &mut self.foretold.refusals;
        if !refusals.iter().any(|other| other.message() == error.message()) {
            refusals.push(error);
        }
    }

    /// Returns whether some statement could meet children that an action at other shards changes.
    fn meets(&self, procedure: &Procedure) -> bool {
        let (mut meets, mut statements) = (false, 0);
        each_step(&procedure.body, &mut |step| meets |= !is_plain(step));
        each_statement(&procedure.body, &mut |statement, _| {
            statements += 1;
            meets |= !tables_of(statement).is_disjoint(&self.acts_on);
        });
        // A key that is changed twice would be followed once.
        meets || self.rekeys && statements > 1
    }

    fn parents_of_inserted(&mut self, insert: &Insert) {
        let rules = &self.rules[insert.table.0 as usize].foreign_keys;
        let is_set = |rule: &ForeignKeyRule| {
            let given = insert.columns.iter().chain(insert.defaults.iter().map(|(column, _)| column));
            given.clone().any(|column| rule.key_columns.contains(column))
        };
        let asks = |(at, rule): (usize, &ForeignKeyRule)| {
            let is_looked_up =
                matches!(insert.source, InsertSource::Values(_)) && rule.is_looked_up_with_values();
            let is_looked_up = is_looked_up && insert.on_conflict.is_none();
            rule.is_distant() && is_set(rule) && !is_looked_up && !self.router.proven.holds(insert, at)
        };
        self.foretold.carries |= rules.iter().enumerate().any(asks);
    }

    fn global_arbiter(&mut self, insert: &Insert) {
        let (procedure, is_statement) = self.whole;
        if !arbitrates_globally(self.schema, insert) {
            return;
        }
        match is_statement {
            true if may_begin_again(self.router, self.schema, procedure, insert) => {}
            false if inserts_one_row(self.router, insert) => self.foretold.by_statements = Some(MEETS_ROWS),
            _ => self.refuse(global_arbiter(&self.catalog().table(insert.table).name)),
        }
    }

    /// A write of a table that every shard has a copy of runs at one shard, and other statements of a call would not see it.
    fn copied(&mut self, table: TableId) {
        if self.router.is_partitioned(table) {
            return;
        }
        self.foretold.carries = true;
        if !self.whole.1 {
            self.foretold.by_statements = Some(WRITES_COPIES);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Insert(Insert { table, .. }) => self.copied(*table),
            Statement::Update(update) => self.copied(update.table),
            Statement::Delete(delete) => self.copied(delete.table),
            Statement::Query(_) => {}
        }
        match statement {
            Statement::Query(_) => {}
            Statement::Delete(delete) => self.change(delete.table, Change::Goes),
            Statement::Update(update) => {
                let fixed = fixed_columns(statement).map(|(_, fixed)| fixed).unwrap_or_default();
                let stays = |column: ColumnIndex, value: &Expr| {
                    is_own(value, &[update.relation], column)
                        || fixed
                            .iter()
                            .any(|(of, known)| *of == column && same_expr(known, walk::uncast(value)))
                };
                self.assigned(update.table, &update.assignments, &stays);
            }
            Statement::Insert(insert) => {
                if !self.router.keeps_home(insert) {
                    self.refuse(inserts_elsewhere(&self.catalog().table(insert.table).name));
                }
                let schema = self.schema.table(insert.table);
                let is_owned = |index: &IndexSchema| owns_drawn(self.catalog(), self.shards, insert, index);
                let has_entry = |key: &EntriesSchema| !is_owned(&schema.indexes[key.index]);
                self.foretold.inserts_entries |= schema.entries.iter().any(has_entry);
                self.parents_of_inserted(insert);
                self.global_arbiter(insert);
                let Some(conflict) = &insert.on_conflict else { return };
                if let Some((assignments, _)) = &conflict.update {
                    // The row that is met has the values by which it is met.
                    let is_arbiter =
                        |column| conflict.columns.as_ref().is_some_and(|own| own.contains(&column));
                    self.assigned(insert.table, assignments, &|column, value| {
                        is_own(value, &[insert.relation], column)
                            || is_arbiter(column) && is_own(value, &[insert.excluded], column)
                    });
                }
            }
        }
    }

    fn assigned(
        &mut self,
        table: TableId,
        assignments: &[(ColumnIndex, Expr)],
        stays: &dyn Fn(ColumnIndex, &Expr) -> bool,
    ) {
        let changed = assignments.iter().filter(|(column, value)| !stays(*column, value));
        let changed: BTreeSet<ColumnIndex> = changed.map(|(column, _)| *column).collect();
        let rules = &self.rules[table.0 as usize].foreign_keys;
        let asks = |rule: &ForeignKeyRule| {
            rule.is_distant() && rule.key_columns.iter().any(|column| changed.contains(column))
        };
        self.foretold.carries |= rules.iter().any(asks);
        self.change(table, Change::Gets(changed));
    }

    /// Propagates a change to children through foreign keys.
    fn change(&mut self, table: TableId, change: Change) {
        if !self.seen.insert((table, change.clone(), self.is_elsewhere)) {
            return;
        }
        if let Change::Gets(columns) = &change
            && self
                .router
                .partition(table)
                .is_some_and(|own| own.iter().any(|column| columns.contains(column)))
        {
            self.foretold.carries |= self.whole.1;
            self.foretold.moves = Some(moves(&self.catalog().table(table).name));
        }
        let schema = self.schema.table(table);
        self.foretold.carries |= schema.entries.iter().any(|key| match &change {
            Change::Goes => true,
            Change::Gets(columns) => {
                let own = schema.indexes[key.index].columns.iter().filter_map(|column| column.column);
                own.into_iter().any(|column| columns.contains(&column))
            }
        });
        let rules = self.rules;
        for reference in &rules[table.0 as usize].referenced_by {
            let is_concerned = match &change {
                Change::Goes => true,
                Change::Gets(columns) => {
                    reference.parent_columns.iter().any(|column| columns.contains(column))
                }
            };
            if !is_concerned {
                continue;
            }
            match (reference.together, &reference.children) {
                (true, _) => self.pass_on(reference, &change),
                (false, Children::Copied) => self.refuse(leaves_copies(&reference.name)),
                (false, _) => {
                    self.foretold.carries = true;
                    let before = std::mem::replace(&mut self.is_elsewhere, true);
                    self.pass_on(reference, &change);
                    self.is_elsewhere = before;
                }
            }
        }
    }

    fn pass_on(&mut self, reference: &Reference, change: &Change) {
        let action = match change {
            Change::Goes => reference.on_delete,
            Change::Gets(_) => reference.on_update,
        };
        if self.is_elsewhere && !action.refuses() {
            self.acts_on.insert(reference.child);
            self.actions.push(reference.name.clone());
            self.rekeys |= matches!(change, Change::Gets(_));
        }
        match (action, change) {
            (ForeignKeyAction::Cascade, Change::Goes) => self.change(reference.child, Change::Goes),
            (ForeignKeyAction::Cascade | ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault, _) => {
                let rule = &self.rules[reference.child.0 as usize].foreign_keys[reference.rule];
                self.foretold.carries |= action == ForeignKeyAction::SetDefault && rule.is_distant();
                self.change(reference.child, Change::Gets(reference.columns.iter().copied().collect()));
            }
            _ => {}
        }
    }
}

/// Returns whether each shard owns the keys of the rows that it inserts: ids that it draws from its share of a sequence.
pub fn owns_drawn(catalog: &Catalog, shards: ShardId, insert: &Insert, index: &IndexSchema) -> bool {
    let [IndexColumn { column: Some(column), .. }] = &index.columns[..] else { return false };
    let InsertSource::Values(rows) = &insert.source else { return false };
    let is_drawn = |value: &Expr| match &value.kind {
        ExprKind::NextValue(sequence) => {
            let sequence = catalog.sequence(*sequence);
            !sequence.cycle && has_a_share_for_each(sequence, shards)
        }
        _ => false,
    };
    insert.on_conflict.is_none()
        && rows.iter().all(|row| inserted(insert, row, *column).is_some_and(is_drawn))
}

/// Returns whether a row that the INSERT … ON CONFLICT meets may live on any shard.
pub fn arbitrates_globally(schema: &Schema, insert: &Insert) -> bool {
    let table = schema.table(insert.table);
    let of = |columns: Option<&[ColumnIndex]>| table.may_arbitrate_globally(arbiter(table, columns));
    insert.on_conflict.as_ref().is_some_and(|conflict| of(conflict.columns.as_deref()))
}

/// Returns whether it inserts one row, at one shard.
fn inserts_one_row(router: &Router<'_>, insert: &Insert) -> bool {
    let is_one = matches!(&insert.source, InsertSource::Values(rows) if rows.len() == 1);
    is_one && matches!(router.statement(&Statement::Insert(insert.clone())), Route::By(_) | Route::Own)
}

/// Returns whether the statement can be undone and begin again at the shard of a row that it conflicts with: it is an INSERT of one row, and
/// nothing else.
pub fn may_begin_again(router: &Router<'_>, schema: &Schema, procedure: &Procedure, insert: &Insert) -> bool {
    let mut statements = 0;
    each_statement(&procedure.body, &mut |_, _| statements += 1);
    router.is_partitioned(insert.table)
        && statements == 1
        && arbitrates_globally(schema, insert)
        && inserts_one_row(router, insert)
}

/// The unique index of these columns, in any order.
pub fn arbiter(schema: &TableSchema, columns: Option<&[ColumnIndex]>) -> Option<IndexId> {
    let columns = columns?;
    schema.indexes.iter().position(|index| {
        index.unique
            && index.columns.len() == columns.len()
            && index.columns.iter().all(|have| have.column.is_some_and(|have| columns.contains(&have)))
    })
}

fn is_own(value: &Expr, relations: &[RelationId], at: ColumnIndex) -> bool {
    match walk::uncast(value).kind {
        ExprKind::Column { relation, column } => column == at && relations.contains(&relation),
        _ => false,
    }
}
