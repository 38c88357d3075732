//! CREATE TRIGGER: kept until its function is bound for its table.

use pg_query::protobuf::CreateTrigStmt;

use super::partition::partition_alone;
use super::types::object_path;
use super::{PendingTrigger, Schema, relation_name};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn create_trigger(
        &mut self,
        piece: Piece<'_>,
        create: CreateTrigStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &create.relation else { return Ok(()) };
        let place = piece.token(range.location);
        self.only_analysed(Diagnostic::unsupported(
            span,
            "CREATE TRIGGER",
            "do it in the procedures that write the table",
        ))?;
        if create.isconstraint && create.deferrable {
            self.only_analysed(Diagnostic::unsupported(
                span,
                "a DEFERRABLE trigger",
                "it is taken to run at its statement",
            ))?;
        }
        // A view's trigger says what writing to the view means: what its function mentions.
        if self.is_view(range) || self.unbound_views.contains_key(&relation_name(range)) {
            self.view_triggers.push((relation_name(range), object_path(&create.funcname)));
            return Err(Diagnostic::unsupported(
                place,
                format!("a trigger on the view {}", relation_name(range)),
                "write to the tables below it",
            ));
        }
        if self.catalog.partitions.contains_key(&relation_name(range)) {
            return Err(partition_alone(&relation_name(range), place));
        }
        let table = self.catalog.tables[self.table_index(piece, range)?].id;
        let same = |other: &PendingTrigger| other.table == table && other.create.trigname == create.trigname;
        if create.replace {
            self.triggers.retain(|other| !same(other));
        }
        self.triggers.push(PendingTrigger { create, table, file: piece.file, span });
        Ok(())
    }
}
