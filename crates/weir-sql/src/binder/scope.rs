//! Which names are in sight: relations, their columns, CTEs, and the variables of a procedure.

use pg_query::protobuf::CommonTableExpr;
use weir_types::{CatalogType, SqlState, SqlType};

use super::Binder;
use super::system_columns::{SYSTEM_COLUMNS, of_users};
use crate::bound::{Expr, ExprKind, FromItem, OutputColumn, RelationId};
use crate::catalog::{Column, Table, TableId};
use crate::source::{Diagnostic, Span};
use crate::system::{class_number, column_types};

/// One query level.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub relations: Vec<ScopeRelation>,
    /// A FROM item that is not LATERAL does not see its neighbours.
    pub hidden: bool,
    /// Where aggregates may stand, and what to say where they may not.
    pub aggregates: Aggregates,
    /// Every relation of this level, hidden behind join aliases or not.
    pub own: Vec<RelationId>,
    /// Where window functions may not stand: what to say.
    pub windows_forbidden: Option<&'static str>,
    /// Set-returning functions of the select list, which become items of FROM; `None` where none may stand.
    pub sets: Option<Vec<FromItem>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Aggregates {
    Allowed,
    /// Not in this clause.
    Forbidden(&'static str),
    /// Inside of an aggregate's arguments.
    Nested,
    /// An expression that belongs to no query.
    #[default]
    NoQuery,
}

#[derive(Clone, Debug)]
pub(super) struct ScopeRelation {
    /// `None` for the merged columns of JOIN … USING without an alias.
    pub name: Option<String>,
    pub columns: Vec<ScopeColumn>,
    /// Its columns may be named without qualification; not so under JOIN … USING.
    pub unqualified: bool,
    /// Columns that an outer USING already shows in `*`.
    pub span: Span,
    /// The table, where it is one: for functional dependency and whole-row messages.
    pub relation: Option<RelationId>,
    /// Of a function that gives one value a row: its name stands for that.
    pub is_scalar: bool,
    /// The number of a table of the system catalog.
    pub class: Option<i64>,
    /// The application's table.
    pub table: Option<TableId>,
}

#[derive(Clone, Debug)]
pub(super) struct ScopeColumn {
    pub name: String,
    pub expr: Expr,
    pub catalog: Option<CatalogType>,
}

/// The CTEs of one level.
#[derive(Clone, Debug)]
pub(super) struct CteFrame<'a> {
    pub names: Vec<CteName<'a>>,
    /// The level of a query, which `FromItem::Cte::level` counts; a DML statement is none.
    pub is_query: bool,
}

#[derive(Clone, Debug)]
pub(super) struct CteName<'a> {
    pub name: String,
    pub kind: CteKind<'a>,
    /// Number of times that FROM has named it so far.
    pub references: usize,
}

#[derive(Clone, Debug)]
pub(super) enum CteKind<'a> {
    /// Bound once, referred to by position.
    Bound { index: usize, columns: Vec<OutputColumn> },
    /// Of INSERT, UPDATE or DELETE: bound again at each reference.
    Inline(&'a CommonTableExpr),
}

impl Scope {
    pub fn of_table(table: &Table, alias: &str, relation: RelationId, span: Span) -> Scope {
        Scope {
            relations: vec![ScopeRelation::of_table(table, alias, relation, span)],
            own: vec![relation],
            windows_forbidden: Some("here"),
            ..Scope::default()
        }
    }
}

impl ScopeRelation {
    pub fn of_table(table: &Table, alias: &str, relation: RelationId, span: Span) -> ScopeRelation {
        let output = |column: &Column| OutputColumn::new(column.name.clone(), column.ty.clone());
        let mut columns: Vec<OutputColumn> = table.columns.iter().map(output).collect();
        if table.name.starts_with("pg_catalog.") {
            column_types::tell(&table.name, &mut columns);
        }
        let class = table.name.strip_prefix("pg_catalog.").map(|_| class_number(&table.name));
        let of_columns = ScopeRelation::of_columns(columns, alias, relation, span);
        let mut seen = ScopeRelation { class, table: of_users(table), ..of_columns };
        let mut hidden = table.columns.iter().map(|column| column.is_hidden);
        seen.columns.retain(|_| hidden.next() != Some(true));
        seen
    }

    pub fn of_columns(
        columns: impl IntoIterator<Item = OutputColumn>,
        alias: &str,
        relation: RelationId,
        span: Span,
    ) -> ScopeRelation {
        let columns = columns.into_iter().enumerate().map(|(column, output)| ScopeColumn {
            name: output.name,
            expr: Expr { kind: ExprKind::Column { relation, column }, ty: output.ty, span },
            catalog: output.catalog,
        });
        ScopeRelation {
            name: Some(alias.to_owned()),
            columns: columns.collect(),
            unqualified: true,
            span,
            relation: Some(relation),
            is_scalar: false,
            class: None,
            table: None,
        }
    }
}

impl<'a> Binder<'a> {
    /// Is this `schema.table`?
    fn is_schema_of(&self, schema: &str, table: &str) -> bool {
        schema == "public" || self.context.catalog.table_by_name(&format!("{schema}.{table}")).is_some()
    }

    /// `name` or `relation.name`, or a variable of the procedure.
    pub(super) fn resolve_name(&mut self, parts: &[&str], span: Span) -> Result<Expr, Diagnostic> {
        let parts = match parts {
            [schema, rest @ ..] if rest.len() == 2 && self.is_schema_of(schema, rest[0]) => rest,
            other => other,
        };
        if let Some(class) = self.system_class(parts, span) {
            return Ok(class);
        }
        let column = match parts {
            [name] => match self.unqualified_column(name, span)? {
                Some(column) => Some(column),
                None => self.scalar_row(name),
            },
            [relation, name] => self.qualified_column(relation, name, span)?,
            _ => None,
        };
        let variable = self.context.variables.and_then(|variables| variables.variable(parts));
        // A relation's name alone is its whole row, which PostgreSQL finds before it asks for variables.
        let whole_row = matches!(parts, [name] if self.relation_in_sight(name).is_some());
        match (column, variable) {
            (None, Some(_)) if whole_row && self.variables_yield() => Err(self.unknown_column(parts, span)),
            (None, Some(_)) if whole_row => Err(self.ambiguous_with_variable(parts, span)),
            (Some(column), None) => Ok(Expr { span, ..column }),
            (Some(column), Some(_)) if self.variables_yield() => Ok(Expr { span, ..column }),
            (None, Some((id, ty))) => Ok(Expr { kind: ExprKind::Variable(id), ty, span }),
            (Some(_), Some(_)) => Err(self.ambiguous_with_variable(parts, span)),
            (None, None) => match self.system_column(parts, span)? {
                Some(column) => Ok(column),
                None => Err(self.unknown_column(parts, span)),
            },
        }
    }

    /// `SELECT e FROM jsonb_array_elements(…) e`.
    fn scalar_row(&self, name: &str) -> Option<Expr> {
        let relation = self.relation_in_sight(name).filter(|relation| relation.is_scalar)?;
        relation.columns.first().map(|column| column.expr.clone())
    }

    fn ambiguous_with_variable(&self, parts: &[&str], span: Span) -> Diagnostic {
        let message = format!("column reference \"{}\" is ambiguous", parts.join("."));
        self.error(SqlState::AMBIGUOUS_COLUMN, span, message).with_hint(
            "it could refer to either a PL/pgSQL variable or a table column: qualify the column with its table, \
             or rename the variable",
        )
    }

    fn variables_yield(&self) -> bool {
        self.context.variables.is_some_and(|variables| variables.columns_win())
    }

    fn unqualified_column(&self, name: &str, span: Span) -> Result<Option<Expr>, Diagnostic> {
        for scope in self.scopes.iter().rev().filter(|scope| !scope.hidden) {
            let mut found = None;
            let visible = scope.relations.iter().filter(|relation| relation.unqualified);
            for column in visible.flat_map(|relation| &relation.columns) {
                if column.name != name {
                    continue;
                }
                if found.replace(column.expr.clone()).is_some() {
                    return Err(self
                        .error(
                            SqlState::AMBIGUOUS_COLUMN,
                            span,
                            format!("column reference \"{name}\" is ambiguous"),
                        )
                        .with_hint("qualify it with the table's name or alias"));
                }
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn qualified_column(&self, relation: &str, name: &str, span: Span) -> Result<Option<Expr>, Diagnostic> {
        let Some(found) = self.relation_in_sight(relation) else { return Ok(None) };
        let mut matching = found.columns.iter().filter(|column| column.name == name);
        match (matching.next(), matching.next()) {
            (Some(column), None) => Ok(Some(column.expr.clone())),
            (Some(_), Some(_)) => Err(self.error(
                SqlState::AMBIGUOUS_COLUMN,
                span,
                format!("column reference \"{name}\" is ambiguous"),
            )),
            (None, _) if self.context.variables.is_some_and(|v| v.variable(&[relation, name]).is_some()) => {
                Ok(None)
            }
            (None, _) if SYSTEM_COLUMNS.contains(&name) && found.table.is_some() => Ok(None),
            (None, _) => {
                let mut error = self.error(
                    SqlState::UNDEFINED_COLUMN,
                    span,
                    format!("column {relation}.{name} does not exist"),
                );
                error.hint = nearest(name, found.columns.iter().map(|column| column.name.as_str()));
                Err(error)
            }
        }
    }

    pub(super) fn relation_in_sight(&self, name: &str) -> Option<&ScopeRelation> {
        self.scopes
            .iter()
            .rev()
            .filter(|scope| !scope.hidden)
            .flat_map(|scope| &scope.relations)
            .find(|relation| relation.name.as_deref() == Some(name))
    }

    fn unknown_column(&self, parts: &[&str], span: Span) -> Diagnostic {
        let hidden = |name: &str| {
            let mut relations = self.scopes.iter().flat_map(|scope| &scope.relations);
            relations.any(|relation| relation.name.as_deref() == Some(name))
        };
        match parts {
            [name] if self.relation_in_sight(name).is_some() => Diagnostic::unsupported(
                span,
                format!("the whole row \"{name}\" as a value"),
                "name its columns; count(*) counts rows",
            ),
            [name] => {
                let mut error =
                    self.error(SqlState::UNDEFINED_COLUMN, span, format!("column \"{name}\" does not exist"));
                let columns = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
                let names = columns.flat_map(|relation| &relation.columns).map(|column| column.name.as_str());
                error.hint = nearest(name, names);
                error
            }
            [relation, _] if hidden(relation) => self
                .error(
                    SqlState::UNDEFINED_TABLE,
                    span,
                    format!("invalid reference to FROM-clause entry for table \"{relation}\""),
                )
                .with_hint("mark the subquery as LATERAL to let it refer to tables to its left"),
            [relation, ..] => self.error(
                SqlState::UNDEFINED_TABLE,
                span,
                format!("missing FROM-clause entry for table \"{relation}\""),
            ),
            [] => self.error(SqlState::SYNTAX_ERROR, span, "a name is missing here"),
        }
    }

    /// Relations of one FROM must have different names.
    pub(super) fn check_alias(
        &self,
        relations: &[ScopeRelation],
        added: &[ScopeRelation],
    ) -> Result<(), Diagnostic> {
        for relation in added {
            let duplicate = relations.iter().any(|other| other.name.is_some() && other.name == relation.name);
            if duplicate {
                let name = relation.name.as_deref().unwrap_or_default();
                return Err(self
                    .error(
                        SqlState::DUPLICATE_ALIAS,
                        relation.span,
                        format!("table name \"{name}\" specified more than once"),
                    )
                    .with_hint("give one of them an alias"));
            }
        }
        Ok(())
    }

    /// `$n`.
    pub(super) fn resolve_parameter(&mut self, number: i32, span: Span) -> Result<Expr, Diagnostic> {
        let unknown = |binder: &Self| {
            binder.error(SqlState::UNDEFINED_PARAMETER, span, format!("there is no parameter ${number}"))
        };
        let Ok(number @ 1..=65535) = u32::try_from(number) else { return Err(unknown(self)) };
        if let Some((id, ty)) = self.context.variables.and_then(|variables| variables.parameter(number)) {
            return Ok(Expr { kind: ExprKind::Variable(id), ty, span });
        }
        if !self.context.infer_parameters {
            return Err(unknown(self));
        }
        let index = number as usize - 1;
        if self.parameters.len() <= index {
            self.parameters.resize(index + 1, SqlType::Unknown);
        }
        let ty = self.parameters[index].clone();
        Ok(Expr { kind: ExprKind::Variable(crate::bound::VariableId(index as u32)), ty, span })
    }
}

/// A hint for a misspelt name, if one of the known names is near.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    let limit = 1 + name.chars().count() / 4;
    known
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| format!("perhaps you meant \"{candidate}\""))
}
