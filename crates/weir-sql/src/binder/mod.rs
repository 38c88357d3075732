//! From parse tree to [`crate::bound`]: names resolved, types inferred, casts explicit.
//!
//! One [`Binder`] binds one statement or one expression: it numbers the statement's relations and
//! infers its parameters. What varies around it is in [`Context`]: the catalog, the procedures that may
//! be called, and the variables in sight. Nothing is executed here but literals, which are parsed with
//! the type that they turn out to have.

mod aggregate;
mod arbiter;
mod catalog_type;
mod coerce;
mod expr;
mod factored;
mod from;
mod function;
mod generated;
mod grouping;
mod grouping_sets;
mod insert;
mod locking;
mod modify;
mod operator;
mod output;
mod query;
mod recursive;
mod row;
mod scope;
mod subquery;
mod system;
mod system_columns;
mod table_function;
mod target;
mod window;

use pg_query::protobuf::{Node, SelectStmt, node};
use weir_types::{CastContext, SqlState, SqlType};

use crate::bound::{Expr, ExprKind, Query, RelationId, Statement, VariableId};
use crate::catalog::{Catalog, Table};
use crate::notes::Notes;
use crate::parse::{self, Piece};
use crate::routine::{self, BoundCall, Signature};
use crate::source::{Diagnostic, Span};
use crate::system::Facts;

pub(crate) use expr::strings as expr_strings;
pub use function::relation_named;
pub(crate) use insert::default_of;
pub(crate) use modify::generated_along;
pub(crate) use scope::nearest;
use scope::{CteFrame, Scope};
pub(crate) use system::{show_names, stand_in};
pub(crate) use target::view_target;

/// Levels of expressions, joins and subqueries within each other.
const DEPTH_MAX: usize = 1_000;

/// Stack space reserved for later recursive walks of the bound tree on the same thread.
const STACK_BYTES_MIN: usize = 256 << 10;

/// The variables that an expression inside a procedure sees besides columns.
pub trait Variables {
    /// `name`, `record.field` or `block.name`, innermost declaration first.
    fn variable(&self, parts: &[&str]) -> Option<(VariableId, SqlType)>;

    /// `$n`, from 1: a procedure's parameter by its position.
    fn parameter(&self, _number: u32) -> Option<(VariableId, SqlType)> {
        None
    }

    /// The fields of a record variable, for `record.*`.
    fn fields(&self, _record: &str) -> Option<Vec<(String, VariableId, SqlType)>> {
        None
    }

    /// LANGUAGE SQL: where a column and a variable have the same name, the column is meant.
    fn columns_win(&self) -> bool {
        false
    }
}

/// Names visible to a statement.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub catalog: &'a Catalog,
    pub signatures: &'a [Signature],
    pub variables: Option<&'a dyn Variables>,
    /// `$n` becomes variable n − 1 and gets its type from where it stands.
    pub infer_parameters: bool,
    /// Where a tolerant reading notes what it does not understand; a strict one has none.
    pub notes: Option<&'a Notes>,
    /// The catalog has the system's tables behind its own, and this is who asks of them.
    pub system: Option<&'a Facts>,
    /// Times without an offset are resolved in the binder's time zone instead of the executor's: used for definitions.
    pub fixes_times: bool,
}

impl<'a> Context<'a> {
    pub fn new(catalog: &'a Catalog) -> Context<'a> {
        Context {
            catalog,
            signatures: &[],
            variables: None,
            infer_parameters: false,
            notes: None,
            system: None,
            fixes_times: false,
        }
    }

    pub fn noting(self, notes: Option<&'a Notes>) -> Context<'a> {
        Context { notes, ..self }
    }
}

pub struct Binder<'a> {
    context: Context<'a>,
    piece: Piece<'a>,
    next_relation: u32,
    /// Innermost last.
    scopes: Vec<Scope>,
    /// Innermost last.
    ctes: Vec<CteFrame<'a>>,
    /// Types of `$1`, `$2`, …; Unknown until something fixes them.
    parameters: Vec<SqlType>,
    /// The WINDOW clause of each SELECT that is being bound, innermost last.
    window_clauses: Vec<&'a [Node]>,
    /// The recursive CTE whose query comes next.
    recursive: Option<recursive::Recursive>,
    /// Arguments of the templates of [`crate::system`] that are being bound, innermost last.
    template_args: Vec<Vec<Expr>>,
    /// A table of users with a column of bigint[] is read.
    reads_arrays: bool,
    /// The argument of `nextval` is being bound, where `::regclass` yields a name.
    names_sequence: bool,
    /// Target of an INSERT with ON CONFLICT DO UPDATE, while its RETURNING is bound.
    upserted: Option<RelationId>,
    depth: usize,
    /// Number of its levels that are subqueries.
    subqueries: usize,
    catalog_types: catalog_type::CatalogTypes,
}

/// An expression's text, as PL/pgSQL has it: anything that may follow SELECT and yields one value.
/// A literal whose type nothing fixes is text.
pub fn bind_expression(context: &Context<'_>, piece: Piece<'_>) -> Result<Expr, Diagnostic> {
    let node = parse::parse_expression(piece)?;
    let mut binder = Binder::new(context, piece);
    let expr = binder.bind_plpgsql_expr(&node, None)?;
    binder.settle(expr)
}

/// Like [`bind_expression`], cast to `ty` as an assignment does.
pub fn bind_expression_as(context: &Context<'_>, piece: Piece<'_>, ty: &SqlType) -> Result<Expr, Diagnostic> {
    let node = parse::parse_expression(piece)?;
    Binder::new(context, piece).bind_plpgsql_expr(&node, Some(ty))
}

/// A condition that stands alone, as an assertion's: boolean, over no relation.
pub fn bind_check(context: &Context<'_>, piece: Piece<'_>) -> Result<Expr, Diagnostic> {
    let node = parse::parse_expression(piece)?;
    let mut binder = Binder::new(context, piece);
    let expr = binder.bind_plpgsql_expr(&node, None)?;
    binder.coerce_boolean(expr, "CHECK")
}

/// One SELECT, VALUES, INSERT, UPDATE or DELETE.
pub fn bind_statement(context: &Context<'_>, piece: Piece<'_>) -> Result<Statement, Diagnostic> {
    let parsed = parse::parse_statement(piece)?;
    let mut statement = bind_statement_node(context, piece, &parsed.node)?;
    if let Statement::Query(query) = &mut statement {
        query.span = parsed.span;
    }
    Ok(statement)
}

/// Like [`bind_statement`], of a tree that is already there (`BEGIN ATOMIC … END`).
pub fn bind_statement_node(
    context: &Context<'_>,
    piece: Piece<'_>,
    statement: &node::Node,
) -> Result<Statement, Diagnostic> {
    Binder::new(context, piece).bind_statement(statement)
}

/// A SELECT or VALUES.
pub fn bind_query(context: &Context<'_>, piece: Piece<'_>) -> Result<Query, Diagnostic> {
    match bind_statement(context, piece)? {
        Statement::Query(query) => Ok(query),
        _ => Err(Diagnostic::unsupported(
            piece.token(0),
            "a data-modifying statement as a query",
            "write it as a statement of its own, with RETURNING … INTO",
        )),
    }
}

/// `CALL p(…)`.
pub fn bind_call(context: &Context<'_>, piece: Piece<'_>) -> Result<BoundCall, Diagnostic> {
    let parsed = parse::parse_statement(piece)?;
    bind_call_node(context, piece, &parsed.node)
}

pub fn bind_call_node(
    context: &Context<'_>,
    piece: Piece<'_>,
    statement: &node::Node,
) -> Result<BoundCall, Diagnostic> {
    match statement {
        node::Node::CallStmt(call) => match &call.funccall {
            Some(funccall) => routine::bind_call(&mut Binder::new(context, piece), funccall),
            None => Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.span(), "CALL of nothing")),
        },
        _ => Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.token(0), "this is not a CALL")),
    }
}

/// `target := value` where the value is bound already, with PostgreSQL's rules for assignment.
pub fn assign(context: &Context<'_>, value: Expr, ty: &SqlType) -> Result<Expr, Diagnostic> {
    Binder::new(context, Piece::new(value.span.file, value.span.start, "")).coerce_assign(value, ty)
}

/// The value as an assignment cast makes it, without a way through its text.
pub fn assign_strictly(context: &Context<'_>, value: Expr, ty: &SqlType) -> Result<Expr, Diagnostic> {
    let piece = Piece::new(value.span.file, value.span.start, "");
    Binder::new(context, piece).coerce(value, ty, CastContext::Assignment)
}

impl<'a> Binder<'a> {
    pub fn new(context: &Context<'a>, piece: Piece<'a>) -> Binder<'a> {
        Binder {
            context: *context,
            piece,
            next_relation: 0,
            scopes: Vec::new(),
            ctes: Vec::new(),
            parameters: Vec::new(),
            window_clauses: Vec::new(),
            recursive: None,
            template_args: Vec::new(),
            reads_arrays: false,
            names_sequence: false,
            upserted: None,
            depth: 0,
            subqueries: 0,
            catalog_types: catalog_type::CatalogTypes::default(),
        }
    }

    /// With `$n` of the given types; those that are Unknown are inferred.
    pub(crate) fn with_parameters(mut self, types: &[SqlType]) -> Binder<'a> {
        self.parameters = types.to_vec();
        self
    }

    pub(crate) fn piece(&self) -> Piece<'a> {
        self.piece
    }

    pub(crate) fn context(&self) -> Context<'a> {
        self.context
    }

    pub(crate) fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    fn new_relation(&mut self) -> RelationId {
        let id = RelationId(self.next_relation);
        self.next_relation += 1;
        id
    }

    /// Binds what is within something else.
    ///
    /// # Errors
    /// Binds one level deeper; error 54001 if later walks of the bound tree would exceed the stack.
    fn deeper<T>(&mut self, bind: impl FnOnce(&mut Self) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        let is_low = stacker::remaining_stack().is_some_and(|left| left < STACK_BYTES_MIN);
        if self.depth >= DEPTH_MAX || is_low {
            return Err(parse::too_deep(self.piece.span()));
        }
        self.depth += 1;
        let bound = bind(self);
        self.depth -= 1;
        bound
    }

    fn error(&self, state: SqlState, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(state, span, message)
    }

    /// A value cast to `ty` as an assignment does: a default, a call's argument.
    pub(crate) fn bind_value(&mut self, node: &'a Node, ty: &SqlType) -> Result<Expr, Diagnostic> {
        let expr = self.bind_expr_toward(node, ty)?;
        self.coerce_assign(expr, ty)
    }

    /// A boolean, as `clause` (WHERE, CHECK, IF …) wants it.
    pub(crate) fn bind_condition(&mut self, node: &'a Node, clause: &str) -> Result<Expr, Diagnostic> {
        let expr = self.bind_expr(node)?;
        self.coerce_boolean(expr, clause)
    }

    /// The condition of WHERE, HAVING or a join, what its alternatives have in common first.
    pub(super) fn bind_filter(&mut self, node: &'a Node, clause: &str) -> Result<Expr, Diagnostic> {
        self.bind_condition(node, clause).map(factored::factored)
    }

    /// In sight as relation 0: a CHECK, an index, a partial index's predicate.
    pub(crate) fn enter_table(&mut self, table: &Table) {
        let relation = self.new_relation();
        let scope = Scope::of_table(table, &table.name, relation, table.span);
        self.scopes.push(scope);
    }

    pub(crate) fn bind_statement(&mut self, statement: &'a node::Node) -> Result<Statement, Diagnostic> {
        match statement {
            node::Node::SelectStmt(select) => {
                self.refuse_into(select)?;
                Ok(Statement::Query(self.bind_query(select)?))
            }
            node::Node::InsertStmt(insert) => self.bind_insert(insert).map(Statement::Insert),
            node::Node::UpdateStmt(update) => self.bind_update(update).map(Statement::Update),
            node::Node::DeleteStmt(delete) => self.bind_delete(delete).map(Statement::Delete),
            other => Err(self.refuse_statement(other)),
        }
    }

    fn refuse_into(&self, select: &SelectStmt) -> Result<(), Diagnostic> {
        match &select.into_clause {
            None => Ok(()),
            Some(into) => {
                let location = into.rel.as_ref().map_or(-1, |table| table.location);
                Err(Diagnostic::unsupported(
                    self.piece.token(location),
                    "SELECT … INTO a table",
                    "create the table and use INSERT … SELECT",
                ))
            }
        }
    }

    fn refuse_statement(&self, statement: &node::Node) -> Diagnostic {
        let span = self.piece.token(0);
        match statement {
            node::Node::MergeStmt(_) => Diagnostic::unsupported(
                span,
                "MERGE",
                "use INSERT … ON CONFLICT, or IF NOT FOUND after UPDATE",
            ),
            node::Node::CallStmt(_) => Diagnostic::unsupported(
                span,
                "CALL as part of another statement",
                "write CALL as a statement of its own",
            ),
            other => Diagnostic::unsupported(
                span,
                format!("{} here", crate::ddl::statement_name(other)),
                "only SELECT, VALUES, INSERT, UPDATE and DELETE are",
            ),
        }
    }

    /// Without a type that anything fixes, a literal is text.
    pub(crate) fn settle(&mut self, expr: Expr) -> Result<Expr, Diagnostic> {
        match expr.ty {
            SqlType::Unknown => self.coerce(expr, &SqlType::Text, CastContext::Implicit),
            SqlType::Record => match expr.kind {
                ExprKind::Row(fields) => {
                    let fields =
                        fields.into_iter().map(|field| self.settle(field)).collect::<Result<_, _>>()?;
                    Ok(Expr { kind: ExprKind::Row(fields), ..expr })
                }
                kind => Ok(Expr { kind, ..expr }),
            },
            _ => Ok(expr),
        }
    }

    /// A PL/pgSQL expression is what may follow SELECT; most are one plain value.
    fn bind_plpgsql_expr(&mut self, node: &'a Node, ty: Option<&SqlType>) -> Result<Expr, Diagnostic> {
        let Some(node::Node::SelectStmt(select)) = &node.node else {
            return self.bind_expr(node);
        };
        let plain = select.from_clause.is_empty()
            && select.where_clause.is_none()
            && select.group_clause.is_empty()
            && select.having_clause.is_none()
            && select.sort_clause.is_empty()
            && select.distinct_clause.is_empty()
            && select.limit_count.is_none()
            && select.limit_offset.is_none()
            && select.larg.is_none()
            && select.values_lists.is_empty();
        let target = match select.target_list.as_slice() {
            [Node { node: Some(node::Node::ResTarget(target)) }] => target,
            _ => {
                return Err(self.error(
                    SqlState::SYNTAX_ERROR,
                    self.piece.span(),
                    format!("query returned {} columns", select.target_list.len()),
                ));
            }
        };
        match (&target.val, ty) {
            (Some(value), Some(ty)) if plain => self.bind_value(value, ty),
            (Some(value), None) if plain => self.bind_expr(value),
            _ => {
                let expr = self.bind_scalar_subquery(select, self.piece.span())?;
                match ty {
                    Some(ty) => self.coerce_assign(expr, ty),
                    None => Ok(expr),
                }
            }
        }
    }
}
