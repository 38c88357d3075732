//! Partitioned tables: their partitions are folded into them.
//!
//! Where the rows of a table live is for the plan to decide, so a partition is no table of its own. To run,
//! a table whose partitions may not take every row is refused, and so is a partition that is named alone.

use pg_query::protobuf::{CreateStmt, PartitionCmd, RangeVar, node};

use super::{Schema, relation_name};
use crate::catalog::Table;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    /// Notes `PARTITION BY`, as written.
    pub(super) fn partition_clause(&self, piece: Piece<'_>, create: &CreateStmt, table: &mut Table) {
        let Some(spec) = &create.partspec else { return };
        table.partitioned = Some(piece.text_of(piece.bracketed(spec.location)).to_owned());
    }

    /// `CREATE TABLE … PARTITION OF parent`.
    pub(super) fn create_partition(
        &mut self,
        piece: Piece<'_>,
        create: &CreateStmt,
    ) -> Result<(), Diagnostic> {
        let (Some(range), Some(parent)) = (&create.relation, create.inh_relations.first()) else {
            return Ok(());
        };
        let Some(node::Node::RangeVar(parent)) = &parent.node else { return Ok(()) };
        let parent = self.partition_parent(piece, parent)?;
        let name = relation_name(range);
        let default = create.partbound.as_ref().is_some_and(|bound| bound.is_default);
        self.fold_partition(name, parent, default);
        Ok(())
    }

    /// The table at the root, even if `range` is a partition that is partitioned itself.
    pub(super) fn partition_parent(&self, piece: Piece<'_>, range: &RangeVar) -> Result<String, Diagnostic> {
        let name = relation_name(range);
        match self.catalog.partitions.get(&name) {
            Some(root) => Ok(root.clone()),
            None => self.table_index(piece, range).map(|at| self.catalog.tables[at].name.clone()),
        }
    }

    pub(super) fn fold_partition(&mut self, name: String, parent: String, default: bool) {
        if default {
            self.default_partitions.insert(parent.clone());
        }
        self.catalog.partitions.insert(name, parent);
    }

    /// `ALTER TABLE parent ATTACH PARTITION name`: a table until now, as pg_dump writes it.
    pub(super) fn attach_partition(
        &mut self,
        piece: Piece<'_>,
        parent: &Table,
        command: &PartitionCmd,
    ) -> Result<(), Diagnostic> {
        let Some(range) = &command.name else { return Ok(()) };
        let at = self.table_index(piece, range)?;
        let name = self.catalog.tables[at].name.clone();
        let default = command.bound.as_ref().is_some_and(|bound| bound.is_default);
        // A partition that is partitioned itself has handed its own partitions on.
        for root in self.catalog.partitions.values_mut() {
            if *root == name {
                root.clone_from(&parent.name);
            }
        }
        self.fold_partition(name, parent.name.clone(), default);
        self.remove_table(at);
        Ok(())
    }

    /// Only a hash partition or a default one takes whatever comes.
    pub(crate) fn refuse_partial_partitions(&self) -> Result<(), Diagnostic> {
        let refused = self.catalog.tables.iter().find(|table| {
            table.partitioned.as_ref().is_some_and(|spec| {
                let hash = spec
                    .split_whitespace()
                    .nth(2)
                    .is_some_and(|word| word.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("hash")));
                !hash && !self.default_partitions.contains(&table.name)
            })
        });
        match refused {
            None => Ok(()),
            Some(table) => Err(Diagnostic::unsupported(
                table.span,
                format!("the partitioned table {} without a DEFAULT partition", table.name),
                "its rows are in one table here: add a DEFAULT partition, and a CHECK for rows that must not be",
            )),
        }
    }
}

/// A statement that speaks of one partition only.
pub(crate) fn partition_alone(name: &str, span: Span) -> Diagnostic {
    Diagnostic::unsupported(
        span,
        format!("the partition {name} by itself"),
        "name the partitioned table: its partitions are folded into it",
    )
}
