//! A bounded counter that a caller's amount changes: refuse amounts below zero, where that keeps it away from the bound.
//!
//! `restock(sku, quantity)` may lower the stock only because nobody has said that a quantity is not negative.

use std::collections::BTreeSet;

use weir_sql::bound::{BinaryOp, Expr, ExprKind, Raise, RaiseLevel, Step, StepKind, VariableId};
use weir_sql::{Application, Span};
use weir_types::{SqlState, SqlType, Value};

use super::edit::Candidate;
use crate::Analysis;
use crate::effects::{ColumnOperation, Term};
use crate::invariant::Invariant;
use crate::verdict::Verdict;

/// The parameter that is added as it is, of unknown sign, to a column that the invariant reads.
pub fn refuse_negative(
    app: &Application,
    analysis: &Analysis,
    invariant: &Invariant,
    verdict: &Verdict,
) -> Option<Candidate> {
    let (table, transaction) = (invariant.table?, verdict.transaction);
    let procedure = &app.procedures[transaction];
    let effects = &analysis.effects[transaction];
    let added = |operation: &ColumnOperation| match operation {
        ColumnOperation::Add(term) if effects.terms.sign(*term).negative => match effects.terms.get(*term) {
            Term::Parameter(variable) => Some(*variable),
            _ => None,
        },
        _ => None,
    };
    let writes = effects.writes.iter().filter(|write| write.table == table);
    let changed =
        writes.flat_map(|write| write.updates()).filter(|(column, _)| invariant.columns.contains(column));
    let variable = changed.into_iter().find_map(|(_, operation)| added(operation))?;
    let parameter = procedure.parameters.iter().find(|parameter| parameter.variable == variable)?;
    if procedure.synthesised || !parameter.ty.is_number() {
        return None;
    }
    let (name, amount) = (&procedure.name, &parameter.name);
    let ty = parameter.ty.clone();
    Some(Candidate {
        transaction,
        invariant: Some(invariant.name.clone()),
        text: format!(
            "refuse a negative {amount}: then {name} only leads away from the bound, and nobody has to ask"
        ),
        guarded: false,
        edit: format!(
            "IF {amount} < 0 THEN RAISE EXCEPTION '{amount} is negative'; END IF; -- first in {name}"
        ),
        tables: BTreeSet::from([table]),
        apply: Box::new(move |app: &mut Application| {
            let procedure = &mut app.procedures[transaction];
            let span = procedure.body.first().map_or(procedure.span, |step| step.span);
            procedure.body.insert(0, refusal(variable, &ty, span));
            true
        }),
    })
}

/// `IF variable < 0 THEN RAISE EXCEPTION …; END IF`.
fn refusal(variable: VariableId, ty: &SqlType, span: Span) -> Step {
    let expr = |kind: ExprKind, ty: SqlType| Expr { kind, ty, span };
    let zero = expr(ExprKind::Literal(Value::Int(0)), SqlType::Int4);
    let zero = match ty {
        SqlType::Int4 => zero,
        ty => expr(ExprKind::Cast { operand: Box::new(zero), explicit: false }, ty.clone()),
    };
    let left = Box::new(expr(ExprKind::Variable(variable), ty.clone()));
    let negative = ExprKind::Binary { op: BinaryOp::Less, left, right: Box::new(zero) };
    let raise = StepKind::Raise(Raise {
        level: RaiseLevel::Exception,
        format: String::new(),
        args: Vec::new(),
        state: SqlState::CHECK_VIOLATION,
        message: None,
        detail: None,
        hint: None,
    });
    let branches = vec![(expr(negative, SqlType::Bool), vec![Step { kind: raise, span }])];
    Step { kind: StepKind::If { branches, otherwise: Vec::new() }, span }
}
