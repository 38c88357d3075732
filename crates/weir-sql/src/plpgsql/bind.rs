//! CREATE PROCEDURE and CREATE FUNCTION to [`Procedure`]: options, parameters, language, result.

use pg_query::protobuf::{
    CreateFunctionStmt, DefElem, DoStmt, FunctionParameterMode, Node, VariableSetStmt, a_const, node,
};
use weir_types::{SqlState, SqlType, Value};

use super::parser;
use super::scope::Scopes;
use super::script::body_of_block;
use crate::binder::{self, Binder, Context};
use crate::bound::{
    Expr, ExprKind, LoopLabel, OpaqueStep, Parameter, ParameterMode, Procedure, ProcedureKind, Raise,
    RaiseLevel, Step, StepKind, VariableId,
};
use crate::catalog::Catalog;
use crate::lexer::{Lexer, TokenKind};
use crate::mentions::Mentions;
use crate::notes::{self, Notes};
use crate::parse::{self, Piece};
use crate::routine::{self, Signature};
use crate::source::{Diagnostic, Span};

/// Context in which a body is bound.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub catalog: &'a Catalog,
    pub signatures: &'a [Signature],
    /// A tolerant reading has both of these: what it does not understand is noted, and becomes steps that may do
    /// whatever their text mentions.
    pub notes: Option<&'a Notes>,
    pub mentions: Option<&'a Mentions>,
    /// As in PostgreSQL, a body that names what is not there is an error when it is called: in PL/pgSQL always, in SQL once it has been
    /// created. So many files have been read; none: all that is wrong is an error at once.
    pub late_of: Option<u32>,
}

impl<'a> Surroundings<'a> {
    pub fn context(&self) -> Context<'a> {
        Context { signatures: self.signatures, ..Context::new(self.catalog).noting(self.notes) }
    }

    fn binds_late(
        &self,
        piece: Piece<'_>,
        create: &CreateFunctionStmt,
        span: Span,
        error: &Diagnostic,
    ) -> bool {
        let is_missing = matches!(
            error.state,
            SqlState::UNDEFINED_TABLE
                | SqlState::UNDEFINED_COLUMN
                | SqlState::UNDEFINED_FUNCTION
                | SqlState::UNDEFINED_OBJECT
        );
        let Some(files) = self.late_of.filter(|_| is_missing && create.sql_body.is_none()) else {
            return false;
        };
        let options = Options::read(piece, create, span, None);
        span.file + 1 < files || options.is_ok_and(|options| options.language == "plpgsql")
    }
}

/// Binds the body of the procedure `signatures[index]`.
///
/// `create`'s locations are bytes of `piece`; `span` is the whole statement. Errors have their place.
pub(crate) fn bind_procedure(
    surroundings: Surroundings<'_>,
    index: usize,
    piece: Piece<'_>,
    create: &CreateFunctionStmt,
    span: Span,
) -> Result<Procedure, Diagnostic> {
    let Some(signature) = surroundings.signatures.get(index) else {
        return Err(Diagnostic::new(SqlState::UNDEFINED_FUNCTION, span, "the procedure has no signature"));
    };
    let (mut body, parameters, found) = Body::new(surroundings, signature, piece, returns_table(create));
    let (steps, serializable) = match routine_steps(&mut body, &parameters, piece, create, span) {
        Ok(bound) => bound,
        Err(error) if surroundings.binds_late(piece, create, span, &error) => (raising(error), false),
        Err(error) => (opaque_body(surroundings, piece, span, error)?, false),
    };
    Ok(Procedure { serializable, ..body.into_procedure(signature, (parameters, found), steps, span) })
}

/// Binds the body of a DO statement as a procedure without parameters.
pub(crate) fn bind_block(
    catalog: &Catalog,
    piece: Piece<'_>,
    stmt: &DoStmt,
    span: Span,
) -> Result<Procedure, Diagnostic> {
    let text = body_of_block(piece, stmt, span)?;
    let signature =
        Signature { name: "DO".to_owned(), kind: ProcedureKind::Procedure, parameters: Vec::new(), span };
    let surroundings = Surroundings { catalog, signatures: &[], notes: None, mentions: None, late_of: None };
    let (mut body, parameters, found) = Body::new(surroundings, &signature, piece, false);
    let steps = body.whole_body(&parser::parse(text.file, text.offset, text.text)?)?;
    Ok(body.into_procedure(&signature, (parameters, found), steps, span))
}

/// The steps, and whether it is to run serializably.
fn routine_steps(
    body: &mut Body<'_>,
    parameters: &[Parameter],
    piece: Piece<'_>,
    create: &CreateFunctionStmt,
    span: Span,
) -> Result<(Vec<Step>, bool), Diagnostic> {
    let options = Options::read(piece, create, span, body.notes)?;
    let mut steps = body.null_on_null_input(parameters, &options);
    steps.extend(match (&create.sql_body, options.language.as_str()) {
        (Some(sql_body), "sql") => body.atomic_body(piece, sql_body, span)?,
        (None, "sql") => body.sql_text(options.body(piece, span)?)?,
        (None, "plpgsql") => {
            let text = options.body(piece, span)?;
            let block = parser::parse_with(text.file, text.offset, text.text, body.notes.is_some())?;
            body.whole_body(&block)?
        }
        (_, other) => {
            return Err(Diagnostic::unsupported(
                options.language_at,
                format!("LANGUAGE {other}"),
                "write the body in LANGUAGE plpgsql or LANGUAGE SQL",
            ));
        }
    });
    Ok((steps, options.serializable))
}

/// A body that says what it names and is not there.
fn raising(error: Diagnostic) -> Vec<Step> {
    let Diagnostic { span, state, message, .. } = error;
    let raise = Raise {
        level: RaiseLevel::Exception,
        format: message.replace('%', "%%"),
        args: Vec::new(),
        state,
        message: None,
        detail: None,
        hint: None,
    };
    vec![Step { kind: StepKind::Raise(raise), span }]
}

/// A body that is not understood at all.
pub(super) fn opaque_body(
    surroundings: Surroundings<'_>,
    piece: Piece<'_>,
    span: Span,
    error: Diagnostic,
) -> Result<Vec<Step>, Diagnostic> {
    let (Some(notes), Some(mentions)) = (surroundings.notes, surroundings.mentions) else {
        return Err(error);
    };
    notes.leave_out(error);
    let step = mentions.of(piece.text_of(span));
    Ok(vec![Step { kind: StepKind::Opaque(step), span }])
}

/// RETURNS TABLE declares its columns as variables; RETURNS SETOF has no names to declare.
fn returns_table(create: &CreateFunctionStmt) -> bool {
    create.parameters.iter().any(|node| match &node.node {
        Some(node::Node::FunctionParameter(parameter)) => {
            parameter.mode() == FunctionParameterMode::FuncParamTable
        }
        _ => false,
    })
}

/// Options of a routine, besides its body.
pub(super) struct Options {
    pub language: String,
    pub language_at: Span,
    /// Position of the word AS.
    body_at: Option<i32>,
    strict: bool,
    serializable: bool,
}

impl Options {
    pub fn read(
        piece: Piece<'_>,
        create: &CreateFunctionStmt,
        span: Span,
        notes: Option<&Notes>,
    ) -> Result<Options, Diagnostic> {
        // A tolerant reading passes over statements that change nothing about the effects.
        let ignore =
            |refusal: Diagnostic| notes::note(notes, refusal, |notes, refusal| notes.ignore(refusal, false));
        let mut options = Options {
            language: "sql".into(),
            language_at: span,
            body_at: None,
            strict: false,
            serializable: false,
        };
        for option in &create.options {
            let Some(node::Node::DefElem(option)) = &option.node else { continue };
            let place = piece.token(option.location);
            match option.defname.as_str() {
                "language" => {
                    options.language = word(option).to_ascii_lowercase();
                    options.language_at = place;
                }
                "as" => options.body_at = Some(option.location),
                "strict" => options.strict = truth(option),
                "security" if truth(option) => {
                    ignore(Diagnostic::unsupported(
                        place,
                        "SECURITY DEFINER",
                        "there are no privileges inside of Weir: leave it away",
                    ))?;
                }
                // Hints for PostgreSQL's planner; they change no result.
                "volatility" | "parallel" | "cost" | "rows" | "leakproof" | "security" => {}
                "set" => match option.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
                    Some(node::Node::VariableSetStmt(set)) => {
                        options.setting(set, place).or_else(ignore)?;
                    }
                    _ => ignore(unknown_option(place, "SET"))?,
                },
                other => ignore(unknown_option(place, &other.to_uppercase()))?,
            }
        }
        if options.body_at.is_none() && create.sql_body.is_none() {
            return Err(Diagnostic::new(
                SqlState::INVALID_FUNCTION_DEFINITION,
                span,
                "no function body specified",
            ));
        }
        Ok(options)
    }

    /// Options of DO.
    pub fn of_block(piece: Piece<'_>, elements: &[&DefElem], span: Span) -> Options {
        let find = |name: &str| elements.iter().find(|element| element.defname == name);
        let language = find("language");
        Options {
            language: language.map_or_else(|| "plpgsql".to_owned(), |one| word(one).to_ascii_lowercase()),
            language_at: language.map_or(span, |one| piece.token(one.location)),
            body_at: find("as").map(|one| one.location),
            strict: false,
            serializable: false,
        }
    }

    fn setting(&mut self, set: &VariableSetStmt, place: Span) -> Result<(), Diagnostic> {
        let values: Vec<String> = set.args.iter().map(constant_word).collect();
        match (set.name.as_str(), values.as_slice()) {
            ("default_transaction_isolation" | "transaction_isolation", [level]) => {
                self.serializable = level.eq_ignore_ascii_case("serializable");
                Ok(())
            }
            ("search_path", [schema]) if schema == "public" => Ok(()),
            (name, _) => Err(Diagnostic::unsupported(
                place,
                format!("SET {name} on a procedure"),
                "only SET default_transaction_isolation = 'serializable' has a meaning here",
            )),
        }
    }

    /// The body between its quotes.
    pub fn body<'p>(&self, piece: Piece<'p>, span: Span) -> Result<Piece<'p>, Diagnostic> {
        let missing =
            || Diagnostic::new(SqlState::INVALID_FUNCTION_DEFINITION, span, "no function body specified");
        let at = self.body_at.and_then(|at| usize::try_from(at).ok()).ok_or_else(missing)?;
        let token =
            Lexer::new(piece.text, at).find(|token| token.kind == TokenKind::Text).ok_or_else(missing)?;
        let written = &piece.text[token.start..token.end];
        let quote = match written.strip_prefix('$').and_then(|rest| rest.find('$')) {
            Some(tag_length) => tag_length + 2,
            None => 1,
        };
        let text = written.get(quote..written.len().saturating_sub(quote)).ok_or_else(missing)?;
        let plain = written.starts_with('$') || (written.starts_with('\'') && !text.contains('\''));
        if !plain {
            return Err(Diagnostic::unsupported(
                piece.range(token.start, token.end),
                "a body in single quotes that contains quotes or escapes",
                "write the body between $$ and $$",
            ));
        }
        Ok(Piece::new(piece.file, piece.offset + (token.start + quote) as u32, text))
    }
}

fn unknown_option(place: Span, what: &str) -> Diagnostic {
    Diagnostic::unsupported(
        place,
        format!("{what} on a procedure"),
        "LANGUAGE, IMMUTABLE/STABLE/VOLATILE, STRICT and SET default_transaction_isolation are understood",
    )
}

fn word(option: &DefElem) -> String {
    match option.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(node::Node::String(text)) => text.sval.clone(),
        _ => String::new(),
    }
}

fn truth(option: &DefElem) -> bool {
    match option.arg.as_deref().and_then(|arg| arg.node.as_ref()) {
        Some(node::Node::Boolean(value)) => value.boolval,
        _ => false,
    }
}

fn constant_word(node: &Node) -> String {
    match &node.node {
        Some(node::Node::AConst(constant)) => match &constant.val {
            Some(a_const::Val::Sval(text)) => text.sval.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// A loop or block around the statement that is being bound.
pub(super) struct Label {
    pub name: Option<String>,
    pub id: LoopLabel,
    pub is_loop: bool,
}

/// One body while it is bound.
pub(super) struct Body<'a> {
    pub catalog: &'a Catalog,
    signatures: &'a [Signature],
    pub notes: Option<&'a Notes>,
    mentions: Option<&'a Mentions>,
    /// The body of a trigger function, whose RETURN names a row.
    pub trigger: bool,
    pub kind: ProcedureKind,
    /// The text that all spans of the body lie in.
    file: Piece<'a>,
    pub scopes: Scopes,
    /// OUT and INOUT parameters, or the columns of RETURNS TABLE.
    pub outputs: Vec<VariableId>,
    /// Outermost first.
    pub labels: Vec<Label>,
    pub label_count: u32,
    pub case_count: u32,
}

impl<'a> Body<'a> {
    /// With the parameters declared; also returns them, and the FOUND variable.
    /// Builds the procedure of this body.
    pub fn into_procedure(
        self,
        signature: &Signature,
        (parameters, found): (Vec<Parameter>, VariableId),
        body: Vec<Step>,
        span: Span,
    ) -> Procedure {
        Procedure {
            name: signature.name.clone(),
            kind: signature.kind.clone(),
            parameters,
            variables: self.scopes.variables,
            found,
            body,
            serializable: false,
            synthesised: false,
            span,
        }
    }

    pub fn new(
        surroundings: Surroundings<'a>,
        signature: &Signature,
        file: Piece<'a>,
        returns_table: bool,
    ) -> (Body<'a>, Vec<Parameter>, VariableId) {
        let mut scopes = Scopes::default();
        scopes.enter(Some(&signature.name));
        let mut parameters = Vec::new();
        let mut outputs = Vec::new();
        for parameter in &signature.parameters {
            let variable = match parameter.name.as_str() {
                "" => scopes.add_hidden(format!("${}", parameters.len() + 1), parameter.ty.clone()),
                name => scopes.add_variable(name, parameter.ty.clone()),
            };
            scopes.parameters.push(variable);
            if parameter.mode != ParameterMode::In {
                outputs.push(variable);
            }
            parameters.push(Parameter {
                name: parameter.name.clone(),
                ty: parameter.ty.clone(),
                mode: parameter.mode,
                default: parameter.default.clone(),
                variable,
            });
        }
        if let (ProcedureKind::SetReturningFunction { columns }, true) = (&signature.kind, returns_table) {
            outputs = columns.iter().map(|(name, ty)| scopes.add_variable(name, ty.clone())).collect();
        }
        let found = scopes.add_variable("found", SqlType::Bool);
        let body = Body {
            catalog: surroundings.catalog,
            signatures: surroundings.signatures,
            notes: surroundings.notes,
            mentions: surroundings.mentions,
            trigger: false,
            kind: signature.kind.clone(),
            file,
            scopes,
            outputs,
            labels: Vec::new(),
            label_count: 0,
            case_count: 0,
        };
        (body, parameters, found)
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context {
            system: None,
            fixes_times: false,
            catalog: self.catalog,
            signatures: self.signatures,
            variables: Some(&self.scopes),
            infer_parameters: false,
            notes: self.notes,
        }
    }

    /// A statement that could not be bound, in a tolerant reading: it may do whatever it mentions, and leave
    /// anything in the variables that are named in `written`.
    pub(super) fn opaque_step(
        &mut self,
        span: Span,
        written: Span,
        error: Diagnostic,
    ) -> Result<Step, Diagnostic> {
        let (Some(notes), Some(mentions)) = (self.notes, self.mentions) else { return Err(error) };
        notes.leave_out(error);
        let text = self.piece(span).text;
        let mut step = mentions.of(text);
        step.assigns = self.scopes.named(&crate::mentions::names_of(self.piece(written).text));
        Ok(Step { kind: StepKind::Opaque(step), span })
    }

    /// In a tolerant reading, a query that only calls a function: the function is followed, its result is
    /// anything. `query` is the place of the query or expression in the statement.
    pub(super) fn followed_call(&mut self, query: Piece<'_>, span: Span, written: Span) -> Option<Vec<Step>> {
        let notes = self.notes?;
        let parsed = parse::parse_statements(query).ok()?;
        let [statement] = parsed.as_slice() else { return None };
        let call = routine::only_call(&statement.node)?;
        let context = self.context();
        let bound = routine::bind_call(&mut Binder::new(&context, query), call).ok()?;
        let name = &self.signatures.get(bound.procedure)?.name;
        let place = query.token(call.location);
        notes.only_analysed(Diagnostic::unsupported(
            place,
            format!("a call of the function {name} inside of an expression"),
            "make it a procedure with OUT parameters, and CALL it",
        ));
        let kind = StepKind::Call { procedure: bound.procedure, args: bound.args, targets: Vec::new() };
        let assigns = self.scopes.named(&crate::mentions::names_of(self.piece(written).text));
        let result = OpaqueStep { assigns, ..OpaqueStep::default() };
        Some(vec![Step { kind, span }, Step { kind: StepKind::Opaque(result), span }])
    }

    pub(super) fn signature(&self, procedure: usize) -> &'a Signature {
        &self.signatures[procedure]
    }

    /// STRICT functions answer NULL (or nothing) as soon as an argument is NULL.
    fn null_on_null_input(&self, parameters: &[Parameter], options: &Options) -> Vec<Step> {
        if !options.strict {
            return Vec::new();
        }
        let span = self.file.span();
        let tests: Vec<Expr> = parameters
            .iter()
            .filter(|parameter| parameter.mode != ParameterMode::Out)
            .map(|parameter| {
                let operand = Box::new(self.read(parameter.variable, span));
                boolean(ExprKind::IsNull { operand, negated: false }, span)
            })
            .collect();
        let condition = match tests.len() {
            0 => return Vec::new(),
            1 => tests.into_iter().next(),
            _ => Some(boolean(ExprKind::Or(tests), span)),
        };
        let value = match &self.kind {
            ProcedureKind::Function { returns } if *returns != SqlType::Void => {
                Some(null(returns.clone(), span))
            }
            _ => None,
        };
        let give_up = vec![Step { kind: StepKind::Return { value }, span }];
        let branches = condition.map(|condition| (condition, give_up)).into_iter().collect();
        vec![Step { kind: StepKind::If { branches, otherwise: Vec::new() }, span }]
    }

    pub(super) fn read(&self, variable: VariableId, span: Span) -> Expr {
        Expr { kind: ExprKind::Variable(variable), ty: self.scopes.ty(variable).clone(), span }
    }

    /// The text of a place in the body.
    pub(super) fn piece(&self, span: Span) -> Piece<'a> {
        let start = span.start.saturating_sub(self.file.offset) as usize;
        let end = span.end.saturating_sub(self.file.offset) as usize;
        Piece::new(span.file, span.start, self.file.text.get(start..end).unwrap_or(""))
    }

    /// See [`Scopes::explain`].
    pub(super) fn explain(&self, error: Diagnostic) -> Diagnostic {
        let start = error.span.start.saturating_sub(self.file.offset) as usize;
        let written = self.file.text.get(start..).unwrap_or("");
        self.scopes.explain(error, written)
    }

    pub(super) fn value(&self, span: Span) -> Result<Expr, Diagnostic> {
        binder::bind_expression(&self.context(), self.piece(span)).map_err(|error| self.explain(error))
    }

    /// Cast as PL/pgSQL does: by an assignment cast, or where there is none, through text.
    pub(super) fn value_as(&self, span: Span, ty: &SqlType) -> Result<Expr, Diagnostic> {
        match binder::bind_expression_as(&self.context(), self.piece(span), ty) {
            Err(error) if no_cast(&error) => self.convert(self.value(span)?, ty).map_err(|_| error),
            other => other.map_err(|error| self.explain(error)),
        }
    }

    pub(super) fn convert(&self, value: Expr, ty: &SqlType) -> Result<Expr, Diagnostic> {
        match binder::assign(&self.context(), value.clone(), ty) {
            Err(error) if no_cast(&error) && by_text(&value.ty) && by_text(ty) => {
                let span = value.span;
                let text = match value.ty {
                    SqlType::Text => value,
                    _ => cast(value, SqlType::Text, span),
                };
                Ok(cast(text, ty.clone(), span))
            }
            other => other,
        }
    }

    /// Result of a function at RETURN or at its end; procedures leave theirs in variables.
    pub(super) fn output_value(&self, span: Span) -> Option<Expr> {
        match (&self.kind, self.outputs.as_slice()) {
            (ProcedureKind::Function { .. }, [one]) => Some(self.read(*one, span)),
            (ProcedureKind::Function { .. }, [_, _, ..]) => {
                let fields = self.outputs.iter().map(|id| self.read(*id, span)).collect();
                Some(Expr { kind: ExprKind::Row(fields), ty: SqlType::Record, span })
            }
            _ => None,
        }
    }
}

fn no_cast(error: &Diagnostic) -> bool {
    matches!(error.state, SqlState::DATATYPE_MISMATCH | SqlState::CANNOT_COERCE)
}

fn by_text(ty: &SqlType) -> bool {
    !matches!(ty, SqlType::Record | SqlType::Void | SqlType::Unknown)
}

fn cast(operand: Expr, ty: SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Cast { operand: Box::new(operand), explicit: true }, ty, span }
}

pub(super) fn boolean(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, ty: SqlType::Bool, span }
}

pub(super) fn null(ty: SqlType, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(Value::Null), ty, span }
}

pub(super) fn text(value: &str, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(Value::text(value)), ty: SqlType::Text, span }
}

/// An error of PL/pgSQL itself, at run time.
pub(super) fn raise_error(state: SqlState, message: &str, hint: Option<&str>, span: Span) -> Step {
    let raise = Raise {
        level: RaiseLevel::Exception,
        format: message.replace('%', "%%"),
        args: Vec::new(),
        state,
        message: None,
        detail: None,
        hint: hint.map(|hint| text(hint, span)),
    };
    Step { kind: StepKind::Raise(raise), span }
}
