//! Which shards a procedure's calls need, and in which order they can be asked.
//!
//! Statements with the same partition key form a group, which runs on one shard. A group that uses data read by another group must come
//! after it, so it decides. Two groups that need each other cannot run with one prepare and one commit.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{Expr, ExprKind, Insert, Procedure, Statement, Step, StepKind, VariableId};
use weir_sql::{Application, Span};

use super::program::{Guarded, Participants};
use super::routing::{Origins, Route, Router, Source};
use super::walk;

type Groups = BTreeSet<usize>;
type Key = Vec<Vec<Source>>;

/// Pseudo-group of results that all shards compute together.
const ALL: usize = usize::MAX;

pub struct Participation<'a> {
    router: &'a Router<'a>,
    application: &'a Application,
    origins: Origins,
    keys: Vec<Key>,
    /// By variable: groups whose data it may contain.
    taint: BTreeMap<VariableId, Groups>,
    /// By group: groups whose data its statements use.
    needs: Vec<Groups>,
    guarded: &'a Guarded,
    /// By group: the greatest [`Guarded::weight`] of its statements.
    weights: Vec<u8>,
    /// Weight of the statement that is being looked at.
    weight: u8,
    everywhere: bool,
    unsupported: Option<String>,
    found: VariableId,
}

impl<'a> Participation<'a> {
    pub fn of(
        router: &'a Router<'a>,
        application: &'a Application,
        guarded: &'a Guarded,
        procedure: &Procedure,
    ) -> Participants {
        let mut flow = Participation {
            router,
            application,
            origins: Origins::of(procedure),
            keys: Vec::new(),
            taint: BTreeMap::new(),
            needs: Vec::new(),
            guarded,
            weights: Vec::new(),
            weight: 0,
            everywhere: false,
            unsupported: None,
            found: procedure.found,
        };
        // Loops feed later rounds, so iterate to a fixed point.
        loop {
            let before = (flow.taint.clone(), flow.needs.clone());
            flow.steps(&procedure.body, &Groups::new());
            if (&flow.taint, &flow.needs) == (&before.0, &before.1) {
                break;
            }
        }
        flow.finish()
    }

    fn finish(mut self) -> Participants {
        // Rows placed by generated ids live on the deciding shard, whichever that is.
        let own = self.keys.iter().position(is_own);
        let others_ready = |last: usize, needs: &[Groups]| {
            needs.iter().enumerate().all(|(group, needs)| {
                group == last || Some(group) == own || needs.iter().all(|need| *need == group)
            })
        };
        let dependent = |group: &usize| self.needs[*group].iter().any(|need| need != group);
        // A guard of the deciding shard is over in one step: nobody waits for it.
        let mut independent: Vec<usize> = (0..self.keys.len()).filter(|group| !dependent(group)).collect();
        independent.sort_by_key(|group| std::cmp::Reverse(self.weights[*group]));
        let order: Vec<usize> = (0..self.keys.len()).filter(dependent).chain(independent).collect();
        let last = order.into_iter().find(|&group| {
            let decides = Some(group) != own || self.keys.len() == 1;
            decides && others_ready(group, &self.needs)
        });
        match last {
            Some(last) => self.keys.swap(0, last),
            None if self.keys.is_empty() => {}
            None => self.refuse("its parts on different shards need each other's data"),
        }
        let met = Vec::new();
        let is_own_alone = |(group, needs): (usize, &Groups)| needs.iter().all(|need| *need == group);
        let is_independent = self.needs.iter().enumerate().all(is_own_alone);
        Participants {
            is_independent,
            keys: self.keys,
            everywhere: self.everywhere,
            unsupported: self.unsupported,
            met,
        }
    }

    fn refuse(&mut self, why: impl Into<String>) {
        self.unsupported.get_or_insert_with(|| why.into());
    }

    fn reads(&self, expr: &Expr) -> Groups {
        let mut groups = Groups::new();
        walk::each_expr(expr, &mut |expr| self.note_read(expr, &mut groups));
        groups
    }

    fn note_read(&self, expr: &Expr, groups: &mut Groups) {
        if let ExprKind::Variable(variable) = &expr.kind {
            groups.extend(self.taint.get(variable).into_iter().flatten());
        }
    }

    fn taint(&mut self, variable: VariableId, groups: &Groups) {
        self.taint.entry(variable).or_default().extend(groups);
    }

    /// Groups that an expression reads: a query in it runs wherever the step runs, which only one shard allows.
    fn expr(&mut self, expr: &Expr) -> Groups {
        match self.router.expr(expr) {
            Route::Anywhere => {}
            route => {
                self.group(&route);
                self.refuse("an expression holds a query; give it a statement of its own (SELECT … INTO)");
            }
        }
        if walk::is_volatile(expr) {
            self.refuse("a generated value outside of a statement would differ from shard to shard");
        }
        self.reads(expr)
    }

    /// Group of a route; `None` if the arguments do not determine its key.
    fn group(&mut self, route: &Route) -> Option<usize> {
        let sources: Option<Key> = match route {
            Route::By(keys) => keys.iter().map(|key| self.origins.expr(key)).collect(),
            Route::Own => Some(vec![vec![Source::Own]]),
            Route::Anywhere => return None,
            Route::Everywhere => {
                self.everywhere = true;
                return None;
            }
        };
        let is_known = |key: &Key| is_own(key) || !key.iter().flatten().any(|source| *source == Source::Own);
        let Some(sources) = sources.filter(is_known) else {
            self.everywhere = true;
            self.refuse(
                "a partition key is computed from data, so its shards are not known from the arguments",
            );
            return None;
        };
        let group = self.keys.iter().position(|key| *key == sources).unwrap_or_else(|| {
            self.keys.push(sources);
            self.needs.push(Groups::new());
            self.weights.push(0);
            self.keys.len() - 1
        });
        self.weights[group] = self.weights[group].max(self.weight);
        Some(group)
    }

    fn steps(&mut self, steps: &[Step], control: &Groups) {
        let mut control = control.clone();
        for step in steps {
            self.step(step, &mut control);
        }
    }

    fn step(&mut self, step: &Step, control: &mut Groups) {
        self.weight = match &step.kind {
            StepKind::Sql { statement, .. } => weight_of(self.guarded, statement, step.span),
            _ => 0,
        };
        match &step.kind {
            StepKind::Assign { variable, value } => {
                let groups = &self.expr(value) | control;
                self.taint(*variable, &groups);
            }
            StepKind::AssignElement { variable, index, value } => {
                let groups = &(&self.expr(index) | &self.expr(value)) | control;
                self.taint(*variable, &groups);
            }
            StepKind::Sql { statement, into } => {
                let targets: Vec<VariableId> =
                    into.iter().flat_map(|into| &into.targets).map(|target| target.variable).collect();
                self.statement(statement, &targets, control);
            }
            StepKind::If { branches, otherwise } => {
                let mut inner = control.clone();
                for (condition, body) in branches {
                    inner.extend(self.expr(condition));
                    self.steps(body, &inner);
                }
                self.steps(otherwise, &inner);
                if branches.iter().any(|(_, body)| leaves(body)) || leaves(otherwise) {
                    control.extend(inner);
                }
            }
            StepKind::ForRange { variable, from, to, by, body, .. } => {
                let mut inner = control.clone();
                for bound in [from, to].into_iter().chain(by) {
                    inner.extend(self.expr(bound));
                }
                self.taint(*variable, &inner);
                self.steps(body, &inner);
            }
            StepKind::ForEach { variable, array, body, .. } => {
                let inner = &self.expr(array) | control;
                self.taint(*variable, &inner);
                self.steps(body, &inner);
            }
            StepKind::ForQuery { targets, query, body, .. } => {
                let targets: Vec<VariableId> = targets.iter().map(|target| target.variable).collect();
                let statement = Statement::Query((**query).clone());
                let inner = self.statement(&statement, &targets, control);
                self.steps(body, &inner);
            }
            StepKind::While { condition, body, .. } => {
                let inner = &self.expr(condition) | control;
                self.steps(body, &inner);
            }
            StepKind::Loop { body, .. } | StepKind::Block { body, .. } => self.steps(body, control),
            StepKind::Exit { when, .. } | StepKind::Continue { when, .. } => {
                if let Some(when) = when {
                    control.extend(self.expr(when));
                }
            }
            StepKind::GetRowCount { variable } => {
                let groups = &self.taint.get(&self.found).cloned().unwrap_or_default() | control;
                self.taint(*variable, &groups);
            }
            StepKind::ReturnQuery { query } => {
                self.statement(&Statement::Query((**query).clone()), &[], control);
            }
            StepKind::Call { procedure, args, targets } => {
                let callee = &self.application.procedures[*procedure];
                let touches = !callee.body.is_empty();
                for arg in args {
                    self.expr(arg);
                }
                if touches {
                    self.everywhere = true;
                    self.refuse(format!("it calls {}", callee.name));
                }
                for target in targets {
                    self.taint(target.variable, control);
                }
            }
            StepKind::Return { value } => value.iter().for_each(|value| drop(self.expr(value))),
            StepKind::ReturnNext { values } => values.iter().for_each(|value| drop(self.expr(value))),
            StepKind::Opaque(_) => {
                self.everywhere = true;
                self.refuse("a statement that was read to be analysed only");
            }
            StepKind::Raise(raise) => raise.exprs().for_each(|expr| drop(self.expr(expr))),
            StepKind::Assert { condition, message } => {
                [condition].into_iter().chain(message).for_each(|expr| drop(self.expr(expr)));
            }
            StepKind::Null => {}
        }
    }

    /// Groups whose data the statement's result contains.
    fn statement(&mut self, statement: &Statement, targets: &[VariableId], control: &Groups) -> Groups {
        let route = self.router.statement(statement);
        let mut reads = control.clone();
        walk::each_statement_expr(statement, &mut |expr| self.note_read(expr, &mut reads));
        if let Statement::Insert(insert) = statement
            && matches!(route, Route::Everywhere)
            && !self.router.asks_elsewhere(statement)
            && self.spread(insert, &reads)
        {
            self.parents(insert);
            self.counted_everywhere(&reads);
            return reads;
        }
        let group = self.group(&route);
        match (&route, group) {
            (Route::By(_) | Route::Own, Some(group)) => {
                self.needs[group].extend(&reads);
                reads.insert(group);
            }
            (Route::Everywhere, _) if !targets.is_empty() || !changes_or_holds(statement) => {
                self.refuse("a query over the rows of all shards");
            }
            (Route::Everywhere, _)
                if matches!(statement, Statement::Query(_)) && self.router.asks_elsewhere(statement) =>
            {
                self.refuse("FOR UPDATE on all shards of rows of several tables, or with subqueries");
            }
            (Route::Everywhere, _) if self.router.asks_elsewhere(statement) => {
                self.refuse("a write on all shards that asks for other rows than those that it writes");
            }
            (Route::Everywhere, _) if !reads.is_empty() => {
                self.refuse("a write on all shards depends on one shard's data")
            }
            _ => {}
        }
        if let Statement::Insert(insert) = statement {
            self.parents(insert);
        }
        for &target in targets {
            self.taint(target, &reads);
        }
        match route {
            Route::Everywhere if self.is_counted(statement) => self.counted_everywhere(&reads),
            _ => {
                self.taint.insert(self.found, reads.clone());
            }
        }
        reads
    }

    /// Routes an INSERT whose rows live on several shards to these shards, if the arguments determine them; else to all.
    fn spread(&mut self, insert: &Insert, reads: &Groups) -> bool {
        let Some(keys) = self.router.spread(insert) else { return false };
        let is_known = |key: &Vec<Expr>| {
            let sources = key.iter().map(|part| self.origins.expr(part)).collect::<Option<Key>>();
            sources.is_some_and(|key| !key.iter().flatten().any(|source| *source == Source::Own))
        };
        if !keys.iter().all(is_known) {
            return false;
        }
        for key in keys {
            if let Some(group) = self.group(&Route::By(key)) {
                self.needs[group].extend(reads);
            }
        }
        true
    }

    /// Only the last participant knows the row count of a statement on all shards.
    fn counted_everywhere(&mut self, reads: &Groups) {
        let all = reads.iter().copied().chain([ALL]).collect();
        self.taint.insert(self.found, all);
    }

    /// Returns whether a row count is the sum over the shards: true for partitioned tables; every copy has all rows.
    fn is_counted(&self, statement: &Statement) -> bool {
        let table = match statement {
            Statement::Query(_) => return true,
            Statement::Insert(insert) => insert.table,
            Statement::Update(update) => update.table,
            Statement::Delete(delete) => delete.table,
        };
        self.router.is_partitioned(table)
    }

    /// Adds the shards of parents that live elsewhere.
    fn parents(&mut self, insert: &Insert) {
        // Parents of copied rows are asked for when these are written.
        if !self.router.is_partitioned(insert.table) {
            return;
        }
        for (_, _, keys) in self.router.parents(insert) {
            self.group(&Route::By(keys));
        }
    }
}

/// [`Guarded::weight`] of a statement. An INSERT claims keys that are new, for which others seldom ask.
fn weight_of(guarded: &Guarded, statement: &Statement, span: Span) -> u8 {
    match statement {
        Statement::Query(_) => guarded.weight([span, span]),
        Statement::Insert(insert) => guarded.weight([span, insert.span]).min(1),
        Statement::Update(update) => guarded.weight([span, update.span]),
        Statement::Delete(delete) => guarded.weight([span, delete.span]),
    }
}

fn is_own(key: &Key) -> bool {
    *key == [[Source::Own]]
}

/// Returns whether the statement writes rows, or locks the rows that it returns.
fn changes_or_holds(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => !query.locks.is_empty(),
        _ => true,
    }
}

/// Returns whether the steps may leave their enclosing block.
fn leaves(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Exit { .. } | StepKind::Continue { .. } | StepKind::Return { .. } => true,
        StepKind::If { branches, otherwise } => {
            branches.iter().any(|(_, body)| leaves(body)) || leaves(otherwise)
        }
        StepKind::ForRange { body, .. }
        | StepKind::ForQuery { body, .. }
        | StepKind::ForEach { body, .. }
        | StepKind::While { body, .. }
        | StepKind::Loop { body, .. }
        | StepKind::Block { body, .. } => leaves(body),
        _ => false,
    })
}
