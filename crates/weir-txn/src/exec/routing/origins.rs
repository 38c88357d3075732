//! Where the values of a procedure's variables come from: its parameters, constants, and ids that the call generates.

use std::collections::BTreeMap;

use weir_sql::bound::{Expr, ExprKind, Procedure, Step, StepKind, VariableId};
use weir_types::Value;

use super::{Arithmetic, Coercion, Route, Source, returns_own_id, without_integer_cast};

/// Number of sources of one computed value; one with more counts as unknown. A variable that is computed from itself has no end of them.
const COMBINATIONS_MAX: usize = 16;

/// Where each variable's value comes from; `None` where it is not only parameters.
pub struct Origins {
    by_variable: BTreeMap<VariableId, Option<Vec<Source>>>,
}

impl Origins {
    pub fn of(procedure: &Procedure) -> Origins {
        let mut origins = Origins { by_variable: BTreeMap::new() };
        for (index, parameter) in procedure.parameters.iter().enumerate() {
            if parameter.mode != weir_sql::bound::ParameterMode::Out {
                origins.by_variable.insert(parameter.variable, Some(vec![Source::Parameter(index)]));
            }
        }
        // Assignments may stand in any order, so go round until nothing changes.
        loop {
            let before = format!("{:?}", origins.by_variable);
            origins.steps(&procedure.body);
            if format!("{:?}", origins.by_variable) == before {
                return origins;
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.kind {
                StepKind::Assign { variable, value } => {
                    let sources = self.expr(value);
                    self.note(*variable, sources);
                }
                StepKind::ForEach { variable, array, body, .. } => {
                    let sources = self.elements(array);
                    self.note(*variable, sources);
                    self.steps(body);
                }
                StepKind::ForRange { variable, body, .. } => {
                    self.note(*variable, None);
                    self.steps(body);
                }
                StepKind::ForQuery { targets, body, .. } => {
                    targets.iter().for_each(|target| self.note(target.variable, None));
                    self.steps(body);
                }
                StepKind::Sql { statement, into: Some(into) } => {
                    for (at, target) in into.targets.iter().enumerate() {
                        self.note(target.variable, returns_own_id(statement, at).then(|| vec![Source::Own]));
                    }
                }
                StepKind::Call { targets, .. } => {
                    targets.iter().for_each(|target| self.note(target.variable, None))
                }
                StepKind::AssignElement { variable, .. } | StepKind::GetRowCount { variable } => {
                    self.note(*variable, None)
                }
                StepKind::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, body)| self.steps(body));
                    self.steps(otherwise);
                }
                StepKind::While { body, .. } | StepKind::Loop { body, .. } | StepKind::Block { body, .. } => {
                    self.steps(body)
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, variable: VariableId, sources: Option<Vec<Source>>) {
        let Some(new) = sources else {
            self.by_variable.insert(variable, None);
            return;
        };
        match self.by_variable.entry(variable).or_insert_with(|| Some(Vec::new())) {
            None => {}
            Some(known) => new.into_iter().for_each(|source| {
                if !known.contains(&source) {
                    known.push(source);
                }
            }),
        }
    }

    /// A statement that goes by an id which the call generates runs where it is generated.
    pub fn settled(&self, route: Route) -> Route {
        match route {
            Route::By(keys) if self.is_own(&keys) => Route::Own,
            route => route,
        }
    }

    /// Whether these values of the partition columns are an id that the call generates.
    pub fn is_own(&self, keys: &[Expr]) -> bool {
        matches!(keys, [key] if self.expr(key).as_deref() == Some(&[Source::Own]))
    }

    /// The source of a value that has one, and that arguments say.
    pub fn only(&self, expr: &Expr) -> Option<Source> {
        match &self.expr(expr)?[..] {
            [source] if !source.is_elements() && *source != Source::Own => Some(source.clone()),
            _ => None,
        }
    }

    /// Sources of a value that is copied, cast, or computed from integers; `None`: it is computed otherwise, or from data.
    pub fn expr(&self, expr: &Expr) -> Option<Vec<Source>> {
        let expr = without_integer_cast(expr);
        match &expr.kind {
            ExprKind::Cast { operand, explicit } => {
                let coercion = Coercion::of(operand, &expr.ty, *explicit)?;
                let cast = |source| match source {
                    Source::Own => None,
                    Source::Constant(value) => Some(Source::Constant(coercion.of_value(&value))),
                    source => Some(Source::Cast(Box::new(source), coercion.clone())),
                };
                self.expr(operand)?.into_iter().map(cast).collect()
            }
            ExprKind::Literal(value) => Some(vec![Source::Constant(value.clone())]),
            ExprKind::Variable(variable) => self.by_variable.get(variable).cloned().flatten(),
            ExprKind::Subscript { array, .. } => self.elements(array),
            ExprKind::Binary { op, left, right } if is_integers(expr, [left, right]) => {
                self.arithmetic(Arithmetic::of(*op)?, self.expr(left)?, self.expr(right)?)
            }
            ExprKind::Negate(operand) if is_integers(expr, [operand, operand]) => {
                let zero = vec![Source::Constant(Value::Int(0))];
                self.arithmetic(Arithmetic::Subtract, zero, self.expr(operand)?)
            }
            ExprKind::Coalesce(list) => {
                let sources: Option<Vec<Vec<Source>>> = list.iter().map(|expr| self.expr(expr)).collect();
                sources.map(|sources| sources.concat())
            }
            _ => None,
        }
    }

    /// Of each combination of the operands.
    fn arithmetic(&self, op: Arithmetic, left: Vec<Source>, right: Vec<Source>) -> Option<Vec<Source>> {
        let is_own = |source: &Source| *source == Source::Own;
        if left.iter().chain(&right).any(is_own) || left.len() * right.len() > COMBINATIONS_MAX {
            return None;
        }
        let of = |left: &Source, right: &Source| match (left, right) {
            (Source::Constant(left), Source::Constant(right)) => Source::Constant(op.of_values(left, right)),
            _ => Source::Arithmetic(Box::new(left.clone()), op, Box::new(right.clone())),
        };
        Some(left.iter().flat_map(|left| right.iter().map(move |right| of(left, right))).collect())
    }

    fn elements(&self, array: &Expr) -> Option<Vec<Source>> {
        let ExprKind::Variable(variable) = array.kind else { return None };
        let sources = self.by_variable.get(&variable).cloned().flatten()?;
        sources
            .into_iter()
            .map(|source| match source {
                Source::Parameter(index) => Some(Source::Elements(index)),
                Source::Elements(_)
                | Source::Constant(_)
                | Source::Own
                | Source::Cast(..)
                | Source::Arithmetic(..) => None,
            })
            .collect()
    }
}

/// Returns whether an operation has integers as operands, and an integer as its result.
fn is_integers(expr: &Expr, operands: [&Expr; 2]) -> bool {
    expr.ty.is_integer() && operands.iter().all(|operand| operand.ty.is_integer())
}
