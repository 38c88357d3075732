//! A statement that stands within another one: what is prepared, declared, copied or explained.
//!
//! The grammar reads it with the whole, and it is taken out of that tree. Its places are those of the whole text.

use pg_query::protobuf::{Node, SelectStmt, node};

use crate::parse::deparse::query_template;
use crate::source::Diagnostic;
use crate::statement::ParsedText;

/// A query, INSERT, UPDATE, DELETE or MERGE as the grammar has read it within a client's text.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerStatement(Box<node::Node>);

impl InnerStatement {
    pub(super) fn of(node: node::Node) -> InnerStatement {
        InnerStatement(Box::new(node))
    }

    /// None: the grammar has read no statement there.
    pub(super) fn within(node: Option<Box<Node>>) -> Option<InnerStatement> {
        node.and_then(|node| node.node).map(InnerStatement::of)
    }

    pub(crate) fn query(select: SelectStmt) -> InnerStatement {
        InnerStatement::of(node::Node::SelectStmt(Box::new(select)))
    }

    /// The query of one row of these expressions.
    ///
    /// # Errors
    /// The template is wrong.
    pub(super) fn row_of(expressions: Vec<Node>) -> Result<InnerStatement, Diagnostic> {
        let mut query = query_template("SELECT")?;
        query.target_list = expressions.into_iter().map(target).collect();
        Ok(InnerStatement::query(*query))
    }

    /// With the client's text, which it was read from.
    pub fn in_text<'t>(&'t self, text: &'t str) -> ParsedText<'t> {
        ParsedText::within(text, &self.0)
    }
}

/// An item of a select list without a name of its own.
fn target(value: Node) -> Node {
    let target = pg_query::protobuf::ResTarget { val: Some(Box::new(value)), ..Default::default() };
    Node { node: Some(node::Node::ResTarget(Box::new(target))) }
}
