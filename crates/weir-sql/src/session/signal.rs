//! Queries that tell another process something: pg_cancel_backend and pg_terminate_backend.

use pg_query::protobuf::{FuncCall, Node, SelectStmt, node};

use super::{Command, InnerStatement, constant};

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
pub(super) fn signals(select: &SelectStmt) -> Option<Command> {
    let mut signals = Vec::new();
    for (column, item) in select.target_list.iter().enumerate() {
        let Some(node::Node::ResTarget(target)) = &item.node else { return None };
        match target.val.as_ref()?.node.as_ref()? {
            node::Node::FuncCall(call) => {
                let Some(kind) = kind_of(call) else { continue };
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
    if signals.is_empty() {
        return None;
    }
    let mut query = select.clone();
    for signal in &signals {
        argument_instead(query.target_list.get_mut(signal.column)?)?;
    }
    Some(Command::Signal { signals, query: InnerStatement::query(query) })
}

fn kind_of(call: &FuncCall) -> Option<SignalKind> {
    let name = call.funcname.last().and_then(constant)?;
    let mut kinds = [SignalKind::Cancel, SignalKind::Terminate].into_iter();
    kinds.find(|kind| name == kind.name() && call.args.len() == 1)
}

/// An item of the select list becomes the argument of its call.
fn argument_instead(item: &mut Node) -> Option<()> {
    let Some(node::Node::ResTarget(target)) = &mut item.node else { return None };
    let node::Node::FuncCall(call) = target.val.take()?.node? else { return None };
    target.val = Some(Box::new(call.args.into_iter().next()?));
    Some(())
}
