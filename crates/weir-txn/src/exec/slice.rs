//! The part of a procedure that non-deciding participants run: a program slice (Weiser 1981).
//!
//! The slice contains the statements on partitioned rows and all that they depend on. It omits statements of the deciding shard, which is
//! always another one; and RAISE, reads of replicated tables and computations that only those need: the deciding shard runs all of them,
//! and an error of a participant counts only when the deciding shard reaches it (see [`crate::message::Answers`]). So an order of
//! ten lines from four shards costs ten look-ups on each, not forty of everything.

use std::collections::BTreeSet;

use weir_sql::bound::{Expr, ExprKind, Procedure, Query, Statement, Step, StepKind, VariableId};

use super::program::Participants;
use super::routing::{Origins, Route, Router, Source, inserted, same, without_integer_cast};
use super::walk;

struct Slice<'a> {
    router: &'a Router<'a>,
    origins: Origins,
    /// Sources of the deciding shard's partition key, if each call has one.
    decides: Option<&'a Vec<Vec<Source>>>,
    found: VariableId,
    needed: BTreeSet<VariableId>,
    /// A loop may end only by RAISE, so RAISE is kept.
    unbounded: bool,
}

/// Slice of the procedure, and the variables that it reads.
pub fn of(
    router: &Router<'_>,
    procedure: &Procedure,
    participants: &Participants,
) -> (Procedure, BTreeSet<VariableId>) {
    let one_shard = |key: &&Vec<Vec<Source>>| key.iter().flatten().all(|source| !source.is_elements());
    let mut slice = Slice {
        router,
        origins: Origins::of(procedure),
        decides: participants.keys.first().filter(one_shard),
        found: procedure.found,
        needed: BTreeSet::new(),
        unbounded: has_unbounded_loop(&procedure.body),
    };
    // A kept step may need variables of earlier steps, or of the previous round of a loop.
    loop {
        let before = slice.needed.len();
        let body = slice.steps(&procedure.body);
        if slice.needed.len() == before {
            return (Procedure { body, ..procedure.clone() }, slice.needed);
        }
    }
}

fn has_unbounded_loop(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::While { .. } | StepKind::Loop { .. } => true,
        StepKind::If { branches, otherwise } => {
            branches.iter().any(|(_, body)| has_unbounded_loop(body)) || has_unbounded_loop(otherwise)
        }
        StepKind::ForRange { body, .. }
        | StepKind::ForQuery { body, .. }
        | StepKind::ForEach { body, .. }
        | StepKind::Block { body, .. } => has_unbounded_loop(body),
        _ => false,
    })
}

impl Slice<'_> {
    fn steps(&mut self, steps: &[Step]) -> Vec<Step> {
        let mut kept = Vec::new();
        for step in steps {
            if let Some(kind) = self.step(&step.kind) {
                kept.push(Step { kind, span: step.span });
            }
        }
        kept
    }

    fn need(&mut self, expr: &Expr) {
        walk::each_expr(expr, &mut |expr| {
            if let ExprKind::Variable(variable) = expr.kind {
                self.needed.insert(variable);
            }
        });
    }

    fn is_needed(&self, variable: VariableId) -> bool {
        self.needed.contains(&variable)
    }

    /// Remainder of the step, if any; its inputs become needed.
    fn step(&mut self, step: &StepKind) -> Option<StepKind> {
        match step {
            StepKind::Assign { variable, value } => {
                (self.is_needed(*variable) || walk::has_subquery(value)).then(|| self.need(value))?;
                Some(step.clone())
            }
            StepKind::AssignElement { variable, index, value } => {
                self.is_needed(*variable).then(|| [index, value].map(|expr| self.need(expr)))?;
                Some(step.clone())
            }
            StepKind::Sql { statement, into } => {
                let targets = into.iter().flat_map(|into| &into.targets).map(|target| target.variable);
                let assigns = targets.chain([self.found]).any(|variable| self.is_needed(variable));
                self.statement(statement, assigns).then(|| step.clone())
            }
            StepKind::If { branches, otherwise } => {
                let kept: Vec<_> =
                    branches.iter().map(|(condition, body)| (condition, self.steps(body))).collect();
                let otherwise = self.steps(otherwise);
                if kept.iter().all(|(_, body)| body.is_empty()) && otherwise.is_empty() {
                    return None;
                }
                kept.iter().for_each(|(condition, _)| self.need(condition));
                let branches = kept.into_iter().map(|(condition, body)| (condition.clone(), body)).collect();
                Some(StepKind::If { branches, otherwise })
            }
            StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => {
                when.iter().for_each(|when| self.need(when));
                Some(step.clone())
            }
            StepKind::GetRowCount { variable } => {
                self.is_needed(*variable).then(|| self.needed.insert(self.found))?;
                Some(step.clone())
            }
            StepKind::Raise(_) | StepKind::Assert { .. } if !self.unbounded => None,
            StepKind::Null => None,
            // Steps that a part cannot run, or that end it, are kept with everything that they read.
            StepKind::Raise(_)
            | StepKind::Assert { .. }
            | StepKind::Return { .. }
            | StepKind::ReturnNext { .. }
            | StepKind::ReturnQuery { .. }
            | StepKind::Call { .. }
            | StepKind::Opaque(_) => {
                self.need_all_of(step);
                Some(step.clone())
            }
            _ => self.loop_step(step),
        }
    }

    /// A loop with a non-empty remainder of its body, and its bounds.
    fn loop_step(&mut self, step: &StepKind) -> Option<StepKind> {
        let mut left = step.clone();
        let body = match &mut left {
            StepKind::ForRange { body, .. }
            | StepKind::ForQuery { body, .. }
            | StepKind::ForEach { body, .. }
            | StepKind::While { body, .. }
            | StepKind::Loop { body, .. }
            | StepKind::Block { body, .. } => body,
            _ => return Some(left),
        };
        *body = self.steps(body);
        let idle = body.is_empty() && !self.is_needed(self.found);
        match &left {
            StepKind::ForRange { from, to, by, .. } => {
                if idle {
                    return None;
                }
                [from, to].into_iter().chain(by).for_each(|bound| self.need(bound));
            }
            StepKind::ForEach { array, .. } => {
                if idle {
                    return None;
                }
                self.need(array);
            }
            StepKind::ForQuery { query, .. } => {
                if idle && matches!(self.router.query(query), Route::Anywhere) {
                    return None;
                }
                self.need_query(query);
            }
            StepKind::While { condition, .. } => self.need(condition),
            StepKind::Block { .. } if idle => return None,
            _ => {}
        }
        Some(left)
    }

    fn need_query(&mut self, query: &Query) {
        walk::each_expr_of_query(query, &mut |expr| self.need_here(expr));
    }

    /// `each_statement_expr` visits every expression, including nested ones.
    fn need_here(&mut self, expr: &Expr) {
        if let ExprKind::Variable(variable) = expr.kind {
            self.needed.insert(variable);
        }
    }

    fn need_all_of(&mut self, step: &StepKind) {
        match step {
            StepKind::Raise(raise) => raise.exprs().for_each(|expr| self.need(expr)),
            StepKind::Assert { condition, message } => {
                [condition].into_iter().chain(message).for_each(|expr| self.need(expr))
            }
            StepKind::Return { value } => value.iter().for_each(|value| self.need(value)),
            StepKind::ReturnNext { values } => values.iter().for_each(|value| self.need(value)),
            StepKind::ReturnQuery { query } => self.need_query(query),
            StepKind::Call { args, .. } => args.iter().for_each(|arg| self.need(arg)),
            _ => {}
        }
    }

    /// Returns whether the statement is kept. `assigns`: its targets are needed.
    fn statement(&mut self, statement: &Statement, assigns: bool) -> bool {
        let route = self.origins.settled(self.router.statement(statement));
        if let (Route::Anywhere, false) = (&route, assigns) {
            return false;
        }
        let deciders = match &route {
            Route::By(keys) if self.is_the_deciders(keys) => Some(keys.as_slice()),
            Route::Own => Some([].as_slice()),
            _ => None,
        };
        if let Some(keys) = deciders {
            // The statement itself is skipped, but its targets become "not known here", and the parents of its inserted rows may live
            // here.
            let parents = self.need_distant_parents(statement, keys);
            keys.iter().for_each(|key| self.need(key));
            return assigns || parents;
        }
        walk::each_statement_expr(statement, &mut |expr| self.need_here(expr));
        true
    }

    fn is_the_deciders(&self, keys: &[Expr]) -> bool {
        let sources: Option<Vec<Vec<Source>>> = keys.iter().map(|key| self.origins.expr(key)).collect();
        sources.is_some() && sources.as_ref() == self.decides
    }

    /// Returns whether a parent of an inserted row may live on another shard than the row; the values that name such parents become
    /// needed.
    fn need_distant_parents(&mut self, statement: &Statement, own: &[Expr]) -> bool {
        let Statement::Insert(insert) = statement else { return false };
        let mut found = false;
        for (key, row, parent) in self.router.parents(insert) {
            if same(&parent, own) || self.origins.is_own(&parent) {
                continue;
            }
            found = true;
            key.columns.iter().filter_map(|&column| inserted(insert, row, column)).for_each(|expr| {
                self.need(expr);
            });
        }
        found
    }
}

/// Partition keys of the rows that a loop's body works on.
pub struct Homes {
    /// Keys that are the same in every round.
    pub fixed: Vec<Vec<Expr>>,
    /// Arrays whose element at the loop variable is the key.
    pub elements: BTreeSet<VariableId>,
}

/// Keys of which one must belong to the shard for a round of the loop to have work there; `None` if that is not so simple. `read`:
/// variables that the slice reads.
pub fn homes(
    router: &Router<'_>,
    variable: VariableId,
    body: &[Step],
    found: VariableId,
    read: &BTreeSet<VariableId>,
) -> Option<Homes> {
    let mut homes = Homes { fixed: Vec::new(), elements: BTreeSet::new() };
    for step in body {
        let StepKind::Sql { statement, into } = &step.kind else { return None };
        let targets = into.iter().flat_map(|into| &into.targets).map(|target| target.variable);
        if targets.chain([found]).any(|variable| read.contains(&variable)) {
            return None;
        }
        let Route::By(own) = router.statement(statement) else { return None };
        homes.note(own, variable)?;
        if let Statement::Insert(insert) = &**statement {
            for (_, _, parent) in router.parents(insert) {
                homes.note(parent, variable)?;
            }
        }
    }
    Some(homes)
}

impl Homes {
    /// `variable`: the loop variable.
    fn note(&mut self, keys: Vec<Expr>, variable: VariableId) -> Option<()> {
        if let [key] = keys.as_slice()
            && let ExprKind::Subscript { array, index } = &without_integer_cast(key).kind
            && let (ExprKind::Variable(array), ExprKind::Variable(index)) = (&array.kind, &index.kind)
            && *index == variable
        {
            self.elements.insert(*array);
            return Some(());
        }
        let mut varies = false;
        for key in &keys {
            walk::each_expr(key, &mut |expr| {
                varies |= matches!(expr.kind, ExprKind::Variable(of) if of == variable)
            });
        }
        if !varies && !self.fixed.iter().any(|have| same(have, &keys)) {
            self.fixed.push(keys);
        }
        (!varies).then_some(())
    }
}
