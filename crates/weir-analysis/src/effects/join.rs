//! Where paths are joined: bodies (triggers, called procedures, actions of foreign keys) that too many paths lead to.
//!
//! Each path into a body is interpreted by itself, with the values that lead there, up to a bound. Beyond it all further
//! paths are joined: the body is interpreted once more, with nothing known of its rows and arguments, as something that
//! may happen any number of times and in any context. What it sets off in turn is joined too, so each body is
//! interpreted a bounded number of times, and effects take time in proportion to the text and not to its paths.
//! A body that sets itself off is joined as well: its later turns are not missing from the effects.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Span;
use weir_sql::bound::{Expr, ExprKind, Procedure, Step, StepKind, VariableId};
use weir_sql::catalog::Trigger;
use weir_sql::walk::each_step;

use super::interpret::{CallFrame, Interpreter, Slot, assigned_in};
use super::{Action, Frame};

/// Paths into one body that are interpreted one by one.
const ENTRIES_OF_BODY_MAX: u32 = 4;

/// Limit on the paths into all bodies of a procedure together.
const ENTRIES_MAX: u32 = 400;

/// Bodies nested deeper than this are joined.
const DEPTH_MAX: usize = 12;

/// A body that several paths may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Body {
    /// Index into the application's procedures.
    Procedure(usize),
    /// Index into the catalog's triggers.
    Trigger(usize),
    /// ON DELETE, or ON UPDATE.
    Action { action: Action, deletes: bool },
}

/// Numbers of entries of bodies, and the bodies whose further paths are joined.
#[derive(Default)]
pub(super) struct Joins {
    entries: BTreeMap<Body, u32>,
    entries_in_all: u32,
    /// Bodies that are, or have been, interpreted once for all further paths.
    joined: BTreeSet<Body>,
    /// Joined bodies that remain to be interpreted, each with the statement that leads to it.
    pending: Vec<(Body, Span)>,
    /// Only joined bodies are left to interpret.
    is_joining: bool,
}

impl<'a> Interpreter<'a> {
    /// Is this path into the body interpreted by itself? If not it is joined with others.
    pub(super) fn enters(&mut self, body: Body, span: Span) -> bool {
        let depth = self.depth();
        let joins = &mut self.joins;
        let entries = joins.entries.entry(body).or_default();
        let by_itself = !joins.is_joining
            && *entries < ENTRIES_OF_BODY_MAX
            && joins.entries_in_all < ENTRIES_MAX
            && depth < DEPTH_MAX;
        if by_itself {
            *entries += 1;
            joins.entries_in_all += 1;
        } else {
            self.join(body, span);
        }
        by_itself
    }

    /// One more path leads to the body, of whose values nothing is known.
    pub(super) fn join(&mut self, body: Body, span: Span) {
        if self.joins.joined.insert(body) {
            self.joins.pending.push((body, span));
        }
    }

    /// Joins a body that is being interpreted: proofs that follow each path do not apply to it.
    pub(super) fn join_again(&mut self, body: Body, what: String, span: Span) {
        if !self.effects.unknown.iter().any(|(known, _)| *known == what) {
            self.effects.unknown.push((what, span));
        }
        self.join(body, span);
    }

    /// Interprets what was joined, and what that sets off. Called once, behind the procedure's own body.
    pub(super) fn run_joined(&mut self) {
        self.joins.is_joining = true;
        while let Some((body, span)) = self.joins.pending.pop() {
            // It may happen any number of times: nothing that a single path adds up is certain.
            self.effects.irregular = true;
            let site = self.terms().site();
            self.context = vec![Frame::Loop { site, count: None }];
            match body {
                Body::Procedure(index) => {
                    let app = self.app;
                    self.run_unknown(&app.procedures[index]);
                }
                Body::Trigger(index) => {
                    let app = self.app;
                    self.run_unknown(&app.catalog.triggers[index].body);
                }
                Body::Action { action, deletes } => self.act_unknown(action, deletes, span),
            }
            self.context.clear();
        }
    }

    /// A body of whose variables nothing is known.
    fn run_unknown(&mut self, definition: &'a Procedure) {
        let caller = self.enter(definition);
        let unknown = (0..definition.variables.len()).map(|_| self.unknown_slot()).collect();
        self.set_frame(CallFrame::new(unknown, self.effects.writes.len()));
        self.body_of_trigger(definition);
        self.exit(caller);
    }

    /// A BEFORE trigger whose paths are joined leaves a column of NEW unknown where it assigns to it, or returns another row.
    pub(super) fn forget_new(&mut self, trigger: &Trigger, new: &mut [Slot]) {
        let mut assigned = BTreeSet::new();
        assigned_in(&trigger.body.body, &mut assigned);
        for (column, (variable, value)) in trigger.new.iter().zip(new).enumerate() {
            if assigned.contains(variable) || returns_another(&trigger.body.body, column, *variable) {
                *value = self.unknown_slot();
            }
        }
    }
}

/// Some RETURN gives something else for the column than the variable.
fn returns_another(steps: &[Step], column: usize, variable: VariableId) -> bool {
    let mut another = false;
    each_step(steps, &mut |step| {
        if let StepKind::Return { value: Some(Expr { kind: ExprKind::Row(fields), .. }) } = &step.kind {
            let same = |field: &Expr| matches!(field.kind, ExprKind::Variable(of) if of == variable);
            another |= !fields.get(column).is_some_and(same);
        }
    });
    another
}
