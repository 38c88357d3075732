//! OWNER TO. There is only one role, which owns everything: the object must exist, and nothing changes.

use pg_query::protobuf::{AlterOwnerStmt, Node, ObjectType, node};

use super::schema::no_schema;
use super::types::object_path;
use super::{Schema, names};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn alter_owner(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterOwnerStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let object = alter.object.as_deref();
        if self.notes.is_some() || self.is_there(piece, alter.object_type(), object, head)? {
            return Ok(());
        }
        let statement = node::Node::AlterOwnerStmt(Box::new(alter.clone()));
        Err(names::refusal(&statement, head))
    }

    /// Whether an object that is no relation is there, or the error that it is not. `false`: Weir has none of the kind.
    pub(super) fn is_there(
        &self,
        piece: Piece<'_>,
        kind: ObjectType,
        object: Option<&Node>,
        head: Span,
    ) -> Result<bool, Diagnostic> {
        match (kind, object.and_then(|object| object.node.as_ref())) {
            (ObjectType::ObjectSchema, Some(node::Node::String(name))) => match self.has_schema(&name.sval) {
                true => Ok(true),
                false => Err(no_schema(&name.sval, head)),
            },
            (
                ObjectType::ObjectFunction | ObjectType::ObjectProcedure | ObjectType::ObjectRoutine,
                Some(node::Node::ObjectWithArgs(named)),
            ) => self.routine_named(piece, kind, named, head).map(|_| true),
            (ObjectType::ObjectType | ObjectType::ObjectDomain, Some(node::Node::TypeName(name))) => {
                self.type_named(piece, kind, name, head).map(|()| true)
            }
            (ObjectType::ObjectType | ObjectType::ObjectDomain, Some(node::Node::List(list))) => {
                self.user_type_named(kind, &object_path(&list.items), head).map(|()| true)
            }
            _ => Ok(false),
        }
    }
}
