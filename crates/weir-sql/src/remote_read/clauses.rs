//! The clauses of an UPDATE or a DELETE, in its tree.

use pg_query::protobuf::{Node, RangeVar, WithClause, node};

#[derive(Clone, Copy, Debug)]
pub(super) struct Clauses<'s> {
    pub with: &'s Option<WithClause>,
    pub target: &'s RangeVar,
    /// The others that it lists: FROM or USING.
    pub others: &'s [Node],
    /// The condition of WHERE.
    pub filter: &'s Option<Box<Node>>,
    /// RETURNING has all columns of all that is listed.
    pub gives_all: bool,
}

impl<'s> Clauses<'s> {
    /// `None`: it is neither, or leaves out tables that inherit.
    pub fn of(statement: &'s node::Node) -> Option<Clauses<'s>> {
        let (with, target, others, filter, returning) = match statement {
            node::Node::UpdateStmt(update) => (
                &update.with_clause,
                update.relation.as_ref()?,
                &update.from_clause,
                &update.where_clause,
                &update.returning_clause,
            ),
            node::Node::DeleteStmt(delete) => (
                &delete.with_clause,
                delete.relation.as_ref()?,
                &delete.using_clause,
                &delete.where_clause,
                &delete.returning_clause,
            ),
            _ => return None,
        };
        let gives_all = returning.as_ref().is_some_and(|returning| returning.exprs.iter().any(is_star));
        target.inh.then_some(Clauses { with, target, others, filter, gives_all })
    }

    /// The name that qualifies the target's columns.
    pub fn called(&self) -> &'s str {
        self.target.alias.as_ref().map_or(&self.target.relname, |alias| &alias.aliasname)
    }
}

/// `*` by itself.
fn is_star(output: &Node) -> bool {
    let Some(node::Node::ResTarget(output)) = &output.node else { return false };
    let value = output.val.as_ref().and_then(|value| value.node.as_ref());
    matches!(value, Some(node::Node::ColumnRef(column))
        if matches!(&column.fields[..], [one] if matches!(one.node, Some(node::Node::AStar(_)))))
}

/// Its lists and its condition, to be changed: what it lists, and WHERE.
pub(super) fn clauses_mut(statement: &mut node::Node) -> Option<(&mut Vec<Node>, &mut Option<Box<Node>>)> {
    match statement {
        node::Node::UpdateStmt(update) => Some((&mut update.from_clause, &mut update.where_clause)),
        node::Node::DeleteStmt(delete) => Some((&mut delete.using_clause, &mut delete.where_clause)),
        _ => None,
    }
}
