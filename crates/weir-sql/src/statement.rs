//! Ad-hoc statements: one text, with `$n` parameters whose types are inferred where they are not given.

use weir_types::{SqlState, SqlType};

use crate::binder::{Binder, Context};
use crate::bound::{Procedure, Statement};
use crate::catalog::Catalog;
use crate::parse::{self, Piece};
use crate::routine::{self, BoundCall, Signature, SignatureParameter};
use crate::source::Diagnostic;

use pg_query::protobuf::node;

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

/// Binds `CALL p(…)`; the result's `procedure` is an index into `procedures`.
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
    let node::Node::CallStmt(call) = &parsed.node else {
        return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.token(0), "this is not a CALL"));
    };
    let Some(call) = &call.funccall else {
        return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, piece.token(0), "CALL of nothing"));
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
