//! LANGUAGE SQL: a list of statements, in a string or between BEGIN ATOMIC and END; the last one's
//! rows are the result.

use pg_query::protobuf::{Node, node};
use weir_types::{SqlState, SqlType};

use super::bind::Body;
use super::steps::check_structure;
use crate::binder::{self, Binder};
use crate::bound::{Into, IntoTarget, ProcedureKind, Statement, Step, StepKind, VariableId};
use crate::parse::{self, Piece};
use crate::source::{Diagnostic, Span};

impl Body<'_> {
    /// `AS $$ … $$`.
    pub(super) fn sql_text(&mut self, piece: Piece<'_>) -> Result<Vec<Step>, Diagnostic> {
        self.scopes.columns_win = true;
        let statements = parse::parse_statements(piece)?;
        let count = statements.len();
        let mut steps = Vec::new();
        for (i, statement) in statements.iter().enumerate() {
            let no_variable = Span { end: statement.span.start, ..statement.span };
            match self.sql_statement(piece, &statement.node, statement.span, i + 1 == count) {
                Ok(bound) => steps.extend(bound),
                Err(error) => {
                    match self.followed_call(self.piece(statement.span), statement.span, no_variable) {
                        Some(followed) => steps.extend(followed),
                        None => steps.push(self.opaque_step(statement.span, no_variable, error)?),
                    }
                }
            }
        }
        if count == 0 {
            self.no_result(piece.span())?;
        }
        Ok(steps)
    }

    /// `BEGIN ATOMIC … END` or `RETURN expression`.
    pub(super) fn atomic_body(
        &mut self,
        piece: Piece<'_>,
        body: &Node,
        span: Span,
    ) -> Result<Vec<Step>, Diagnostic> {
        self.scopes.columns_win = true;
        let statements = statements_of(body);
        let count = statements.len();
        let mut steps = Vec::new();
        for (i, statement) in statements.into_iter().enumerate() {
            steps.extend(self.sql_statement(piece, statement, span, i + 1 == count)?);
        }
        if count == 0 {
            self.no_result(span)?;
        }
        Ok(steps)
    }

    fn sql_statement(
        &mut self,
        piece: Piece<'_>,
        statement: &node::Node,
        span: Span,
        last: bool,
    ) -> Result<Vec<Step>, Diagnostic> {
        match statement {
            node::Node::CallStmt(_) => {
                let call = binder::bind_call_node(&self.context(), piece, statement)?;
                let kind = self.call_step(call, span)?;
                if last {
                    self.no_result(span)?;
                }
                return Ok(vec![Step { kind, span }]);
            }
            node::Node::ReturnStmt(statement) => {
                let (ProcedureKind::Function { returns }, Some(value)) = (&self.kind, &statement.returnval)
                else {
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        span,
                        "RETURN is for functions with one result",
                    ));
                };
                let value = Binder::new(&self.context(), piece).bind_value(value, returns)?;
                return Ok(vec![Step { span: value.span, kind: StepKind::Return { value: Some(value) } }]);
            }
            _ => {}
        }
        let bound = binder::bind_statement_node(&self.context(), piece, statement)?;
        let span = bound.span();
        match last {
            true => self.result_statement(bound, span),
            false => Ok(vec![Step { kind: StepKind::Sql { statement: Box::new(bound), into: None }, span }]),
        }
    }

    /// The last statement.
    fn result_statement(&mut self, statement: Statement, span: Span) -> Result<Vec<Step>, Diagnostic> {
        let columns = statement.columns();
        let targets: Vec<VariableId> = match self.kind.clone() {
            ProcedureKind::SetReturningFunction { columns: wanted } => {
                check_structure(&columns, &wanted, span)?;
                let Statement::Query(query) = statement else {
                    return Err(Diagnostic::unsupported(
                        span,
                        "RETURNING as the result of a set-returning function",
                        "make the last statement a SELECT",
                    ));
                };
                return Ok(vec![Step { kind: StepKind::ReturnQuery { query: Box::new(query) }, span }]);
            }
            ProcedureKind::Function { returns: SqlType::Void } => Vec::new(),
            ProcedureKind::Procedure => self.outputs.clone(),
            ProcedureKind::Function { .. } if !self.outputs.is_empty() => self.outputs.clone(),
            ProcedureKind::Function { returns } => vec![self.scopes.add_hidden("result~", returns)],
        };
        if !targets.is_empty() && columns.len() != targets.len() {
            return Err(Diagnostic::new(
                SqlState::INVALID_FUNCTION_DEFINITION,
                span,
                format!(
                    "the final statement returns {} columns where {} are declared",
                    columns.len(),
                    targets.len()
                ),
            )
            .with_hint(
                "the function's result is that of its last SELECT, or of INSERT/UPDATE/DELETE … RETURNING",
            ));
        }
        let into = match targets.is_empty() {
            true => None,
            false => Some(Into {
                targets: targets.iter().map(|variable| IntoTarget { variable: *variable }).collect(),
                strict: false,
            }),
        };
        let mut steps = vec![Step { kind: StepKind::Sql { statement: Box::new(statement), into }, span }];
        let value = match (&self.kind, targets.as_slice()) {
            (ProcedureKind::Function { .. }, [one]) => Some(self.read(*one, span)),
            _ => self.output_value(span),
        };
        steps.extend(value.map(|value| Step { kind: StepKind::Return { value: Some(value) }, span }));
        Ok(steps)
    }

    /// There is no last query: right only where nothing is to be returned.
    fn no_result(&self, span: Span) -> Result<(), Diagnostic> {
        let nothing = match &self.kind {
            ProcedureKind::Procedure => self.outputs.is_empty(),
            ProcedureKind::Function { returns } => *returns == SqlType::Void,
            ProcedureKind::SetReturningFunction { .. } => false,
        };
        if nothing {
            return Ok(());
        }
        Err(Diagnostic::new(
            SqlState::INVALID_FUNCTION_DEFINITION,
            span,
            "the final statement of the body must return the declared result",
        )
        .with_hint("end with SELECT, or with INSERT/UPDATE/DELETE … RETURNING"))
    }
}

/// The grammar wraps the statements of BEGIN ATOMIC in lists.
fn statements_of(body: &Node) -> Vec<&node::Node> {
    match &body.node {
        Some(node::Node::List(list)) => list.items.iter().flat_map(statements_of).collect(),
        Some(statement) => vec![statement],
        None => Vec::new(),
    }
}
