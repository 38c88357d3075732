//! ALTER DOMAIN. A column has its own copy of the constraints of its domain, so a change of the domain changes each such column: rows are
//! checked as after any definition.

use pg_query::protobuf::{AlterDomainStmt, ConstrType, Node};
use weir_types::SqlState;

use super::Schema;
use super::constraint::as_constraint;
use super::table::kind;
use super::types::object_path;
use crate::bound::Expr;
use crate::catalog::{Column, Domain, UserType};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Schema {
    pub(super) fn alter_domain(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterDomainStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let name = object_path(&alter.type_name);
        let before = match self.catalog.types.get(&name) {
            Some(UserType::Domain(domain)) => domain.clone(),
            Some(_) => {
                let message = format!("\"{name}\" is not a domain");
                return Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, head, message));
            }
            None => {
                let message = format!("type \"{name}\" does not exist");
                return Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, head, message));
            }
        };
        match alter.subtype.as_str() {
            "C" => {
                let Some(definition) = alter.def.as_deref() else { return Ok(()) };
                self.add_to_domain(piece, before, definition)
            }
            "O" => {
                for (table, column) in self.columns_of(&name) {
                    self.catalog.tables[table].columns[column].forbid_null(head);
                }
                self.change_domains(&name, |domain| domain.not_null = Some(head));
                Ok(())
            }
            "N" if before.not_null.is_none() => Ok(()),
            "N" if !self.has_columns_of(&name) => {
                self.change_domains(&name, |domain| domain.not_null = None);
                Ok(())
            }
            "T" => self.change_default(piece, before, alter.def.as_deref()),
            "X" => self.drop_from_domain(&before, alter, head),
            // A constraint is never without validity.
            "V" => match before.checks.iter().any(|check| check.name == alter.name) {
                true => Ok(()),
                false => Err(no_constraint(&before, &alter.name, head)),
            },
            _ => Err(Diagnostic::unsupported(
                head,
                "this ALTER DOMAIN of a domain that columns have",
                "create another domain, and give the columns that one (ALTER COLUMN … TYPE)",
            )),
        }
    }

    /// The column's domain, if it has one.
    pub(super) fn domain_of(&self, column: &Column) -> Option<&Domain> {
        match self.catalog.types.get(column.domain.as_ref()?) {
            Some(UserType::Domain(domain)) => Some(domain),
            _ => None,
        }
    }

    pub(super) fn default_of_domain(&self, column: &Column) -> Option<Expr> {
        self.domain_of(column).and_then(|domain| domain.default.clone())
    }

    /// Its default, unless that is its domain's.
    pub(super) fn own_default(&self, column: &Column) -> Option<Expr> {
        let of_domain = self.default_of_domain(column).map(|default| default.span);
        column.default.clone().filter(|own| Some(own.span) != of_domain)
    }

    pub(super) fn change_domains(&mut self, name: &str, change: impl Fn(&mut Domain)) {
        for ty in self.catalog.types.values_mut() {
            match ty {
                UserType::Domain(domain) if domain.is_or_extends(name) => change(domain),
                _ => {}
            }
        }
    }

    /// Each column that has this domain or one over it: its table and its number.
    fn columns_of(&self, name: &str) -> Vec<(usize, usize)> {
        let has = |column: &Column| self.domain_of(column).is_some_and(|domain| domain.is_or_extends(name));
        let tables = self.catalog.tables.iter().enumerate();
        tables
            .flat_map(|(at, table)| {
                table.columns.iter().enumerate().map(move |(of, column)| (at, of, column))
            })
            .filter_map(|(at, of, column)| has(column).then_some((at, of)))
            .collect()
    }

    fn has_columns_of(&self, name: &str) -> bool {
        !self.columns_of(name).is_empty()
    }

    fn add_to_domain(
        &mut self,
        piece: Piece<'_>,
        before: Domain,
        definition: &Node,
    ) -> Result<(), Diagnostic> {
        if let Some(constraint) = as_constraint(definition) {
            let place = super::constraint::constraint_span(piece, constraint);
            if constraint.skip_validation && self.notes.is_none() && self.has_columns_of(&before.name) {
                let instead = "a constraint holds for all rows: leave it away";
                return Err(Diagnostic::unsupported(place, "NOT VALID", instead));
            }
            if before.checks.iter().any(|check| check.name == constraint.conname) {
                let message = format!(
                    "constraint \"{}\" for domain \"{}\" already exists",
                    constraint.conname, before.name
                );
                return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, place, message));
            }
            if kind(constraint) != ConstrType::ConstrCheck {
                return Err(Diagnostic::unsupported(place, "this constraint of a domain", "CHECK is"));
            }
        }
        let mut after = before.clone();
        self.domain_constraint(piece, &before.name, &mut after, definition)?;
        let added = &after.checks[before.checks.len()..];
        for (table, column) in self.columns_of(&before.name) {
            for check in added {
                Schema::adopt_check(&mut self.catalog.tables[table], column, check);
            }
        }
        self.change_domains(&before.name, |domain| domain.checks.extend_from_slice(added));
        Ok(())
    }

    /// Columns without a default of their own have the domain's.
    fn change_default(
        &mut self,
        piece: Piece<'_>,
        before: Domain,
        value: Option<&Node>,
    ) -> Result<(), Diagnostic> {
        let column = Column::plain(before.name.clone(), before.base.clone(), Span::default());
        let default = self.column_default(piece, &column, &value.map(|value| Box::new(value.clone())))?;
        let theirs = before.default.as_ref().map(|default| default.span);
        let is_theirs = |own: &Option<Expr>| own.as_ref().is_none_or(|own| Some(own.span) == theirs);
        // A domain over this one has taken its default when it was created.
        for column in self.catalog.tables.iter_mut().flat_map(|table| &mut table.columns) {
            let has = column.domain.as_ref() == Some(&before.name) && column.generated.is_none();
            if has && is_theirs(&column.default) {
                column.default.clone_from(&default);
            }
        }
        let name = before.name.clone();
        self.catalog.types.insert(name, UserType::Domain(Domain { default, ..before }));
        Ok(())
    }

    fn drop_from_domain(
        &mut self,
        before: &Domain,
        alter: &AlterDomainStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let own = |check: &&crate::catalog::Check| {
            check.name == alter.name && check.domain.as_ref().is_none_or(|(of, _)| *of == before.name)
        };
        let Some(span) = before.checks.iter().find(own).map(|check| check.span) else {
            return match alter.missing_ok {
                true => {
                    let what = format!("constraint \"{}\" of domain \"{}\"", alter.name, before.name);
                    self.pass_missing(head, &what);
                    Ok(())
                }
                false => Err(no_constraint(before, &alter.name, head)),
            };
        };
        for table in &mut self.catalog.tables {
            table.checks.retain(|check| check.span != span);
        }
        self.change_domains(&before.name, |domain| domain.checks.retain(|check| check.span != span));
        Ok(())
    }
}

pub(super) fn no_constraint(domain: &Domain, name: &str, place: Span) -> Diagnostic {
    let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", domain.name);
    Diagnostic::new(SqlState::UNDEFINED_OBJECT, place, message)
}
