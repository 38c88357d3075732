//! Queries that tell another process something: pg_cancel_backend and pg_terminate_backend.

use pg_query::protobuf::{SelectStmt, node};

use super::{Command, constant};
use crate::lexer::Lexer;
use crate::parse::Piece;
use crate::source::Span;

/// A column of a query that is the number of a process, which is to be told something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub column: usize,
    pub kind: SignalKind,
    /// The column has the name of the function.
    pub is_unnamed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// Its statement is to end.
    Cancel,
    /// Its connection is to end.
    Terminate,
}

impl SignalKind {
    /// Of the function.
    pub fn name(self) -> &'static str {
        match self {
            SignalKind::Cancel => "pg_cancel_backend",
            SignalKind::Terminate => "pg_terminate_backend",
        }
    }
}

/// None: there is no such call where it can be told apart from the query.
pub(super) fn signals(piece: Piece<'_>, select: &SelectStmt, span: Span) -> Option<Command> {
    let mut query = piece.text_of(span).as_bytes().to_vec();
    let mut signals = Vec::new();
    for (column, target) in select.target_list.iter().enumerate() {
        let Some(node::Node::ResTarget(target)) = &target.node else { return None };
        match target.val.as_ref()?.node.as_ref()? {
            node::Node::FuncCall(call) if call.args.len() == 1 => {
                let name = call.funcname.last().and_then(constant);
                let kind = [SignalKind::Cancel, SignalKind::Terminate]
                    .into_iter()
                    .find(|kind| name.as_deref() == Some(kind.name()));
                let Some(kind) = kind else { continue };
                let start = usize::try_from(call.location).ok()?;
                let open = Lexer::new(piece.text, start).find(|token| token.is(b'('))?.start;
                let within = span.start as usize;
                query.get_mut(start.checked_sub(within)?..open.checked_sub(within)?)?.fill(b' ');
                signals.push(Signal { column, kind, is_unnamed: target.name.is_empty() });
            }
            // The number of its columns is unknown here.
            node::Node::ColumnRef(column)
                if column.fields.iter().any(|field| matches!(field.node, Some(node::Node::AStar(_)))) =>
            {
                return None;
            }
            _ => {}
        }
    }
    let query = String::from_utf8(query).ok()?;
    (!signals.is_empty()).then_some(Command::Signal { signals, query })
}
