//! FOR UPDATE and weaker: whose rows a query holds.

use pg_query::protobuf::{LockClauseStrength, LockWaitPolicy, LockingClause, SelectStmt, node};
use weir_types::SqlState;

use super::Binder;
use crate::bound::{Distinct, FromItem, JoinKind, LockStrength, LockWait, QueryBody, RowLock};
use crate::source::{Diagnostic, Span};
use crate::walk;

impl Binder<'_> {
    /// Row locks of the query itself. A derived table in FROM locks its own rows.
    pub(super) fn bind_locks(
        &self,
        select: &SelectStmt,
        body: &mut QueryBody,
    ) -> Result<Vec<RowLock>, Diagnostic> {
        let mut locks = Vec::new();
        for clause in &select.locking_clause {
            let Some(node::Node::LockingClause(clause)) = &clause.node else { continue };
            let Some(strength) = strength(clause) else { continue };
            let wait = match LockWaitPolicy::try_from(clause.wait_policy) {
                Ok(LockWaitPolicy::LockWaitSkip) => LockWait::Skip,
                Ok(LockWaitPolicy::LockWaitError) => LockWait::Fail,
                _ => LockWait::Block,
            };
            let place = body_span(body).unwrap_or_else(|| self.piece.span());
            let mut lock = Lock { binder: self, strength, wait, place, locks: &mut locks };
            if clause.locked_rels.is_empty() {
                lock.all(body)?;
                continue;
            }
            for relation in &clause.locked_rels {
                let Some(node::Node::RangeVar(range)) = &relation.node else { continue };
                lock.place = self.piece.token(range.location);
                lock.named(body, &range.relname)?;
            }
        }
        Ok(locks)
    }
}

/// One clause.
struct Lock<'a, 'l> {
    binder: &'a Binder<'a>,
    strength: LockStrength,
    wait: LockWait,
    place: Span,
    locks: &'l mut Vec<RowLock>,
}

impl Lock<'_, '_> {
    fn refuse(&self, what: impl std::fmt::Display) -> Diagnostic {
        let message = format!("{} {what}", self.strength.name());
        self.binder.error(SqlState::FEATURE_NOT_SUPPORTED, self.place, message)
    }

    /// FROM items of a query whose result rows correspond to table rows.
    fn items<'b>(&self, body: &'b mut QueryBody) -> Result<&'b mut Vec<FromItem>, Diagnostic> {
        let select = match body {
            QueryBody::Select(select) => select,
            QueryBody::Values(_) => return Err(self.refuse("cannot be applied to VALUES")),
            QueryBody::SetOperation { .. } => {
                return Err(self.refuse("is not allowed with UNION/INTERSECT/EXCEPT"));
            }
        };
        let clause = match () {
            () if !matches!(select.distinct, Distinct::All) => "DISTINCT clause",
            () if !select.group_by.is_empty() => "GROUP BY clause",
            () if select.having.is_some() => "HAVING clause",
            () if select.aggregates => "aggregate functions",
            () if select.outputs.iter().any(walk::has_window) => "window functions",
            () => return Ok(&mut select.from),
        };
        Err(self.refuse(format!("is not allowed with {clause}")))
    }

    fn all(&mut self, body: &mut QueryBody) -> Result<(), Diagnostic> {
        self.items(body)?.iter_mut().try_for_each(|item| self.item(item, None, false).map(drop))
    }

    fn named(&mut self, body: &mut QueryBody, name: &str) -> Result<(), Diagnostic> {
        for item in self.items(body)? {
            if self.item(item, Some(name), false)? {
                return Ok(());
            }
        }
        let message =
            format!("relation \"{name}\" in {} clause not found in FROM clause", self.strength.name());
        Err(self.binder.error(SqlState::UNDEFINED_TABLE, self.place, message))
    }

    /// Those of the item, or of the one within it that has this name; whether there is one. `is_nullable`: an outer join gives rows
    /// that it has none in.
    fn item(
        &mut self,
        item: &mut FromItem,
        name: Option<&str>,
        is_nullable: bool,
    ) -> Result<bool, Diagnostic> {
        match item {
            FromItem::Table { relation, table, alias, .. } => {
                if name.is_some_and(|name| name != alias) {
                    return Ok(false);
                }
                if is_nullable {
                    return Err(self.refuse("cannot be applied to the nullable side of an outer join"));
                }
                match self.locks.iter_mut().find(|lock| lock.relation == *relation) {
                    Some(lock) => {
                        lock.wait = lock.wait.max(self.wait);
                        lock.strength = lock.strength.max(self.strength);
                    }
                    None => {
                        let (relation, table) = (*relation, *table);
                        self.locks.push(RowLock {
                            relation,
                            table,
                            strength: self.strength,
                            wait: self.wait,
                        });
                    }
                }
                Ok(true)
            }
            FromItem::Join { kind, left, right, .. } => {
                let left_is_nullable = is_nullable || matches!(kind, JoinKind::Right | JoinKind::Full);
                let right_is_nullable = is_nullable || matches!(kind, JoinKind::Left | JoinKind::Full);
                let found = self.item(left, name, left_is_nullable)?;
                if found && name.is_some() {
                    return Ok(true);
                }
                Ok(self.item(right, name, right_is_nullable)? || found)
            }
            // Without a name here: a lock on its rows must be written inside it.
            FromItem::Subquery { .. } if name.is_some() => Ok(false),
            FromItem::Subquery { query, .. } => {
                if is_nullable {
                    return Err(self.refuse("cannot be applied to the nullable side of an outer join"));
                }
                let (strength, wait, place) = (self.strength, self.wait, self.place);
                let mut inner = Lock { binder: self.binder, strength, wait, place, locks: &mut query.locks };
                inner.all(&mut query.body)?;
                Ok(true)
            }
            // As in PostgreSQL, what is no table is passed over.
            FromItem::Cte { .. } | FromItem::Function { .. } | FromItem::Values { .. } => Ok(false),
        }
    }
}

fn strength(clause: &LockingClause) -> Option<LockStrength> {
    match LockClauseStrength::try_from(clause.strength) {
        Ok(LockClauseStrength::LcsForupdate) => Some(LockStrength::Update),
        Ok(LockClauseStrength::LcsFornokeyupdate) => Some(LockStrength::NoKeyUpdate),
        Ok(LockClauseStrength::LcsForshare) => Some(LockStrength::Share),
        Ok(LockClauseStrength::LcsForkeyshare) => Some(LockStrength::KeyShare),
        _ => None,
    }
}

/// Where its outputs begin.
fn body_span(body: &QueryBody) -> Option<Span> {
    match body {
        QueryBody::Select(select) => select.outputs.first().map(|output| output.span),
        QueryBody::Values(rows) => rows.first().and_then(|row| row.first()).map(|value| value.span),
        QueryBody::SetOperation { left, .. } => Some(left.span),
    }
}
