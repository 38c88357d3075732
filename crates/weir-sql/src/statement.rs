//! Ad-hoc statements: one text, with `$n` parameters whose types are inferred where they are not given.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_types::{CatalogType, SqlState, SqlType};

use crate::binder::{Binder, Context, show_names};
use crate::bound::{Procedure, Query, Statement};
use crate::catalog::Catalog;
use crate::parse::deparse::{can_be_rewritten, deparse};
use crate::parse::{self, Piece};
use crate::routine::{self, BoundCall, Signature, SignatureParameter};
use crate::source::Diagnostic;
use crate::system::{Facts, System};

use pg_query::protobuf::{FuncCall, node};

/// The file of a text that stands in none.
pub(crate) const CLIENT: u32 = u32::MAX;

/// Binds one SELECT, VALUES, INSERT, UPDATE or DELETE; places are bytes of `text`, in file 0.
///
/// `parameters` are the types of `$1`, `$2` …, Unknown for those to infer; there may be more of them in
/// the text. Returns the statement and the type of every parameter.
///
/// # Errors
/// The statement is invalid, or 42P18 for a parameter whose type cannot be inferred.
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

/// One statement as it was written, and the types of its parameters `$1`, `$2` …: all that it takes to bind it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Text {
    pub sql: String,
    pub types: Vec<SqlType>,
}

/// One statement as a tree, with the text that its places are of. A rewritten one has places of what it was, and one that stands within
/// another has places of the whole.
#[derive(Clone, Debug)]
pub struct ParsedText<'t> {
    text: &'t str,
    node: Cow<'t, node::Node>,
}

impl<'t> ParsedText<'t> {
    /// # Errors
    /// The text is not one statement.
    pub fn of(text: &'t str) -> Result<ParsedText<'t>, Diagnostic> {
        let parsed = parse::parse_statement(Piece::new(CLIENT, 0, text))?;
        Ok(ParsedText { text, node: Cow::Owned(parsed.node) })
    }

    /// A statement of the text that has been parsed with it.
    pub(crate) fn within(text: &'t str, node: &'t node::Node) -> ParsedText<'t> {
        ParsedText { text, node: Cow::Borrowed(node) }
    }

    pub fn text(&self) -> &'t str {
        self.text
    }

    pub(crate) fn piece(&self) -> Piece<'t> {
        Piece::new(CLIENT, 0, self.text)
    }

    pub(crate) fn node(&self) -> &node::Node {
        &self.node
    }

    /// Its tree has few enough levels.
    pub(crate) fn can_be_rewritten(&self) -> bool {
        can_be_rewritten(&self.node)
    }

    /// Another statement, made of this one.
    pub(crate) fn rewritten(&self, node: node::Node) -> ParsedText<'t> {
        ParsedText { text: self.text, node: Cow::Owned(node) }
    }

    /// The tree as a text, by which shards know it.
    ///
    /// # Errors
    /// There is no text for it.
    pub fn sql(&self) -> Result<String, Diagnostic> {
        deparse(&self.node)
    }

    /// Binds it as [`bind_text`] does.
    ///
    /// # Errors
    /// As [`bind_text`].
    pub fn bind(
        &self,
        catalog: &Catalog,
        procedures: &[Procedure],
        parameters: &[SqlType],
    ) -> Result<(BoundText, Vec<SqlType>), Diagnostic> {
        let piece = self.piece();
        let node = self.node();
        let called = called(node, procedures);
        let signatures: Vec<Signature> = match called {
            Some(_) => procedures.iter().map(signature_of).collect(),
            None => Vec::new(),
        };
        let context = Context { infer_parameters: true, signatures: &signatures, ..Context::new(catalog) };
        let mut binder = Binder::new(&context, piece).with_parameters(parameters);
        let bound = match called {
            Some((call, name)) => {
                let as_value =
                    matches!(node, node::Node::SelectStmt(select) if select.from_clause.is_empty());
                BoundText::Call { call: routine::bind_call(&mut binder, call)?, name, as_value }
            }
            None => {
                let bound = binder.bind_statement(node);
                let bound = bound.map_err(|wrong| call_within(self.text, procedures, wrong))?;
                BoundText::Statement(Box::new(bound))
            }
        };
        let types = known_types(piece, binder.parameters())?;
        Ok((bound, types))
    }

    /// Binds it as [`bind_system_query`] does.
    ///
    /// # Errors
    /// As [`bind_system_query`].
    pub fn bind_system(
        self,
        system: &System,
        facts: &Facts,
        parameters: &[SqlType],
    ) -> Result<BoundSystemQuery, Diagnostic> {
        bind_system(system, facts, (self.piece(), self.node.into_owned()), parameters)
    }
}

/// It is a DO statement.
pub fn is_block(text: &str) -> bool {
    crate::lexer::Lexer::new(text, 0).next().is_some_and(|first| first.is_word(text, "do"))
}

/// Binds a DO statement that is no session's, as a procedure.
///
/// # Errors
/// The text is invalid or not supported.
pub fn bind_block(catalog: &Catalog, text: &str) -> Result<Procedure, Diagnostic> {
    let piece = Piece::new(0, 0, text);
    let parsed = parse::parse_statement(piece)?;
    match &parsed.node {
        node::Node::DoStmt(stmt) => crate::plpgsql::bind_block(catalog, piece, stmt, parsed.span),
        _ => Err(Diagnostic::new(SqlState::SYNTAX_ERROR, parsed.span, "it is no DO")),
    }
}

/// A bound client text.
#[derive(Clone, Debug)]
pub enum BoundText {
    /// `CALL p(…)`, `SELECT f(…)` or `SELECT * FROM f(…)` of a procedure, by its index. `name`: what the one column is called
    /// instead. `as_value`: it stands in the select list, so that several columns are one value, a record.
    Call {
        call: BoundCall,
        name: Option<String>,
        as_value: bool,
    },
    Statement(Box<Statement>),
}

/// Binds a text as [`bind_statement`] does, or as a call of one of these procedures if it is that and nothing else.
///
/// # Errors
/// As [`bind_statement`], and 42883 where no procedure fits.
pub fn bind_text(
    catalog: &Catalog,
    procedures: &[Procedure],
    text: &str,
    parameters: &[SqlType],
) -> Result<(BoundText, Vec<SqlType>), Diagnostic> {
    ParsedText::of(text)?.bind(catalog, procedures, parameters)
}

/// A function of the application is there, but not for queries.
fn call_within(text: &str, procedures: &[Procedure], wrong: Diagnostic) -> Diagnostic {
    let at = text.get(wrong.span.start as usize..).unwrap_or_default();
    let is_named = |procedure: &&Procedure| {
        let name = at.get(..procedure.name.len());
        name.is_some_and(|name| name.eq_ignore_ascii_case(&procedure.name))
            && !at[procedure.name.len()..].starts_with(|next: char| next == '_' || next.is_alphanumeric())
    };
    match procedures.iter().find(is_named).filter(|_| wrong.state == SqlState::UNDEFINED_FUNCTION) {
        Some(procedure) => {
            let what = format!("a call of {} within a statement", procedure.name);
            Diagnostic::unsupported(
                wrong.span,
                what,
                "call it by itself: SELECT f(…), SELECT * FROM f(…), CALL p(…)",
            )
        }
        None => wrong,
    }
}

/// A query of the system catalog.
pub struct BoundSystemQuery {
    pub query: Query,
    /// The types of `$1`, `$2` …
    pub parameters: Vec<SqlType>,
    /// Parameter types reported to clients, where they are catalog types.
    pub told: Vec<Option<CatalogType>>,
}

/// Binds a query that may read the system catalog, with the facts of its session.
///
/// # Errors
/// As [`bind_statement`]; or it is no query (0A000).
pub fn bind_system_query(
    system: &System,
    facts: &Facts,
    text: &str,
    parameters: &[SqlType],
) -> Result<BoundSystemQuery, Diagnostic> {
    ParsedText::of(text)?.bind_system(system, facts, parameters)
}

fn bind_system(
    system: &System,
    facts: &Facts,
    (piece, mut node): (Piece<'_>, node::Node),
    parameters: &[SqlType],
) -> Result<BoundSystemQuery, Diagnostic> {
    show_names(&mut node);
    let context = Context { infer_parameters: true, system: Some(facts), ..Context::new(&system.catalog) };
    let mut binder = Binder::new(&context, piece).with_parameters(parameters);
    match binder.bind_statement(&node)? {
        Statement::Query(query) if !query.has_effects() => {
            let known = known_types(piece, binder.parameters())?;
            let mut told = binder.parameter_catalog_types();
            // A type given by the client is reported as given.
            for (told, given) in told.iter_mut().zip(parameters) {
                *told = told.filter(|_| *given == SqlType::Unknown);
            }
            Ok(BoundSystemQuery { query, parameters: known, told })
        }
        _ => Err(Diagnostic::unsupported(
            piece.token(parse::first_token(piece.text)),
            "a statement that writes or locks and reads the system catalog",
            "read what it says of the schema first",
        )),
    }
}

/// The call that the statement consists of, and an alias of its column; none if the statement does anything else.
fn called<'a>(statement: &'a node::Node, procedures: &[Procedure]) -> Option<(&'a FuncCall, Option<String>)> {
    let select = match statement {
        node::Node::CallStmt(call) => return Some((call.funccall.as_deref()?, None)),
        node::Node::SelectStmt(select) => select,
        _ => return None,
    };
    let call = routine::only_call(statement)?;
    let has_more = !select.distinct_clause.is_empty()
        || !select.window_clause.is_empty()
        || !select.sort_clause.is_empty()
        || select.limit_offset.is_some()
        || select.limit_count.is_some()
        || !select.locking_clause.is_empty();
    let Some(node::Node::ResTarget(target)) = select.target_list.first().and_then(|one| one.node.as_ref())
    else {
        return None;
    };
    let takes_all = match select.from_clause.first().and_then(|from| from.node.as_ref()) {
        None => true,
        Some(node::Node::RangeFunction(range)) => {
            let value = target.val.as_deref().and_then(|value| value.node.as_ref());
            let is_star = matches!(value, Some(node::Node::ColumnRef(column))
                if matches!(&column.fields[..], [one] if matches!(one.node, Some(node::Node::AStar(_)))));
            is_star && select.target_list.len() == 1 && range.alias.is_none() && !range.ordinality
        }
        Some(_) => false,
    };
    let Some(node::Node::String(name)) = call.funcname.last().and_then(|name| name.node.as_ref()) else {
        return None;
    };
    let is_ours = procedures.iter().any(|procedure| procedure.name == name.sval);
    let renamed = match (target.name.is_empty(), select.from_clause.is_empty()) {
        (false, _) => Some(target.name.clone()),
        // A value is called as its function is, whatever its column is called.
        (true, true) => Some(name.sval.clone()),
        (true, false) => None,
    };
    (is_ours && takes_all && !has_more).then_some((call, renamed))
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
