//! CREATE TYPE and CREATE DOMAIN.
//!
//! A domain is its base type with constraints, and the columns declared with it have them as their own. An
//! enumeration is a type. Composite types, ranges and base types are not understood; a tolerant reading
//! knows them by name.

use std::sync::Arc;

use pg_query::protobuf::{
    AlterEnumStmt, ConstrType, CreateDomainStmt, CreateEnumStmt, Node, ObjectType, RenameStmt, TypeName, node,
};
use weir_types::{EnumType, SqlState, SqlType};

use super::constraint::{constraint_span, free, object_name};
use super::names::split;
use super::table::kind;
use super::{Schema, qualified};
use crate::binder::{Binder, expr_strings};
use crate::bound::{Expr, ExprKind};
use crate::catalog::{Check, Column, ColumnIndex, Domain, Table, UserType};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::{type_name, walk};

/// The catalog's name of a type, routine or other object that is not a relation.
pub(super) fn object_path(names: &[Node]) -> String {
    path(&expr_strings(names))
}

/// The names in the catalog of what a DROP lists.
pub(crate) fn named_relations(objects: &[Node]) -> Vec<String> {
    let name = |object: &Node| match &object.node {
        Some(node::Node::List(list)) => Some(object_path(&list.items)),
        _ => None,
    };
    objects.iter().filter_map(name).collect()
}

pub(super) fn path(names: &[&str]) -> String {
    match names {
        [schema, name] => qualified(schema, name),
        names => names.last().copied().unwrap_or("").to_owned(),
    }
}

impl Schema {
    pub(super) fn create_enum(&mut self, create: &CreateEnumStmt, span: Span) -> Result<(), Diagnostic> {
        let labels: Vec<String> = expr_strings(&create.vals).into_iter().map(str::to_owned).collect();
        if let Some(twice) = (1..labels.len()).find(|at| labels[..*at].contains(&labels[*at])) {
            let message = format!("the label \"{}\" is there twice", labels[twice]);
            return Err(Diagnostic::new(SqlState::UNIQUE_VIOLATION, span, message));
        }
        let name = object_path(&create.type_name);
        let of = EnumType { name: name.clone(), labels };
        self.add_type(name, UserType::Enum(Arc::new(of)), span)
    }

    /// Types that are known by name only; those of a strict reading are refused before.
    pub(super) fn add_opaque_type(&mut self, names: &[Node], span: Span) -> Result<(), Diagnostic> {
        self.add_type(object_path(names), UserType::Opaque, span)
    }

    fn add_type(&mut self, name: String, ty: UserType, span: Span) -> Result<(), Diagnostic> {
        self.schema_is_there(split(&name).0, span)?;
        if self.catalog.types.contains_key(&name) {
            let message = format!("type \"{name}\" already exists");
            return Err(Diagnostic::new(SqlState::DUPLICATE_OBJECT, span, message));
        }
        self.catalog.types.insert(name, ty);
        Ok(())
    }

    pub(super) fn create_domain(
        &mut self,
        piece: Piece<'_>,
        create: &CreateDomainStmt,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let name = object_path(&create.domainname);
        let Some(type_name) = &create.type_name else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "a domain needs a type"));
        };
        if let Some(collate) = &create.coll_clause {
            let result = super::column::by_bytes(&collate.collname, piece.token(collate.location));
            self.tolerate(result)?;
        }
        let (base, below) = type_name::resolve_column(&self.context(), piece, type_name)?;
        type_name::refuse_time_modifier(piece, type_name, "a domain")?;
        let mut domain = match below {
            Some(below) => {
                let mut all = below.below.clone();
                all.push(below.name.clone());
                Domain { name: name.clone(), below: all, ..below.clone() }
            }
            None => {
                let (checks, below) = (Vec::new(), Vec::new());
                Domain { name: name.clone(), base, not_null: None, default: None, checks, below }
            }
        };
        let says = |wanted: ConstrType| {
            let constraints = create.constraints.iter().filter_map(super::constraint::as_constraint);
            constraints.filter(|one| kind(one) == wanted).count() > 0
        };
        if says(ConstrType::ConstrNotnull) && says(ConstrType::ConstrNull) {
            let message = "conflicting NULL/NOT NULL constraints";
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, message));
        }
        for node in &create.constraints {
            if let Some(node::Node::Constraint(_)) = &node.node {
                let result = self.domain_constraint(piece, &name, &mut domain, node);
                self.tolerate(result)?;
            }
        }
        self.add_type(name, UserType::Domain(domain), span)
    }

    /// CHECK, NOT NULL and DEFAULT of CREATE DOMAIN and ALTER DOMAIN.
    pub(super) fn domain_constraint(
        &self,
        piece: Piece<'_>,
        name: &str,
        domain: &mut Domain,
        node: &Node,
    ) -> Result<(), Diagnostic> {
        let Some(constraint) = super::constraint::as_constraint(node) else { return Ok(()) };
        let span = constraint_span(piece, constraint);
        match kind(constraint) {
            ConstrType::ConstrNotnull => domain.not_null = Some(span),
            ConstrType::ConstrNull => domain.not_null = None,
            ConstrType::ConstrDefault => {
                if let Some(value) = &constraint.raw_expr {
                    let value =
                        Binder::new(&self.context(), piece).bind_default(value, name, &domain.base)?;
                    domain.default = Some(value);
                }
            }
            ConstrType::ConstrCheck => {
                let Some(condition) = &constraint.raw_expr else { return Ok(()) };
                let expr =
                    self.bind_over_table(piece, &value_table(&domain.base, span), condition, "CHECK", span)?;
                let bare = name.rsplit('.').next().unwrap_or(name);
                let check_name = match constraint.conname.as_str() {
                    "" => free(&object_name(bare, "", "check"), |taken| {
                        domain.checks.iter().any(|check| check.name == taken)
                    }),
                    name => name.to_owned(),
                };
                let of = Some((name.to_owned(), 0));
                domain.checks.push(Check { name: check_name, expr, domain: of, span });
            }
            ConstrType::ConstrAttrNotDeferrable
            | ConstrType::ConstrAttrImmediate
            | ConstrType::ConstrAttrEnforced => {}
            _ => {
                return Err(Diagnostic::unsupported(
                    span,
                    "this constraint of a domain",
                    "CHECK, NOT NULL and DEFAULT are",
                ));
            }
        }
        Ok(())
    }

    /// The domain's constraints become the column's. `span`: where the column names the domain.
    pub(super) fn adopt_domain(table: &mut Table, column: ColumnIndex, domain: &Domain, span: Span) {
        let target = &mut table.columns[column];
        target.domain = Some(domain.name.clone());
        if domain.not_null.is_some() {
            target.forbid_null(span);
        }
        for check in &domain.checks {
            Schema::adopt_check(table, column, check);
        }
    }

    pub(super) fn adopt_check(table: &mut Table, column: ColumnIndex, check: &Check) {
        let wanted = object_name(&table.name, &table.columns[column].name, &check.name);
        let name = free(&wanted, |name| table.checks.iter().any(|taken| taken.name == name));
        let mut expr = check.expr.clone();
        walk::each_expr_mut(&mut expr, &mut |part: &mut Expr| {
            if let ExprKind::Column { column: value, .. } = &mut part.kind {
                *value = column;
            }
        });
        let of = check.domain.as_ref().map(|(domain, _)| (domain.clone(), column));
        table.checks.push(Check { name, expr, domain: of, span: check.span });
    }

    /// A type that the schema declares, or one of PostgreSQL's (42704).
    pub(super) fn type_named(
        &self,
        piece: Piece<'_>,
        kind: ObjectType,
        name: &TypeName,
        place: Span,
    ) -> Result<(), Diagnostic> {
        let path = object_path(&name.names);
        if self.catalog.types.contains_key(&path) {
            return self.user_type_named(kind, &path, place);
        }
        type_name::resolve_column(&self.context(), piece, name).map(|_| ())?;
        match kind == ObjectType::ObjectDomain {
            true => Err(not_a_domain(&path, place)),
            false => Ok(()),
        }
    }

    /// A type that the schema declares (42704); for DOMAIN, a domain (42809).
    pub(super) fn user_type_named(
        &self,
        kind: ObjectType,
        name: &str,
        place: Span,
    ) -> Result<(), Diagnostic> {
        match self.catalog.types.get(name) {
            Some(UserType::Enum(_)) if kind == ObjectType::ObjectDomain => Err(not_a_domain(name, place)),
            Some(_) => Ok(()),
            None => {
                let message = format!("type \"{name}\" does not exist");
                Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, place, message))
            }
        }
    }

    /// ADD VALUE where no CREATE TYPE came before it in the files; the others are folded in by the loader.
    pub(super) fn alter_enum(&mut self, alter: &AlterEnumStmt, span: Span) -> Result<(), Diagnostic> {
        let name = object_path(&alter.type_name);
        let message = format!("type \"{name}\" does not exist");
        Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, span, message))
    }
}

/// `ALTER TYPE … ADD VALUE` and `RENAME VALUE`, folded into the statement that creates the type: so every
/// mention of it sees all labels in their final order.
///
/// # Errors
/// There is no such label (22023), or there is one already (42710).
pub(crate) fn fold_labels(
    create: &mut CreateEnumStmt,
    alter: &AlterEnumStmt,
) -> Result<(), (SqlState, String)> {
    let label = |text: &str| {
        let sval = pg_query::protobuf::String { sval: text.to_owned() };
        Node { node: Some(node::Node::String(sval)) }
    };
    let labels: Vec<String> = expr_strings(&create.vals).into_iter().map(str::to_owned).collect();
    let at = |wanted: &str| {
        let missing =
            || (SqlState::INVALID_PARAMETER_VALUE, format!("\"{wanted}\" is not an existing enum label"));
        labels.iter().position(|label| label == wanted).ok_or_else(missing)
    };
    let renamed = match alter.old_val.as_str() {
        "" => None,
        old => Some(at(old)?),
    };
    if at(&alter.new_val).is_ok() {
        let exists = format!("enum label \"{}\" already exists", alter.new_val);
        return Err((SqlState::DUPLICATE_OBJECT, exists));
    }
    if let Some(at) = renamed {
        create.vals[at] = label(&alter.new_val);
        return Ok(());
    }
    let place = match alter.new_val_neighbor.as_str() {
        "" => labels.len(),
        neighbour => at(neighbour)? + usize::from(alter.new_val_is_after),
    };
    create.vals.insert(place, label(&alter.new_val));
    Ok(())
}

/// Whether the statement creates the type, which is called `name` now, or has given it that name: then it is told the one before.
pub(crate) fn creates_type(statement: &node::Node, name: &mut String) -> bool {
    match statement {
        node::Node::CreateEnumStmt(create) => object_path(&create.type_name) == *name,
        node::Node::RenameStmt(rename) if rename.rename_type() == ObjectType::ObjectType => {
            if let Some((old, _)) = renamed_type(rename).filter(|(_, new)| new == name) {
                *name = old;
            }
            false
        }
        _ => false,
    }
}

/// The type's old name, and the new one.
pub(super) fn renamed_type(rename: &RenameStmt) -> Option<(String, String)> {
    let Some(node::Node::List(names)) = rename.object.as_deref()?.node.as_ref() else { return None };
    let old = object_path(&names.items);
    let new = match old.rsplit_once('.') {
        Some((schema, _)) => qualified(schema, &rename.newname),
        None => rename.newname.clone(),
    };
    Some((old, new))
}

pub(crate) fn altered_type(alter: &AlterEnumStmt) -> String {
    object_path(&alter.type_name)
}

fn not_a_domain(name: &str, place: Span) -> Diagnostic {
    Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, place, format!("\"{name}\" is not a domain"))
}

/// A table of one column, `value`, which is what a domain's CHECK speaks of.
fn value_table(base: &SqlType, span: Span) -> Table {
    let column = Column::plain("value".to_owned(), base.clone(), span);
    Table { columns: vec![column], ..Table::named(crate::catalog::TableId(u32::MAX), "domain", span) }
}
