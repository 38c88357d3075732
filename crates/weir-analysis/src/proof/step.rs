//! Effect of one write on the columns of a condition, as a step from one state of the row to the next.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::catalog::ColumnIndex;
use weir_types::SqlType;

use super::condition::{Row, compare};
use super::formula::{Formula, Quantity, Question, Sort, Value};
use crate::effects::{
    ColumnOperation, Condition, Operation, ProcedureEffects, ReadId, Sign, Term, TermId, Write,
};
use crate::world::World;

/// The change that all transactions make to one column. Columns that are changed in several ways are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Add,
    Max,
    Min,
    Assign,
}

impl Kind {
    pub fn of(operation: ColumnOperation) -> Option<Kind> {
        match operation {
            ColumnOperation::Add(_) => Some(Kind::Add),
            ColumnOperation::Max(_) => Some(Kind::Max),
            ColumnOperation::Min(_) => Some(Kind::Min),
            ColumnOperation::Assign(_) => Some(Kind::Assign),
            ColumnOperation::Apply(_) => None,
        }
    }
}

/// One write of one procedure, with variables of its own.
pub struct Step<'w, 'a> {
    effects: &'w ProcedureEffects,
    world: &'w World<'a>,
    /// The row that it changes.
    row: Option<ReadId>,
    /// Values of terms, by term.
    known: BTreeMap<TermId, Option<Quantity>>,
    /// Terms that become part of a column that is NOT NULL, so that they are not NULL themselves.
    flowing: BTreeSet<TermId>,
    changes: Vec<Change>,
}

struct Change {
    column: ColumnIndex,
    kind: Kind,
    sort: Sort,
    sign: Sign,
    /// `None` where nothing but its sign is known, or where rounding comes between.
    amount: Option<Value>,
    /// Whether the change is the last word on its column when the branch begins; it always is for sums.
    effective: Formula,
}

impl<'w, 'a> Step<'w, 'a> {
    /// `fixed` holds the row's columns that never change, `partial` if other branches may have overwritten some of
    /// the columns and not others.
    pub fn new(
        world: &'w World<'a>,
        procedure: usize,
        write: &Write,
        columns: &BTreeMap<ColumnIndex, (Kind, Sort)>,
        fixed: &Row,
        partial: bool,
        question: &mut Question,
    ) -> Step<'w, 'a> {
        let effects = &world.effects[procedure];
        let row = match write.operation {
            Operation::Update { row, .. } => Some(row),
            _ => None,
        };
        let mut step = Step {
            effects,
            world,
            row,
            known: BTreeMap::new(),
            flowing: BTreeSet::new(),
            changes: Vec::new(),
        };
        for &(column, operation) in write.updates() {
            let Some(&(kind, sort)) = columns.get(&column) else { continue };
            let term = operation.term();
            let exact = step.quantity(term, procedure, fixed, question);
            // The greater of a value and NULL is the value, so that NULL may have come there.
            if exact.is_some() && matches!(kind, Kind::Add | Kind::Assign) {
                step.flowing.extend(effects.terms.leaves(term));
            }
            let amount = exact.map(Value::of).or_else(|| {
                // A value that replaces the column is rounded once, and is the same in every state.
                (kind != Kind::Add).then(|| free(sort, effects.terms.sign(term), question))
            });
            let effective = match kind == Kind::Assign && partial {
                true => Formula::Variable(question.variable(Sort::Truth)),
                false => Formula::Constant(true),
            };
            let sign = effects.terms.sign(term);
            step.changes.push(Change { column, kind, sort, sign, amount, effective });
        }
        step.assume(procedure, write, fixed, question);
        step
    }

    /// No write: the values of a procedure's terms, and what it has tested of them.
    pub fn of_amounts(world: &'w World<'a>, procedure: usize) -> Step<'w, 'a> {
        Step {
            effects: &world.effects[procedure],
            world,
            row: None,
            known: BTreeMap::new(),
            flowing: BTreeSet::new(),
            changes: Vec::new(),
        }
    }

    /// The term's value, which becomes part of a column that is NOT NULL if `certain`.
    pub fn amount(
        &mut self,
        term: TermId,
        procedure: usize,
        certain: bool,
        question: &mut Question,
    ) -> Option<Quantity> {
        let quantity = self.quantity(term, procedure, &Row::new(), question)?;
        if certain {
            self.flowing.extend(self.effects.terms.leaves(term));
        }
        Some(quantity)
    }

    /// Assumes the conditions that the text has tested before the write.
    pub fn assume_at(&mut self, procedure: usize, write: &Write, question: &mut Question) {
        self.assume(procedure, write, &Row::new(), question);
    }

    /// The state after it.
    pub fn after(&self, state: &Row, question: &mut Question) -> Row {
        let mut next = state.clone();
        for change in &self.changes {
            let amount = match &change.amount {
                Some(amount) => amount.clone(),
                None => free(change.sort, change.sign, question),
            };
            let Some(old) = state.get(&change.column).cloned() else { continue };
            let new = match change.kind {
                Kind::Add => old.plus(amount),
                Kind::Max => Value::choice(&old.less(&amount), amount.clone(), old),
                Kind::Min => Value::choice(&amount.less(&old), amount.clone(), old),
                Kind::Assign => Value::choice(&change.effective, amount, old),
            };
            next.insert(change.column, new);
        }
        next
    }

    /// Assumes the tested conditions: signs of values, IFs around and before the write, and its own WHERE.
    fn assume(&mut self, procedure: usize, write: &Write, fixed: &Row, question: &mut Question) {
        let effects = self.effects;
        for (term, quantity) in self.known.clone() {
            if let Some(quantity) = quantity {
                question.holds.push(has_sign(&quantity, effects.terms.sign(term)));
            }
        }
        for tested in effects.tested.iter().filter(|tested| tested.holds_at(write)) {
            let known = self.condition(&tested.condition, tested.unless_null, procedure, fixed, question);
            question.holds.extend(known);
        }
        let conditions = self.row.map(|row| effects.read(row).conditions.as_slice()).unwrap_or_default();
        for condition in conditions {
            let known = self.condition(condition, false, procedure, fixed, question);
            question.holds.extend(known);
        }
    }

    /// `None` where it says nothing that can be used.
    fn condition(
        &mut self,
        condition: &Condition,
        unless_null: bool,
        procedure: usize,
        fixed: &Row,
        question: &mut Question,
    ) -> Option<Formula> {
        match condition {
            Condition::All(list) => {
                let known = list
                    .iter()
                    .filter_map(|item| self.condition(item, unless_null, procedure, fixed, question));
                Some(Formula::all(known.collect::<Vec<_>>()))
            }
            Condition::Any(list) => {
                let known = list
                    .iter()
                    .map(|item| self.condition(item, unless_null, procedure, fixed, question))
                    .collect::<Option<Vec<_>>>()?;
                Some(Formula::any(known))
            }
            Condition::Compare { op, left, right } => {
                // A condition that is not true is false only if both sides are not NULL.
                let terms = &self.effects.terms;
                let leaves = terms.leaves(*left).into_iter().chain(terms.leaves(*right));
                let is_known = |leaf: &TermId| {
                    self.flowing.contains(leaf)
                        || matches!(terms.get(*leaf), Term::Integer(_))
                        || self.is_column_of(*leaf, fixed)
                };
                if unless_null && !leaves.into_iter().all(|leaf| is_known(&leaf)) {
                    return None;
                }
                let left = self.quantity(*left, procedure, fixed, question)?;
                let right = self.quantity(*right, procedure, fixed, question)?;
                Some(compare(*op, &Value::of(left), &Value::of(right)))
            }
            Condition::Null { .. } | Condition::Row(_) | Condition::Unknown => None,
        }
    }

    /// A column of the changed row that no transaction updates, whose value is that of the state.
    fn is_column_of(&self, term: TermId, fixed: &Row) -> bool {
        matches!(*self.effects.terms.get(term), Term::Field { row, column }
            if Some(row) == self.row && fixed.get(&column).is_some_and(is_whole))
    }

    /// The term as exact arithmetic over integers; `None` where anything may have been rounded.
    fn quantity(
        &mut self,
        term: TermId,
        procedure: usize,
        fixed: &Row,
        question: &mut Question,
    ) -> Option<Quantity> {
        if let Some(known) = self.known.get(&term) {
            return known.clone();
        }
        let effects = self.effects;
        let quantity = match effects.terms.get(term) {
            Term::Integer(n) => Some(Quantity::integer(*n)),
            Term::Sum { base, offset } => {
                let base = self.quantity(*base, procedure, fixed, question)?;
                Some(Quantity::Sum(vec![base, Quantity::integer(*offset)]))
            }
            Term::Call { name, arguments } => match (name.as_str(), arguments.as_slice()) {
                ("+", list) => {
                    let parts = list.iter().map(|&part| self.quantity(part, procedure, fixed, question));
                    parts.collect::<Option<Vec<_>>>().map(Quantity::Sum)
                }
                ("-", &[inner]) => {
                    self.quantity(inner, procedure, fixed, question).map(|inner| inner.times(-1))
                }
                ("*", &[left, right]) => match (effects.terms.get(left), effects.terms.get(right)) {
                    (Term::Integer(factor), _) => {
                        self.quantity(right, procedure, fixed, question).map(|other| other.times(*factor))
                    }
                    (_, Term::Integer(factor)) => {
                        self.quantity(left, procedure, fixed, question).map(|other| other.times(*factor))
                    }
                    _ => None,
                },
                _ => None,
            },
            Term::Field { row, column } if self.is_column_of(term, fixed) && Some(*row) == self.row => {
                fixed.get(column).map(|value| value.number.clone())
            }
            _ => self.is_whole(term, procedure).then(|| Quantity::Variable(question.variable(Sort::Integer))),
        };
        self.known.insert(term, quantity.clone());
        quantity
    }

    /// The leaf is of an integer type.
    fn is_whole(&self, term: TermId, procedure: usize) -> bool {
        let integer = |ty: &SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        let variable = |at: weir_sql::bound::VariableId| {
            &self.world.app.procedures[procedure].variables[at.0 as usize].ty
        };
        match self.effects.terms.get(term) {
            Term::Parameter(at) => integer(variable(*at)),
            Term::Field { row, column } => {
                integer(&self.world.table(self.effects.read(*row).table).columns[*column].ty)
            }
            Term::Element { array, .. } => match self.effects.terms.get(*array) {
                Term::Parameter(at) => matches!(variable(*at), SqlType::Array(element) if integer(element)),
                _ => false,
            },
            Term::Index(_) => true,
            _ => false,
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.nan == Formula::Constant(false)
}

/// Any value of that sign, zero included where rounding may have led there.
fn free(sort: Sort, sign: Sign, question: &mut Question) -> Value {
    let number = Quantity::Variable(question.variable(sort));
    let nan = match sort {
        Sort::Real => Formula::Variable(question.variable(Sort::Truth)),
        _ => Formula::Constant(false),
    };
    let rounded = Sign { zero: true, ..sign };
    question.holds.push(has_sign(&number, rounded));
    Value { nan, number }
}

fn has_sign(quantity: &Quantity, sign: Sign) -> Formula {
    let zero = || Quantity::integer(0);
    let exclude = |excluded: bool, formula: Formula| match excluded {
        true => Formula::negated(formula),
        false => Formula::Constant(true),
    };
    Formula::all([
        exclude(!sign.negative, Formula::Less(quantity.clone(), zero())),
        exclude(!sign.zero, Formula::Equal(quantity.clone(), zero())),
        exclude(!sign.positive, Formula::Less(zero(), quantity.clone())),
    ])
}
