//! Catalog types of PostgreSQL that expressions have, for clients.
//!
//! It is known by the place of a node in the parse tree, which outlives the binder: what is within an expression has been bound
//! before it is asked about.

use std::collections::BTreeMap;

use pg_query::protobuf::{AExpr, AExprKind, FuncCall, Node, SqlValueFunctionOp, TypeCast, node};
use weir_types::{CatalogType, SqlType};

use super::Binder;
use super::expr::strings;
use super::system::is_registered;
use crate::bound::{Expr, ExprKind, OutputColumn, Query};

/// Catalog types known so far.
#[derive(Debug, Default)]
pub(super) struct CatalogTypes {
    /// By the address of the syntax node.
    of_nodes: BTreeMap<usize, CatalogType>,
    /// By the number of the parameter.
    of_parameters: BTreeMap<i32, CatalogType>,
}

fn address(node: &Node) -> usize {
    std::ptr::from_ref(node) as usize
}

/// Functions that give a name, a number of an object or an array of names.
const FUNCTIONS: [(&str, u32); 9] = [
    ("current_database", 19),
    ("current_schema", 19),
    ("current_schemas", 1003),
    ("current_user", 19),
    ("session_user", 19),
    ("pg_get_userbyid", 19),
    ("pg_encoding_to_char", 19),
    ("pg_my_temp_schema", 26),
    ("pg_relation_filenode", 26),
];

impl<'a> Binder<'a> {
    /// The catalog type of what has been bound.
    pub(super) fn catalog_type(&self, node: &Node) -> Option<CatalogType> {
        self.catalog_types.of_nodes.get(&address(node)).copied()
    }

    /// Catalog types of `$1`, `$2` …, as far as they can be inferred.
    pub(crate) fn parameter_catalog_types(&self) -> Vec<Option<CatalogType>> {
        let of = |(at, ty): (usize, &SqlType)| {
            let told = self.catalog_types.of_parameters.get(&(at as i32 + 1)).copied();
            told.filter(|told| told.fits(ty))
        };
        self.parameters.iter().enumerate().map(of).collect()
    }

    /// Keeps which catalog type the node has that has been bound to `expr`.
    pub(super) fn keep_catalog_type(&mut self, node: &'a Node, expr: &Expr) {
        let found = node.node.as_ref().and_then(|inner| self.catalog_type_of(inner, expr));
        match found.filter(|found| found.fits(&expr.ty)) {
            Some(found) => self.catalog_types.of_nodes.insert(address(node), found),
            None => self.catalog_types.of_nodes.remove(&address(node)),
        };
    }

    fn catalog_type_of(&mut self, node: &'a node::Node, expr: &Expr) -> Option<CatalogType> {
        match node {
            node::Node::ColumnRef(column) if strings(&column.fields).last() == Some(&"tableoid") => {
                Some(CatalogType::OID)
            }
            node::Node::ColumnRef(_) => self.catalog_type_of_column(expr),
            node::Node::TypeCast(cast) => self.catalog_type_of_cast(cast),
            node::Node::CaseExpr(case) => {
                let whens = case.args.iter().filter_map(|when| match &when.node {
                    Some(node::Node::CaseWhen(when)) => when.result.as_deref(),
                    _ => None,
                });
                self.common_catalog_type(whens.chain(case.defresult.as_deref()))
            }
            node::Node::CoalesceExpr(coalesce) => self.common_catalog_type(coalesce.args.iter()),
            node::Node::MinMaxExpr(expr) => self.common_catalog_type(expr.args.iter()),
            node::Node::AArrayExpr(array) => self.common_catalog_type(array.elements.iter())?.array(),
            node::Node::FuncCall(call) => self.catalog_type_of_call(call),
            node::Node::SqlvalueFunction(function) => value_function(function.op),
            node::Node::SubLink(_) => match &expr.kind {
                ExprKind::ScalarSubquery(query) => first_catalog_type(query),
                ExprKind::ArraySubquery(query) => first_catalog_type(query)?.array(),
                _ => None,
            },
            node::Node::AIndirection(indirection) => {
                self.catalog_type(indirection.arg.as_deref()?)?.element()
            }
            node::Node::AExpr(expr) => self.catalog_type_of_operator(expr),
            _ => None,
        }
    }

    fn catalog_type_of_column(&self, expr: &Expr) -> Option<CatalogType> {
        let ExprKind::Column { relation, column } = expr.kind else { return None };
        let relations = self.scopes.iter().rev().flat_map(|scope| &scope.relations);
        let is_it = |kind: &ExprKind| matches!(kind, ExprKind::Column { relation: r, column: c } if *r == relation && *c == column);
        relations.flat_map(|relation| &relation.columns).find(|one| is_it(&one.expr.kind))?.catalog
    }

    fn catalog_type_of_cast(&mut self, cast: &'a TypeCast) -> Option<CatalogType> {
        let ty = cast.type_name.as_ref()?;
        let names = strings(&ty.names);
        let &name = names.last()?;
        let arg = cast.arg.as_deref()?;
        // `'orders'::regclass` in a select list has a cast to text around it, which has no place of its own.
        if let (true, Some(node::Node::TypeCast(inner))) = (cast.location == -1 && name == "text", &arg.node)
        {
            let inner = inner.type_name.as_ref().filter(|ty| ty.array_bounds.is_empty())?;
            let names = strings(&inner.names);
            return names
                .last()
                .filter(|name| is_registered(name))
                .and_then(|name| CatalogType::of_name(name));
        }
        // `char` without quotes is another type: character(1).
        let is_quoted = name != "char" || names.len() == 1;
        let of_name = CatalogType::of_name(name).filter(|_| is_quoted);
        let found = match (of_name?, ty.array_bounds.is_empty()) {
            (_, true) if is_registered(name) => return None,
            (found, true) => found,
            (found, false) => found.array()?,
        };
        self.keep_parameter(arg, Some(found));
        Some(found)
    }

    fn catalog_type_of_call(&self, call: &FuncCall) -> Option<CatalogType> {
        let names = strings(&call.funcname);
        let &name = names.last()?;
        if let Some((_, number)) = FUNCTIONS.iter().find(|(one, _)| *one == name) {
            return Some(CatalogType(*number));
        }
        let first = || self.catalog_type(call.args.first()?);
        match name {
            "min" | "max" | "first_value" | "last_value" | "nth_value" | "lag" | "lead" => first(),
            "array_agg" => first()?.array(),
            "unnest" => first()?.element(),
            "array_remove" | "array_append" | "array_cat" => {
                first().filter(|found| found.element().is_some())
            }
            "pg_typeof" => Some(CatalogType::REGTYPE),
            _ => None,
        }
    }

    /// NULLIF has its first operand's type; parameters of comparisons have that of the other operand.
    fn catalog_type_of_operator(&mut self, expr: &'a AExpr) -> Option<CatalogType> {
        let (left, right) = (expr.lexpr.as_deref()?, expr.rexpr.as_deref()?);
        let (of_left, of_right) = (self.catalog_type(left), self.catalog_type(right));
        match AExprKind::try_from(expr.kind).ok()? {
            AExprKind::AexprNullif => return of_left,
            AExprKind::AexprOpAny | AExprKind::AexprOpAll => {
                self.keep_parameter(right, of_left.and_then(CatalogType::array));
                self.keep_parameter(left, of_right.and_then(CatalogType::element));
            }
            AExprKind::AexprIn => {
                if let Some(node::Node::List(list)) = &right.node {
                    list.items.iter().for_each(|item| self.keep_parameter(item, of_left));
                }
            }
            AExprKind::AexprOp | AExprKind::AexprDistinct | AExprKind::AexprNotDistinct => {
                let name = strings(&expr.name);
                if matches!(name[..], ["=" | "<>" | "!=" | "<" | "<=" | ">" | ">="]) {
                    self.keep_parameter(right, of_left);
                    self.keep_parameter(left, of_right);
                }
            }
            _ => {}
        }
        None
    }

    /// The first thing that says of which type a parameter is has said it.
    fn keep_parameter(&mut self, node: &Node, ty: Option<CatalogType>) {
        if let (Some(ty), Some(node::Node::ParamRef(parameter))) = (ty, &node.node)
            && self.template_args.is_empty()
        {
            self.catalog_types.of_parameters.entry(parameter.number).or_insert(ty);
        }
    }

    /// Common type of alternatives; NULL and other constants are ignored.
    fn common_catalog_type(&self, nodes: impl Iterator<Item = &'a Node>) -> Option<CatalogType> {
        let mut common = None;
        for node in nodes {
            if let Some(node::Node::AConst(_)) = &node.node {
                continue;
            }
            let found = self.catalog_type(node)?;
            match common {
                None => common = Some(found),
                Some(common) if common == found => {}
                Some(_) => return None,
            }
        }
        common
    }
}

fn first_catalog_type(query: &Query) -> Option<CatalogType> {
    query.columns.first()?.catalog
}

/// `current_user` and its like.
fn value_function(op: i32) -> Option<CatalogType> {
    use SqlValueFunctionOp::*;
    match SqlValueFunctionOp::try_from(op) {
        Ok(
            SvfopCurrentUser | SvfopUser | SvfopSessionUser | SvfopCurrentRole | SvfopCurrentCatalog
            | SvfopCurrentSchema,
        ) => Some(CatalogType::NAME),
        _ => None,
    }
}

/// A column of a UNION has a catalog type if both sides have it.
pub(super) fn unite(left: &mut [OutputColumn], right: &[OutputColumn]) {
    for (left, right) in left.iter_mut().zip(right) {
        left.catalog = left.catalog.filter(|ty| right.catalog.is_none_or(|other| other == *ty));
        // Next to a text, a `name` is a text; next to a constant, an object number keeps its type.
        if right.catalog.is_none() && left.ty == SqlType::Text {
            left.catalog = None;
        }
    }
}
