//! Ad-hoc statements: one text, with `$n` parameters whose types are inferred where they are not given.

use weir_types::{SqlState, SqlType};

use crate::binder::{Binder, Context};
use crate::bound::{Procedure, Statement};
use crate::catalog::Catalog;
use crate::parse::{self, Piece};
use crate::routine::{self, BoundCall, Signature, SignatureParameter};
use crate::source::Diagnostic;

use pg_query::protobuf::{FuncCall, node};

/// Binds one SELECT, VALUES, INSERT, UPDATE or DELETE; places are bytes of `text`, in file 0.
///
/// `parameters` are the types of `$1`, `$2` …, Unknown for those to infer; there may be more of them in
/// the text. Returns the statement and the type of every parameter.
///
/// # Errors
/// What is wrong with the statement, or 42P18 for a parameter that nothing gives a type.
pub fn bind_statement(
    catalog: &Catalog,
    text: &str,
    parameters: Option<&[SqlType]>,
) -> Result<(Statement, Vec<SqlType>), Diagnostic> {
    let piece = Piece::new(0, 0, text);
    let parsed = parse::parse_statement(piece)?;
    let context = Context { infer_parameters: true, ..Context::new(catalog) };
    let mut binder = Binder::new(&context, piece).with_parameters(parameters.unwrap_or(&[]));
    let statement = binder.bind_statement(&parsed.node)?;
    let types = known_types(piece, binder.parameters())?;
    Ok((statement, types))
}

/// Is it `CALL p(…)`, or `SELECT f(…)` or `SELECT … FROM f(…)` of one of these procedures and of nothing else?
///
/// # Errors
/// It is no statement of PostgreSQL's grammar.
pub fn is_call(procedures: &[Procedure], text: &str) -> Result<bool, Diagnostic> {
    let parsed = parse::parse_statement(Piece::new(0, 0, text))?;
    let name = match &parsed.node {
        node::Node::CallStmt(_) => return Ok(true),
        node => called_alone(node).and_then(|call| call.funcname.last()).and_then(|name| name.node.as_ref()),
    };
    let Some(node::Node::String(name)) = name else { return Ok(false) };
    Ok(procedures.iter().any(|procedure| procedure.name == name.sval))
}

/// The function of `SELECT f(…)`, or of `SELECT * FROM f(…)`.
fn called_alone(statement: &node::Node) -> Option<&FuncCall> {
    let node::Node::SelectStmt(select) = statement else { return None };
    let plain = select.where_clause.is_none()
        && select.group_clause.is_empty()
        && select.sort_clause.is_empty()
        && select.limit_count.is_none()
        && select.with_clause.is_none();
    let [target] = &select.target_list[..] else { return None };
    let Some(node::Node::ResTarget(target)) = &target.node else { return None };
    let value = target.val.as_ref()?.node.as_ref()?;
    match (value, &select.from_clause[..]) {
        (node::Node::FuncCall(call), []) if plain => Some(call),
        (node::Node::ColumnRef(column), [from]) if plain => {
            let is_star =
                matches!(&column.fields[..], [one] if matches!(one.node, Some(node::Node::AStar(_))));
            let Some(node::Node::RangeFunction(function)) = &from.node else { return None };
            let [item] = &function.functions[..] else { return None };
            let Some(node::Node::List(list)) = &item.node else { return None };
            match list.items.first()?.node.as_ref()? {
                node::Node::FuncCall(call) if is_star => Some(call),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Binds what [`is_call`] says is one; the result's `procedure` is an index into `procedures`.
///
/// # Errors
/// As [`bind_statement`], and 42883 where no procedure fits.
pub fn bind_call(
    catalog: &Catalog,
    procedures: &[Procedure],
    text: &str,
    parameters: Option<&[SqlType]>,
) -> Result<(BoundCall, Vec<SqlType>), Diagnostic> {
    let piece = Piece::new(0, 0, text);
    let parsed = parse::parse_statement(piece)?;
    let call = match &parsed.node {
        node::Node::CallStmt(call) => call.funccall.as_deref(),
        node => called_alone(node),
    };
    let Some(call) = call else {
        return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.token(0), "this is not a CALL"));
    };
    let signatures: Vec<Signature> = procedures.iter().map(signature_of).collect();
    let context = Context { infer_parameters: true, signatures: &signatures, ..Context::new(catalog) };
    let mut binder = Binder::new(&context, piece).with_parameters(parameters.unwrap_or(&[]));
    let bound = routine::bind_call(&mut binder, call)?;
    let types = known_types(piece, binder.parameters())?;
    Ok((bound, types))
}

fn signature_of(procedure: &Procedure) -> Signature {
    let parameters = procedure.parameters.iter().map(|parameter| SignatureParameter {
        name: parameter.name.clone(),
        ty: parameter.ty.clone(),
        mode: parameter.mode,
        default: parameter.default.clone(),
    });
    Signature {
        name: procedure.name.clone(),
        kind: procedure.kind.clone(),
        parameters: parameters.collect(),
        span: procedure.span,
    }
}

fn known_types(piece: Piece<'_>, types: &[SqlType]) -> Result<Vec<SqlType>, Diagnostic> {
    match types.iter().position(|ty| *ty == SqlType::Unknown) {
        None => Ok(types.to_vec()),
        Some(index) => {
            let name = format!("${}", index + 1);
            let at = crate::lexer::Lexer::new(piece.text, 0)
                .find(|token| piece.text[token.start..token.end] == name)
                .map_or(0, |token| token.start as i32);
            Err(Diagnostic::new(
                SqlState::INDETERMINATE_DATATYPE,
                piece.token(at),
                format!("could not determine data type of parameter {name}"),
            )
            .with_hint(format!("cast it: {name}::integer")))
        }
    }
}
