//! Which procedures run as independent transactions over several shards (docs/internals/ordered-calls.md; eris.txt §4.1, soundness S2):
//! one message to each participant is enough, and all of them decide alike.
//!
//! Without votes no shard hears of another one's outcome, so nothing may fail at one shard alone. A procedure that only reads may fail, for
//! then nothing has happened anywhere. One that writes consists of statements none of which can fail, whatever the rows: they compare values,
//! and write what the call is given. Of every other procedure the participants vote, or the last one decides by what the others have found.

use weir_analysis::plan::{Mechanism, TransactionPlan};
use weir_sql::Catalog;
use weir_sql::bound::{
    BinaryOp, Distinct, Expr, ExprKind, FromItem, Insert, InsertSource, Into, IntoTarget, ParameterMode,
    Procedure, ProcedureKind, Query, QueryBody, RaiseLevel, Statement, Step, StepKind, Update, VariableId,
};
use weir_sql::catalog::{Column, ColumnIndex, IndexKey, Table};
use weir_types::{SqlType, Value};

use super::program::Participants;
use super::routing::{Route, Router};
use super::walk;

/// What no participant of several can work out by itself.
const ANOTHER_AT_EACH_SHARD: &str =
    "a query within an expression, or a value that is another one at each shard";

/// Longest numeric argument, in characters: sums of such never overflow.
const NUMERIC_CHARACTERS_MAX: usize = 1_000;

/// How the participants of an independent transaction over several shards agree whether it commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// They need no agreement: nothing can fail at one of them alone.
    #[default]
    None,
    /// One alone may refuse its part. Each commits once all have voted for the call.
    Votes,
    /// The last one needs what the statements of the others have given. These vote, and it decides.
    Last,
}

/// `takes_part_alone`: no participant derives writes for another shard, nor meets rows that it must leave to others.
///
/// # Errors
/// Why calls over several shards are no independent transactions.
pub(super) fn check(
    router: &Router<'_>,
    procedure: &Procedure,
    plan: &TransactionPlan,
    (participants, takes_part_alone): (&Participants, bool),
) -> Result<Agreement, String> {
    if !plan.mechanism.is_ordered_family() {
        return Err("its plan is not ordered".to_owned());
    }
    if let Some(why) = &participants.unsupported {
        return Err(why.clone());
    }
    if participants.everywhere {
        return Err("a statement that does not say on which shard its rows are".to_owned());
    }
    if matches!(procedure.kind, ProcedureKind::SetReturningFunction { .. }) {
        return Err("a function that returns rows".to_owned());
    }
    let check = Check { router, procedure, writes: !plan.read_only };
    let (cannot_fail, agreement) = match plan.mechanism {
        _ if !participants.is_independent => {
            (Err("a statement that needs what another shard knows".to_owned()), Agreement::Last)
        }
        Mechanism::Ordered => (procedure.body.iter().try_for_each(|step| check.step(step)), Agreement::Votes),
        _ => (Err("an error that one shard alone would see".to_owned()), Agreement::Votes),
    };
    match cannot_fail {
        Ok(()) => Ok(Agreement::None),
        Err(why) if !takes_part_alone => Err(why),
        Err(why) => check.agrees(agreement).map(|()| agreement).map_err(|besides| match besides {
            None => why,
            Some(besides) => besides,
        }),
    }
}

/// Returns whether a call with these arguments can fail at no shard alone, or its participants vote.
pub(super) fn takes(agreement: Agreement, args: &[Value]) -> bool {
    let cannot_fail = |arg: &Value| match arg {
        Value::Null => false,
        Value::Numeric(number) => number.to_string().len() <= NUMERIC_CHARACTERS_MAX,
        _ => true,
    };
    agreement != Agreement::None || args.iter().all(cannot_fail)
}

struct Check<'a> {
    router: &'a Router<'a>,
    procedure: &'a Procedure,
    /// It writes, so nothing in it may fail.
    writes: bool,
}

impl Check<'_> {
    fn catalog(&self) -> &Catalog {
        self.router.catalog
    }

    /// Checks that each shard finds out by itself, from the arguments and its own rows, whether its part can be done.
    ///
    /// # Errors
    /// Why not, if that is another reason than the one for which participants have to vote.
    fn agrees(&self, agreement: Agreement) -> Result<(), Option<String>> {
        if !self.writes && agreement == Agreement::Votes {
            return Err(None);
        }
        let mut wrong = None;
        weir_sql::walk::each_step(&self.procedure.body, &mut |step| {
            if wrong.is_none() {
                wrong = self.cannot_vote_on(step).map(str::to_owned);
            }
        });
        wrong.map_or(Ok(()), |wrong| Err(Some(wrong)))
    }

    fn cannot_vote_on(&self, step: &Step) -> Option<&'static str> {
        let differs = |expr: &Expr| walk::is_volatile(expr) || walk::has_subquery(expr);
        let of_value = |expr: &Expr| differs(expr).then_some(ANOTHER_AT_EACH_SHARD);
        match &step.kind {
            StepKind::Sql { statement, .. } => {
                let mut is_fixed = true;
                walk::each_statement_expr(statement, &mut |expr| is_fixed &= !expr.kind.is_volatile());
                let is_alike = match self.router.statement(statement) {
                    Route::By(_) => true,
                    // Whoever writes copied rows has entered, at all shards: at a place in the order they are alike.
                    Route::Anywhere => matches!(&**statement, Statement::Query(_)),
                    Route::Own | Route::Everywhere => false,
                };
                if !is_alike {
                    return Some("a statement on more than one shard");
                }
                let locks = matches!(&**statement, Statement::Query(query) if !query.locks.is_empty());
                (!is_fixed || locks).then_some(match locks {
                    true => "FOR UPDATE, whose locks would be let go with the call",
                    false => ANOTHER_AT_EACH_SHARD,
                })
            }
            StepKind::Assign { value, .. } | StepKind::Return { value: Some(value) } => of_value(value),
            StepKind::AssignElement { index, value, .. } => of_value(index).or_else(|| of_value(value)),
            StepKind::If { branches, .. } => branches.iter().find_map(|(condition, _)| of_value(condition)),
            StepKind::ForRange { from, to, by, .. } => {
                [Some(from), Some(to), by.as_ref()].into_iter().flatten().find_map(of_value)
            }
            StepKind::ForEach { array: value, .. } | StepKind::While { condition: value, .. } => {
                of_value(value)
            }
            StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => when.as_ref().and_then(of_value),
            StepKind::Raise(raise) if raise.level != RaiseLevel::Exception => {
                Some("a notice, which no answer in order has")
            }
            StepKind::Raise(raise) => raise.exprs().find_map(of_value),
            StepKind::Loop { .. }
            | StepKind::Block { .. }
            | StepKind::Return { value: None }
            | StepKind::GetRowCount { .. }
            | StepKind::Null => None,
            _ => Some("a step whose effect may differ from shard to shard"),
        }
    }

    fn step(&self, step: &Step) -> Result<(), String> {
        match &step.kind {
            StepKind::Sql { statement, into } => self.statement(statement, into.as_ref()),
            StepKind::Assign { variable, value } => {
                let fits = || value.ty == self.procedure.variables[variable.0 as usize].ty;
                self.computed(value, fits(), "an assignment that may fail")
            }
            StepKind::Return { value } => match value {
                Some(value) => self.computed(value, true, "a result whose computation may fail"),
                None => Ok(()),
            },
            StepKind::Null => Ok(()),
            _ => Err("a step whose effect may differ from shard to shard".to_owned()),
        }
    }

    /// A value that is computed once all shards have answered: of a call that writes it must be there already.
    fn computed(&self, value: &Expr, fits: bool, what: &str) -> Result<(), String> {
        if walk::has_subquery(value) || walk::is_volatile(value) {
            return Err(ANOTHER_AT_EACH_SHARD.to_owned());
        }
        let is_there = matches!(value.kind, ExprKind::Variable(_) | ExprKind::Literal(_)) && fits;
        (is_there || !self.writes).then_some(()).ok_or_else(|| what.to_owned())
    }

    fn statement(&self, statement: &Statement, into: Option<&Into>) -> Result<(), String> {
        if !matches!(self.router.statement(statement), Route::By(_)) {
            return Err("a statement on more than one shard, or on copied rows".to_owned());
        }
        let may_fail = |is_right: bool, what: &str| is_right.then_some(()).ok_or_else(|| what.to_owned());
        let mut is_fixed = true;
        walk::each_statement_expr(statement, &mut |expr| is_fixed &= !expr.kind.is_volatile());
        may_fail(is_fixed, "a value that is another one at each shard")?;
        if into.is_some_and(|into| self.writes && into.strict) {
            return Err("INTO STRICT, which only the shard with the rows may find violated".to_owned());
        }
        match statement {
            Statement::Query(query) => {
                let is_right = query.locks.is_empty() && (!self.writes || self.is_plain(query, into));
                may_fail(is_right, "a query that may fail, which only the shard with its rows would see")
            }
            Statement::Update(update) => may_fail(
                self.is_total_update(update),
                "an UPDATE that may fail (a key, a check, an overflow), which only the shard with the row would see",
            ),
            Statement::Insert(insert) => may_fail(
                self.is_total_insert(insert),
                "an INSERT that may fail (a key, a check), which only the shard of the row would see",
            ),
            Statement::Delete(_) => {
                Err("a DELETE, of which only the shard with the row knows who refers to it".to_owned())
            }
        }
    }

    /// Returns whether the query gives columns of one table's rows that satisfy comparisons.
    fn is_plain(&self, query: &Query, into: Option<&Into>) -> bool {
        let QueryBody::Select(select) = &query.body else { return false };
        let targets = into.map_or(&[][..], |into| &into.targets);
        let is_one = |(output, target): (&Expr, &IntoTarget)| {
            let variable = &self.procedure.variables[target.variable.0 as usize];
            is_leaf(output) && output.ty == variable.ty && !variable.not_null
        };
        query.ctes.is_empty()
            && query.order_by.is_empty()
            && query.limit.is_none()
            && query.offset.is_none()
            && matches!(select.from[..], [FromItem::Table { .. }])
            && matches!(select.distinct, Distinct::All)
            && !select.aggregates
            && select.outputs.iter().zip(targets).all(is_one)
            && select.filter.iter().all(is_total)
    }

    fn is_total_update(&self, update: &Update) -> bool {
        let table = self.catalog().table(update.table);
        self.is_simple(table)
            && update.from.is_empty()
            && update.returning.is_empty()
            && update.filter.iter().all(is_total)
            && update.assignments.iter().all(|(column, value)| {
                let is_sum = || self.is_sum(table, *column, value);
                !self.is_used(table, *column) && (self.is_given(table, *column, value) || is_sum())
            })
    }

    fn is_total_insert(&self, insert: &Insert) -> bool {
        let table = self.catalog().table(insert.table);
        let InsertSource::Values(rows) = &insert.source else { return false };
        let is_unkeyed = table.primary_key.is_none()
            && table.unique_keys.is_empty()
            && table.foreign_keys.is_empty()
            && !table.indexes.iter().any(|index| index.unique);
        let is_row = |row: &Vec<Expr>| {
            let all = || {
                insert.columns.iter().zip(row).chain(insert.defaults.iter().map(|(at, value)| (at, value)))
            };
            all().all(|(column, value)| {
                self.is_given(table, *column, value)
                    && (!is_indexed(table, *column) || is_short(&table.columns[*column].ty))
            })
        };
        self.is_simple(table)
            && is_unkeyed
            && insert.on_conflict.is_none()
            && insert.returning.is_empty()
            && rows.iter().all(is_row)
    }

    /// Returns whether writing the table does nothing but write its row.
    fn is_simple(&self, table: &Table) -> bool {
        let has_trigger = self.catalog().triggers.iter().any(|trigger| trigger.table == table.id);
        let is_computed = |column: &Column| column.generated.is_some() || column.is_hidden;
        !has_trigger
            && table.exclusions.is_empty()
            && table.checks.is_empty()
            && !table.columns.iter().any(is_computed)
    }

    /// Returns whether the column is part of a key, refers to rows or is referred to, or says where the row lives.
    fn is_used(&self, table: &Table, column: ColumnIndex) -> bool {
        let is_parent = |child: &Table| {
            child
                .foreign_keys
                .iter()
                .any(|key| key.parent == table.id && key.parent_columns.contains(&column))
        };
        is_indexed(table, column)
            || table.foreign_keys.iter().any(|key| key.columns.contains(&column))
            || self.catalog().tables.iter().any(is_parent)
            || self.router.partition(table.id).is_some_and(|columns| columns.contains(&column))
    }

    /// Returns whether the value is an argument of the call, which is not NULL, or a constant, of the column's very type.
    fn is_given(&self, table: &Table, column: ColumnIndex, value: &Expr) -> bool {
        let column = &table.columns[column];
        let fits = value.ty == column.ty && is_unbounded(&column.ty) && column.time_modifier.is_none();
        match &value.kind {
            ExprKind::Variable(variable) => fits && (self.is_argument(*variable) || !column.not_null),
            ExprKind::Literal(Value::Null) => !column.not_null,
            ExprKind::Literal(_) => fits,
            _ => false,
        }
    }

    /// Returns whether the value is the column, more or less an argument: numbers without a bound.
    fn is_sum(&self, table: &Table, column: ColumnIndex, value: &Expr) -> bool {
        let ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Subtract, left, right } = &value.kind else {
            return false;
        };
        let is_unbounded = [&table.columns[column].ty, &value.ty, &left.ty, &right.ty]
            .iter()
            .all(|ty| matches!(ty, SqlType::Numeric(None)));
        let is_column = matches!(left.kind, ExprKind::Column { column: of, .. } if of == column);
        let is_argument = match &right.kind {
            ExprKind::Variable(variable) => self.is_argument(*variable),
            ExprKind::Literal(value) => !value.is_null(),
            _ => false,
        };
        is_unbounded && is_column && is_argument
    }

    /// Returns whether the variable is an argument that nothing in the body assigns.
    fn is_argument(&self, variable: VariableId) -> bool {
        let is_input = self
            .procedure
            .parameters
            .iter()
            .any(|parameter| parameter.variable == variable && parameter.mode == ParameterMode::In);
        let is_assigned = self.procedure.body.iter().any(|step| match &step.kind {
            StepKind::Assign { variable: target, .. } => *target == variable,
            StepKind::Sql { into: Some(into), .. } => {
                into.targets.iter().any(|target| target.variable == variable)
            }
            _ => false,
        });
        is_input && !is_assigned
    }
}

fn is_indexed(table: &Table, column: ColumnIndex) -> bool {
    let keys = table.primary_key.iter().chain(&table.unique_keys);
    keys.flat_map(|key| &key.columns).any(|one| *one == column)
        || table.indexes.iter().any(|index| {
            let is_other = |key: &IndexKey| match key.expr.kind {
                ExprKind::Column { column: of, .. } => of != column,
                // An expression over whatever columns.
                _ => false,
            };
            index.predicate.is_some() || !index.keys.iter().all(is_other)
        })
}

fn is_short(ty: &SqlType) -> bool {
    matches!(
        ty,
        SqlType::Bool
            | SqlType::Int2
            | SqlType::Int4
            | SqlType::Int8
            | SqlType::Float4
            | SqlType::Float8
            | SqlType::Date
            | SqlType::Timestamp
            | SqlType::Timestamptz
            | SqlType::Uuid
    )
}

/// Returns whether each value of the type fits a column of the type.
fn is_unbounded(ty: &SqlType) -> bool {
    is_short(ty)
        || matches!(
            ty,
            SqlType::Numeric(None)
                | SqlType::Text
                | SqlType::Varchar(None)
                | SqlType::Bytea
                | SqlType::Jsonb
                | SqlType::Enum(_)
        )
}

fn is_leaf(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Column { .. } | ExprKind::Variable(_) | ExprKind::Literal(_))
}

/// Returns whether the condition has a value for each row: it compares what is there.
fn is_total(condition: &Expr) -> bool {
    match &condition.kind {
        ExprKind::And(all) | ExprKind::Or(all) => all.iter().all(is_total),
        ExprKind::Not(one) => is_total(one),
        ExprKind::IsNull { operand, .. } => is_leaf(operand),
        ExprKind::Binary {
            op:
                BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::Less
                | BinaryOp::LessOrEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterOrEqual,
            left,
            right,
        } => is_leaf(left) && is_leaf(right) && (is_short(&left.ty) || left.ty == right.ty),
        _ => is_leaf(condition),
    }
}
