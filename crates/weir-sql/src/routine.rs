//! Procedures and functions as their callers see them, and how the arguments of a call meet the parameters.
//!
//! Bodies are bound elsewhere ([`crate::plpgsql`]); all signatures are known before the first body is
//! bound, so that procedures may call each other in any order.

use pg_query::protobuf::{CreateFunctionStmt, CreateTrigStmt, FuncCall, FunctionParameterMode, Node, node};
use weir_types::{CastContext, SqlState, SqlType};

use crate::binder::{Binder, Context, expr_strings};
use crate::bound::{Expr, ExprKind, ParameterMode, ProcedureKind};
use crate::ddl::qualified;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// Interface of a procedure for callers; its index in the list is the procedure's.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: String,
    pub kind: ProcedureKind,
    /// In declaration order. The columns of `RETURNS TABLE` are not parameters but `kind`'s columns.
    pub parameters: Vec<SignatureParameter>,
    /// Position of the name in CREATE PROCEDURE.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct SignatureParameter {
    /// Empty for an unnamed parameter.
    pub name: String,
    pub ty: SqlType,
    pub mode: ParameterMode,
    /// Already cast to `ty`.
    pub default: Option<Expr>,
}

/// A CALL, or a function's call as a statement.
#[derive(Clone, Debug)]
pub struct BoundCall {
    pub procedure: usize,
    /// One per IN and INOUT parameter, in declaration order, already cast; defaults are filled in.
    pub args: Vec<Expr>,
    /// For each OUT and INOUT parameter in declaration order, the argument that the CALL has in its
    /// place, bound but not cast: PL/pgSQL wants variables there, a client writes NULL. INOUT
    /// arguments are in both lists.
    pub out_args: Vec<Option<Expr>>,
}

/// Name of a routine: the schemas `public` and `pg_catalog` are omitted, any other is part of it.
pub fn simple_name(parts: &[Node], span: Span) -> Result<String, Diagnostic> {
    match expr_strings(parts).as_slice() {
        [name] | ["pg_catalog", name] => Ok((*name).to_owned()),
        [schema, name] => Ok(qualified(schema, name)),
        names => Err(Diagnostic::unsupported(
            span,
            format!("the name {}", names.join(".")),
            "qualify it by a schema at most",
        )),
    }
}

/// Is it a function for triggers?
pub(crate) fn returns_trigger(create: &CreateFunctionStmt) -> bool {
    create
        .return_type
        .as_ref()
        .is_some_and(|ty| matches!(expr_strings(&ty.names).last(), Some(&("trigger" | "event_trigger"))))
}

/// Is this the function that the trigger runs?
pub(crate) fn creates(create: &CreateFunctionStmt, trigger: &CreateTrigStmt) -> bool {
    let name = |parts: &[Node]| simple_name(parts, Span::default()).unwrap_or_default();
    name(&create.funcname) == name(&trigger.funcname)
}

/// Reads the head of CREATE PROCEDURE or CREATE FUNCTION.
pub fn signature(
    context: &Context<'_>,
    piece: Piece<'_>,
    create: &CreateFunctionStmt,
    span: Span,
) -> Result<Signature, Diagnostic> {
    let name = simple_name(&create.funcname, span)?;
    let mut parameters = Vec::new();
    let mut table_columns = Vec::new();
    for node in &create.parameters {
        let Some(node::Node::FunctionParameter(parameter)) = &node.node else { continue };
        let place = match parameter.location {
            location if location >= 0 => piece.token(location),
            _ => span,
        };
        let Some(type_node) = &parameter.arg_type else { continue };
        let ty = type_name::unmodified(type_name::resolve_in(context, piece, type_node)?);
        let mode = match FunctionParameterMode::try_from(parameter.mode) {
            Ok(FunctionParameterMode::FuncParamOut) => ParameterMode::Out,
            Ok(FunctionParameterMode::FuncParamInout) => ParameterMode::InOut,
            Ok(FunctionParameterMode::FuncParamTable) => {
                table_columns.push((parameter.name.clone(), ty));
                continue;
            }
            Ok(FunctionParameterMode::FuncParamVariadic) => {
                return Err(Diagnostic::unsupported(
                    place,
                    "a VARIADIC parameter",
                    "declare an array parameter and pass ARRAY[…]",
                ));
            }
            _ => ParameterMode::In,
        };
        let duplicate = |other: &SignatureParameter| !other.name.is_empty() && other.name == parameter.name;
        if parameters.iter().any(duplicate) {
            return Err(Diagnostic::new(
                SqlState::INVALID_FUNCTION_DEFINITION,
                place,
                format!("parameter name \"{}\" used more than once", parameter.name),
            ));
        }
        let default = match &parameter.defexpr {
            Some(node) => Some(Binder::new(context, piece).bind_value(node, &ty)?),
            None => None,
        };
        parameters.push(SignatureParameter { name: parameter.name.clone(), ty, mode, default });
    }
    let kind = kind(context, piece, create, &parameters, table_columns)?;
    Ok(Signature { name, kind, parameters, span })
}

fn kind(
    context: &Context<'_>,
    piece: Piece<'_>,
    create: &CreateFunctionStmt,
    parameters: &[SignatureParameter],
    table_columns: Vec<(String, SqlType)>,
) -> Result<ProcedureKind, Diagnostic> {
    if create.is_procedure {
        return Ok(ProcedureKind::Procedure);
    }
    if !table_columns.is_empty() {
        return Ok(ProcedureKind::SetReturningFunction { columns: table_columns });
    }
    let outputs: Vec<&SignatureParameter> =
        parameters.iter().filter(|parameter| parameter.mode != ParameterMode::In).collect();
    let Some(returns) = &create.return_type else {
        let returns = match outputs.as_slice() {
            [] => SqlType::Void,
            [one] => one.ty.clone(),
            _ => SqlType::Record,
        };
        return Ok(ProcedureKind::Function { returns });
    };
    if !returns.setof {
        let returns = type_name::unmodified(type_name::resolve_in(context, piece, returns)?);
        return Ok(ProcedureKind::Function { returns });
    }
    let named = |parameter: &&SignatureParameter| (parameter.name.clone(), parameter.ty.clone());
    if !outputs.is_empty() {
        return Ok(ProcedureKind::SetReturningFunction { columns: outputs.iter().map(named).collect() });
    }
    if let Some(table) = type_name::table_of(context.catalog, returns) {
        let seen = table.columns.iter().filter(|column| !column.is_hidden);
        let columns = seen.map(|column| (column.name.clone(), column.ty.clone())).collect();
        return Ok(ProcedureKind::SetReturningFunction { columns });
    }
    let mut element = returns.clone();
    element.setof = false;
    let ty = type_name::unmodified(type_name::resolve_in(context, piece, &element)?);
    let name = simple_name(&create.funcname, piece.token(returns.location))?;
    Ok(ProcedureKind::SetReturningFunction { columns: vec![(name, ty)] })
}

/// The one function that a query calls and does nothing else: `SELECT f(…)`, `SELECT * FROM f(…)`.
pub(crate) fn only_call(statement: &node::Node) -> Option<&FuncCall> {
    let node::Node::SelectStmt(select) = statement else { return None };
    let plain = select.where_clause.is_none()
        && select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.values_lists.is_empty()
        && select.with_clause.is_none()
        && select.larg.is_none();
    let value = |node: &'_ Node| match &node.node {
        Some(node::Node::ResTarget(target)) => target.val.clone(),
        _ => None,
    };
    let is_column =
        |node: &Node| value(node).is_some_and(|value| matches!(value.node, Some(node::Node::ColumnRef(_))));
    match (select.target_list.as_slice(), select.from_clause.as_slice()) {
        _ if !plain => None,
        ([Node { node: Some(node::Node::ResTarget(target)) }], []) => match &target.val.as_deref()?.node {
            Some(node::Node::FuncCall(call)) => Some(call),
            _ => None,
        },
        (targets, [Node { node: Some(node::Node::RangeFunction(range)) }])
            if targets.iter().all(is_column) =>
        {
            let [Node { node: Some(node::Node::List(list)) }] = range.functions.as_slice() else {
                return None;
            };
            match &list.items.first()?.node {
                Some(node::Node::FuncCall(call)) => Some(call),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Finds the procedure of a call, and for each of its parameters the argument.
pub(crate) fn bind_call<'a>(binder: &mut Binder<'a>, call: &'a FuncCall) -> Result<BoundCall, Diagnostic> {
    let span = binder.piece().token(call.location);
    let name = simple_name(&call.funcname, span)?;
    let signatures = binder.context().signatures;
    let candidates: Vec<usize> = (0..signatures.len()).filter(|&i| signatures[i].name == name).collect();
    let procedure = match candidates.as_slice() {
        [] => {
            return Err(Diagnostic::new(
                SqlState::UNDEFINED_FUNCTION,
                span,
                format!("procedure {name} does not exist"),
            ));
        }
        [one] => *one,
        several => *several.iter().find(|&&i| signatures[i].parameters.len() == call.args.len()).ok_or_else(
            || {
                Diagnostic::new(
                    SqlState::UNDEFINED_FUNCTION,
                    span,
                    format!("no procedure {name} takes {} arguments", call.args.len()),
                )
            },
        )?,
    };
    let signature = &signatures[procedure];
    let places = place_arguments(binder, signature, call, span)?;
    let (mut args, mut out_args) = (Vec::new(), Vec::new());
    for (parameter, argument) in signature.parameters.iter().zip(places) {
        if parameter.mode != ParameterMode::Out {
            args.push(match (argument, &parameter.default) {
                (Some(node), _) => bind_argument(binder, signature, parameter, node)?,
                (None, Some(default)) => default.clone(),
                (None, None) => {
                    return Err(missing_argument(signature, parameter, span));
                }
            });
        }
        if parameter.mode != ParameterMode::In {
            out_args.push(match argument {
                Some(node) => Some(binder.bind_expr(node)?),
                None => None,
            });
        }
    }
    Ok(BoundCall { procedure, args, out_args })
}

/// Arguments are cast only as operands are: 1.5 is no integer here.
fn bind_argument<'a>(
    binder: &mut Binder<'a>,
    signature: &Signature,
    parameter: &SignatureParameter,
    node: &'a Node,
) -> Result<Expr, Diagnostic> {
    let argument = binder.bind_expr_toward(node, &parameter.ty)?;
    let (span, ty) = (argument.span, argument.ty.clone());
    let known = ty != SqlType::Unknown;
    binder.coerce(argument, &parameter.ty, CastContext::Implicit).map_err(|error| match known {
        false => error,
        true => Diagnostic::new(
            SqlState::UNDEFINED_FUNCTION,
            span,
            format!(
                "{} takes {} as {}, not {}",
                signature.name,
                parameter.ty.name(),
                parameter.name,
                ty.name()
            ),
        )
        .with_hint(format!("cast the argument: …::{}", parameter.ty.name())),
    })
}

fn missing_argument(signature: &Signature, parameter: &SignatureParameter, span: Span) -> Diagnostic {
    Diagnostic::new(
        SqlState::UNDEFINED_FUNCTION,
        span,
        format!("the call of {} lacks its parameter {} {}", signature.name, parameter.name, parameter.ty),
    )
}

/// Positional arguments first, then `name => value`. A function's OUT parameters take no argument.
fn place_arguments<'a>(
    binder: &Binder<'a>,
    signature: &Signature,
    call: &'a FuncCall,
    span: Span,
) -> Result<Vec<Option<&'a Node>>, Diagnostic> {
    let takes_argument = |parameter: &SignatureParameter| {
        parameter.mode != ParameterMode::Out || signature.kind == ProcedureKind::Procedure
    };
    let slots: Vec<usize> =
        (0..signature.parameters.len()).filter(|&i| takes_argument(&signature.parameters[i])).collect();
    let mut places: Vec<Option<&Node>> = vec![None; signature.parameters.len()];
    for (position, node) in call.args.iter().enumerate() {
        let (slot, value) = match &node.node {
            Some(node::Node::NamedArgExpr(named)) => {
                let slot = signature.parameters.iter().position(|parameter| parameter.name == named.name);
                let slot = slot.ok_or_else(|| {
                    Diagnostic::new(
                        SqlState::UNDEFINED_FUNCTION,
                        binder.piece().token(named.location),
                        format!("{} has no parameter {}", signature.name, named.name),
                    )
                })?;
                (Some(slot), named.arg.as_deref())
            }
            _ => (slots.get(position).copied(), Some(node)),
        };
        let Some(slot) = slot else {
            return Err(Diagnostic::new(
                SqlState::UNDEFINED_FUNCTION,
                span,
                format!("{} takes {} arguments, not {}", signature.name, slots.len(), call.args.len()),
            ));
        };
        if places[slot].is_some() {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                span,
                format!("argument {} is given twice", signature.parameters[slot].name),
            ));
        }
        places[slot] = value;
    }
    Ok(places)
}

/// NULL, as a client writes it in the place of an OUT argument.
pub fn is_null_literal(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Literal(value) if value.is_null())
}
