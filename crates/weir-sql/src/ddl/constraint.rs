//! PRIMARY KEY, UNIQUE and CHECK, and the names that PostgreSQL gives to constraints.

use std::collections::BTreeSet;

use pg_query::protobuf::{ConstrType, Constraint, Node, node};
use weir_types::{SqlState, SqlType, Value};

use super::names::{beside, own_name};
use super::parameters::{self, Of};
use super::storage::check_tablespace;
use super::table::kind;
use super::{Schema, index_names, relation_taken};
use crate::binder::{Binder, expr_strings};
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Check, ColumnIndex, Deferral, Table, UniqueKey};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::{mentions, walk};

/// A constraint of a table, or one written at a column.
#[derive(Clone, Copy)]
pub(super) struct TableConstraint<'d> {
    pub constraint: &'d Constraint,
    pub column: Option<ColumnIndex>,
    pub deferral: Deferral,
}

impl<'d> TableConstraint<'d> {
    /// `column`: where it is written at one; what may be deferred of it follows it there.
    pub fn of(constraint: &'d Constraint, column: Option<ColumnIndex>) -> TableConstraint<'d> {
        let deferral = match (constraint.deferrable, constraint.initdeferred) {
            (_, true) => Deferral::Deferred,
            (true, false) => Deferral::Immediate,
            (false, false) => Deferral::Never,
        };
        TableConstraint { constraint, column, deferral }
    }

    /// Takes what follows it at its column, if that says when it is looked at.
    pub fn takes(&mut self, attribute: &Constraint) -> bool {
        self.deferral = match (kind(attribute), self.deferral) {
            (ConstrType::ConstrAttrDeferred, _) => Deferral::Deferred,
            (ConstrType::ConstrAttrDeferrable, Deferral::Never) => Deferral::Immediate,
            (
                ConstrType::ConstrAttrDeferrable
                | ConstrType::ConstrAttrImmediate
                | ConstrType::ConstrAttrNotDeferrable,
                said,
            ) => said,
            _ => return false,
        };
        true
    }
}

impl Schema {
    pub(super) fn add_constraint(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        added: TableConstraint<'_>,
    ) -> Result<(), Diagnostic> {
        let constraint = added.constraint;
        let span = constraint_span(piece, constraint);
        // A constraint that is checked at the end of the transaction holds for the analysis all the same.
        if let Err(refusal) = refuse_attributes(added, span) {
            self.only_analysed(refusal)?;
        }
        let taken = table.constraint_names().any(|name| name == constraint.conname);
        if !constraint.conname.is_empty() && taken {
            return Err(Diagnostic::new(
                SqlState::DUPLICATE_OBJECT,
                span,
                format!(
                    "constraint \"{}\" for relation \"{}\" already exists",
                    constraint.conname, table.name
                ),
            ));
        }
        match kind(constraint) {
            ConstrType::ConstrPrimary | ConstrType::ConstrUnique => self.add_key(piece, table, added),
            ConstrType::ConstrCheck => self.add_check(piece, table, added),
            ConstrType::ConstrForeign => self.add_foreign_key(piece, table, added),
            ConstrType::ConstrNotnull => self.add_not_null(table, constraint, span),
            ConstrType::ConstrExclusion => self.add_exclusion(piece, table, added),
            // Attributes follow the constraint that they belong to.
            ConstrType::ConstrAttrNotDeferrable
            | ConstrType::ConstrAttrImmediate
            | ConstrType::ConstrAttrEnforced => Ok(()),
            ConstrType::ConstrAttrDeferrable | ConstrType::ConstrAttrDeferred => {
                self.only_analysed(deferrable(span))
            }
            _ => Err(Diagnostic::unsupported(
                span,
                "this constraint",
                "PRIMARY KEY, UNIQUE, CHECK, FOREIGN KEY and NOT NULL are",
            )),
        }
    }

    fn add_not_null(
        &mut self,
        table: &mut Table,
        constraint: &Constraint,
        span: Span,
    ) -> Result<(), Diagnostic> {
        for name in expr_strings(&constraint.keys) {
            let column = key_column(table, name, span)?;
            table.columns[column].forbid_null(span);
        }
        Ok(())
    }

    fn add_key(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        TableConstraint { constraint, column, .. }: TableConstraint<'_>,
    ) -> Result<(), Diagnostic> {
        let span = constraint_span(piece, constraint);
        if !constraint.indexname.is_empty() {
            return self.key_of_index(table, constraint, span);
        }
        let columns = match column {
            Some(column) => vec![column],
            None => key_columns(table, &constraint.keys, span)?,
        };
        let primary = kind(constraint) == ConstrType::ConstrPrimary;
        if primary && table.primary_key.is_some() {
            return Err(Diagnostic::new(
                SqlState::INVALID_TABLE_DEFINITION,
                span,
                format!("multiple primary keys for table \"{}\" are not allowed", table.name),
            ));
        }
        for &column in &columns {
            comparable(table, column, span)?;
        }
        if self.notes.is_none() {
            check_tablespace(&constraint.indexspace, span)?;
            parameters::check(&constraint.options, Of::Index, true, span)?;
        }
        let name = match constraint.conname.as_str() {
            "" if primary => self.free_name(&object_name(&table.name, "", "pkey"), table),
            "" => self.free_name(&object_name(&table.name, &column_names(table, &columns), "key"), table),
            name if self.relation_exists(&beside(&table.name, name)) => {
                return Err(relation_taken(name, span));
            }
            name => name.to_owned(),
        };
        let nulls_not_distinct = constraint.nulls_not_distinct;
        adopt_key(table, UniqueKey { name, columns, nulls_not_distinct, span }, primary);
        Ok(())
    }

    /// `PRIMARY KEY USING INDEX name`: the index becomes the key.
    fn key_of_index(&self, table: &mut Table, constraint: &Constraint, span: Span) -> Result<(), Diagnostic> {
        let wrong = |what: &str| {
            let message = format!("index \"{}\" {what}", constraint.indexname);
            Diagnostic::new(SqlState::UNDEFINED_OBJECT, span, message)
        };
        let at = table.indexes.iter().position(|index| index.name == constraint.indexname);
        let at = at.ok_or_else(|| wrong("does not exist"))?;
        let index = &table.indexes[at];
        let is_plain = index.unique && index.predicate.is_none() && index.written.is_none();
        let columns = index.plain_columns().filter(|_| is_plain);
        let columns = columns.ok_or_else(|| wrong("is not a unique index over plain columns"))?;
        let name = match constraint.conname.as_str() {
            "" => index.name.clone(),
            name => name.to_owned(),
        };
        let key = UniqueKey { name, columns, nulls_not_distinct: index.nulls_not_distinct, span };
        table.indexes.remove(at);
        adopt_key(table, key, kind(constraint) == ConstrType::ConstrPrimary);
        Ok(())
    }

    fn add_check(
        &mut self,
        piece: Piece<'_>,
        table: &mut Table,
        TableConstraint { constraint, .. }: TableConstraint<'_>,
    ) -> Result<(), Diagnostic> {
        let span = constraint_span(piece, constraint);
        let Some(node) = &constraint.raw_expr else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "CHECK of nothing"));
        };
        let expr = self.bind_over_table(piece, table, node, "CHECK", span)?;
        let mut columns = BTreeSet::new();
        walk::columns(&expr, &mut |_, column| {
            columns.insert(column);
        });
        let name = match constraint.conname.as_str() {
            "" => {
                // Named after its column if it has exactly one.
                let column = match columns.len() {
                    1 => columns.iter().map(|&column| table.columns[column].name.clone()).collect(),
                    _ => String::new(),
                };
                free_constraint_name(table, &column, "check")
            }
            name => name.to_owned(),
        };
        self.write_down(piece, span, node);
        // CHECK (true) holds for every row and constrains nothing.
        if !matches!(expr.kind, ExprKind::Literal(Value::Bool(true))) {
            table.checks.push(Check { name, expr, domain: None, span });
        }
        Ok(())
    }

    /// A condition over the columns of one row, without subqueries.
    pub(super) fn bind_over_table<'n>(
        &'n self,
        piece: Piece<'n>,
        table: &Table,
        node: &'n Node,
        clause: &str,
        whole: Span,
    ) -> Result<Expr, Diagnostic> {
        let expr =
            self.over_row(piece, table, whole, SqlType::Bool, |binder| binder.bind_condition(node, clause))?;
        refuse_subquery(&expr, clause)?;
        Ok(expr)
    }

    /// An expression over one row. What a tolerant reading does not understand becomes some value of the
    /// columns that are named in the text of `whole`.
    pub(super) fn over_row<'n>(
        &'n self,
        piece: Piece<'n>,
        table: &Table,
        whole: Span,
        ty: SqlType,
        bind: impl FnOnce(&mut Binder<'n>) -> Result<Expr, Diagnostic>,
    ) -> Result<Expr, Diagnostic> {
        let context = self.context();
        let mut binder = Binder::new(&context, piece);
        binder.enter_table(table);
        match (bind(&mut binder), &self.notes) {
            (Err(error), Some(notes)) if notes.is_gap(&error) => {
                let span = error.span;
                notes.replace(error);
                let named = mentions::names(piece, whole);
                let columns = (0..table.columns.len()).filter(|&i| named.contains(&table.columns[i].name));
                let values = columns.map(|column| table.read(column, span)).collect();
                Ok(Expr { kind: ExprKind::Opaque(values), ty, span })
            }
            (bound, _) => bound,
        }
    }

    /// `name`, `name1`, `name2` …: the first that no relation of the table's schema and no constraint of the table has.
    pub(super) fn free_name(&self, wanted: &str, table: &Table) -> String {
        free(wanted, |name| {
            self.relation_exists(&beside(&table.name, name))
                || table.constraint_names().any(|taken| taken == name)
                || index_names(table).any(|taken| taken == name)
        })
    }
}

fn adopt_key(table: &mut Table, key: UniqueKey, primary: bool) {
    if !primary {
        table.unique_keys.push(key);
        return;
    }
    for &column in &key.columns {
        table.columns[column].forbid_null(key.span);
    }
    table.primary_key = Some(key);
}

pub(super) fn free(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(wanted) {
        return wanted.to_owned();
    }
    let mut number = 1u32;
    loop {
        let candidate = format!("{wanted}{number}");
        if !taken(&candidate) {
            return candidate;
        }
        number += 1;
    }
}

/// `table_columns_label`, without the table's schema, cut to PostgreSQL's 63 bytes where the longer of the first two gives way.
pub(super) fn object_name(table: &str, columns: &str, label: &str) -> String {
    let (mut first, mut second) = (own_name(table).to_owned(), columns.to_owned());
    let overhead = label.len() + 1 + usize::from(!second.is_empty());
    while first.len() + second.len() + overhead > 63 {
        if first.len() > second.len() {
            first.pop()
        } else {
            second.pop()
        };
    }
    match second.as_str() {
        "" => format!("{first}_{label}"),
        second => format!("{first}_{second}_{label}"),
    }
}

pub(super) fn column_names(table: &Table, columns: &[ColumnIndex]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
    names.join("_")
}

pub(super) fn foreign_key_name(table: &Table, columns: &[ColumnIndex]) -> String {
    free_constraint_name(table, &column_names(table, columns), "fkey")
}

/// The name of a constraint that has no index, and so shares its space of names with the table's only.
pub(super) fn free_constraint_name(table: &Table, columns: &str, label: &str) -> String {
    let wanted = object_name(&table.name, columns, label);
    free(&wanted, |name| table.constraint_names().any(|taken| taken == name))
}

pub(super) fn refuse_subquery(expr: &Expr, clause: &str) -> Result<(), Diagnostic> {
    match walk::first_subquery(expr) {
        None => Ok(()),
        Some(span) => Err(Diagnostic::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            span,
            format!("cannot use subquery in {clause} of one row"),
        )
        .with_hint("CREATE ASSERTION name CHECK (…) may look at other rows and tables")),
    }
}

pub(super) fn key_column(table: &Table, name: &str, span: Span) -> Result<ColumnIndex, Diagnostic> {
    table.column_by_name(name).ok_or_else(|| {
        Diagnostic::new(
            SqlState::UNDEFINED_COLUMN,
            span,
            format!("column \"{name}\" named in key does not exist"),
        )
    })
}

pub(super) fn key_columns(table: &Table, keys: &[Node], span: Span) -> Result<Vec<ColumnIndex>, Diagnostic> {
    let mut columns = Vec::new();
    for name in expr_strings(keys) {
        let column = key_column(table, name, span)?;
        if columns.contains(&column) {
            return Err(Diagnostic::new(
                SqlState::DUPLICATE_COLUMN,
                span,
                format!("column \"{name}\" appears twice in key"),
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Keys need an order.
pub(super) fn comparable(table: &Table, column: ColumnIndex, span: Span) -> Result<(), Diagnostic> {
    use weir_types::operator::{BinaryOp, resolve_binary};
    let column = &table.columns[column];
    resolve_binary(BinaryOp::Less, &column.ty, &column.ty).map(|_| ()).map_err(|_| {
        Diagnostic::new(
            SqlState::UNDEFINED_OBJECT,
            span,
            format!("data type {} of column \"{}\" has no order and cannot be a key", column.ty, column.name),
        )
    })
}

/// From its first word to the end of its brackets, if it has any.
pub(super) fn constraint_span(piece: Piece<'_>, constraint: &Constraint) -> Span {
    let word = piece.token(constraint.location);
    let Ok(start) = usize::try_from(constraint.location) else { return word };
    let mut end = word.end;
    for token in crate::lexer::Lexer::new(piece.text, start) {
        if token.is(b',') || token.is(b';') || token.is(b')') {
            break;
        }
        if token.is(b'(') {
            return piece.range(start, crate::lexer::closing_end(piece.text, token.start));
        }
        end = piece.offset + token.end as u32;
    }
    Span { end: end.max(word.end), ..word }
}

fn deferrable(span: Span) -> Diagnostic {
    Diagnostic::unsupported(
        span,
        "a DEFERRABLE constraint that is no FOREIGN KEY",
        "only foreign keys wait for the end of their transaction: leave DEFERRABLE away",
    )
}

fn refuse_attributes(
    TableConstraint { constraint, deferral, .. }: TableConstraint<'_>,
    span: Span,
) -> Result<(), Diagnostic> {
    if deferral != Deferral::Never && kind(constraint) != ConstrType::ConstrForeign {
        return Err(deferrable(span));
    }
    let enforceable = matches!(kind(constraint), ConstrType::ConstrCheck | ConstrType::ConstrForeign);
    if enforceable && (!constraint.is_enforced || constraint.skip_validation) {
        return Err(Diagnostic::unsupported(
            span,
            "NOT VALID or NOT ENFORCED",
            "a constraint holds for all rows: leave it away",
        ));
    }
    if constraint.without_overlaps || constraint.fk_with_period {
        return Err(Diagnostic::unsupported(span, "WITHOUT OVERLAPS and PERIOD", "use CREATE ASSERTION"));
    }
    Ok(())
}

pub(super) fn as_constraint(node: &Node) -> Option<&Constraint> {
    match &node.node {
        Some(node::Node::Constraint(constraint)) => Some(constraint),
        _ => None,
    }
}
