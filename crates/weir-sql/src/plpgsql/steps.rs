//! Statements to steps: assignments, SQL with INTO, CALL, RETURN and the small ones.

use weir_types::{SqlState, SqlType};

use super::bind::{Body, null};
use super::scope::Entry;
use super::structure::{IntoClause, Path, Statement, StatementKind};
use crate::binder;
use crate::bound::{
    self, Expr, ExprKind, Into, IntoTarget, OutputColumn, ProcedureKind, Step, StepKind, VariableId,
};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

/// Where a query's outputs go.
pub(super) struct Targets {
    pub targets: Vec<IntoTarget>,
    /// Targets behind the last output: they become NULL.
    pub missing: Vec<VariableId>,
}

impl Body<'_> {
    pub(super) fn steps(&mut self, statements: &[Statement]) -> Result<Vec<Step>, Diagnostic> {
        let mut steps = Vec::new();
        for statement in statements {
            let (before, depth) = (steps.len(), (self.scopes.depth(), self.labels.len()));
            if let Err(error) = self.statement(statement, &mut steps) {
                steps.truncate(before);
                self.scopes.leave_to(depth.0);
                self.labels.truncate(depth.1);
                match self.function_call(statement) {
                    Some(followed) => steps.extend(followed),
                    None => steps.push(self.opaque_step(statement.span, written(statement), error)?),
                }
            }
        }
        Ok(steps)
    }

    /// `PERFORM f(…)`, `SELECT f(…) INTO x` and `x := f(…)`, in a tolerant reading.
    fn function_call(&mut self, statement: &Statement) -> Option<Vec<Step>> {
        self.notes?;
        let span = statement.span;
        let text = match &statement.kind {
            StatementKind::Perform => self.perform_text(span),
            StatementKind::Sql { into } => self.blanked(span, into.as_ref().map(|into| into.span)),
            StatementKind::Assign { value, .. } => {
                return self.called_value(*value, span, written(statement));
            }
            _ => return None,
        };
        self.followed_call(Piece::new(span.file, span.start, &text), span, written(statement))
    }

    /// A value that is the result of a function's call.
    pub(super) fn called_value(&mut self, value: Span, span: Span, written: Span) -> Option<Vec<Step>> {
        let select = "SELECT ";
        let text = format!("{select}{}", self.piece(value).text);
        let start = value.start.saturating_sub(select.len() as u32);
        self.followed_call(Piece::new(span.file, start, &text), span, written)
    }

    /// PERFORM is a SELECT whose rows are discarded; the keywords happen to be of nearly the same length.
    fn perform_text(&self, span: Span) -> String {
        let mut text = self.piece(span).text.to_owned();
        text.replace_range(.."PERFORM".len().min(text.len()), "SELECT ");
        text
    }

    fn statement(&mut self, statement: &Statement, steps: &mut Vec<Step>) -> Result<(), Diagnostic> {
        let span = statement.span;
        let kind = match &statement.kind {
            StatementKind::Block(block) => {
                steps.push(self.block(block)?);
                return Ok(());
            }
            StatementKind::Assign { target, index, value } => {
                steps.extend(self.assignment(target, *index, *value, span)?);
                return Ok(());
            }
            StatementKind::Sql { into } => {
                steps.extend(self.sql(into.as_ref(), span)?);
                return Ok(());
            }
            StatementKind::Case { subject, branches, otherwise } => {
                steps.extend(self.case(*subject, branches, otherwise.as_deref(), span)?);
                return Ok(());
            }
            StatementKind::GetRowCount { targets } => {
                for target in targets {
                    steps.extend(self.row_count(target, span)?);
                }
                return Ok(());
            }
            StatementKind::Perform => self.perform(span)?,
            StatementKind::Call => self.call(span)?,
            StatementKind::If { branches, otherwise } => self.if_step(branches, otherwise)?,
            StatementKind::Loop { kind, label, body } => self.loop_step(kind, label.as_ref(), body, span)?,
            StatementKind::Leave { resume, label, when } => {
                self.leave(*resume, label.as_ref(), *when, span)?
            }
            StatementKind::Raise(raise) => self.raise(raise)?,
            StatementKind::Return { value } => self.return_step(*value, span)?,
            StatementKind::ReturnNext { value } => self.return_next(*value, span)?,
            StatementKind::ReturnQuery { query } => self.return_query(*query, span)?,
            StatementKind::Assert { condition, message } => StepKind::Assert {
                condition: self.value_as(*condition, &SqlType::Bool)?,
                message: message.map(|message| self.value_as(message, &SqlType::Text)).transpose()?,
            },
            StatementKind::Refused(refusal) => return Err((**refusal).clone()),
            StatementKind::Null => StepKind::Null,
        };
        steps.push(Step { kind, span });
        Ok(())
    }

    fn assignment(
        &mut self,
        target: &Path,
        index: Option<Span>,
        value: Span,
        span: Span,
    ) -> Result<Vec<Step>, Diagnostic> {
        let variable = match self.scopes.target(target)? {
            Entry::Variable(variable) => variable,
            Entry::Record(record) if index.is_none() => return self.assign_record(record, value, span),
            Entry::Record(_) => {
                return Err(Diagnostic::new(
                    SqlState::DATATYPE_MISMATCH,
                    target.span,
                    "cannot subscript a record",
                ));
            }
        };
        let ty = self.scopes.ty(variable).clone();
        let kind = match (index, ty) {
            (None, ty) => StepKind::Assign { variable, value: self.value_as(value, &ty)? },
            (Some(index), SqlType::Array(element)) => StepKind::AssignElement {
                variable,
                index: self.value_as(index, &SqlType::Int4)?,
                value: self.value_as(value, &element)?,
            },
            (Some(_), ty) => {
                return Err(Diagnostic::new(
                    SqlState::DATATYPE_MISMATCH,
                    target.span,
                    format!("cannot subscript type {ty} because it does not support subscripting"),
                ));
            }
        };
        Ok(vec![Step { kind, span }])
    }

    /// `record := other_record`, `:= NULL` or `:= ROW(…)`, field by field.
    pub(super) fn assign_record(
        &mut self,
        record: usize,
        value: Span,
        span: Span,
    ) -> Result<Vec<Step>, Diagnostic> {
        let values = self.record_value(value)?;
        let columns = match &values {
            Some(values) => {
                let column =
                    |(name, value): &(String, Expr)| OutputColumn::new(name.clone(), value.ty.clone());
                values.iter().map(column).collect()
            }
            None => Vec::new(),
        };
        let Some(values) = values else {
            let fields: Vec<VariableId> =
                self.scopes.records[record].fields.iter().flatten().map(|(_, id)| *id).collect();
            return Ok(fields.into_iter().map(|id| self.assign_null(id, span)).collect());
        };
        let fields = self.scopes.fill(record, &columns, span)?;
        // Through temporaries: the values may refer to the fields.
        let mut steps = Vec::new();
        let mut copies = Vec::new();
        for (i, field) in fields.into_iter().enumerate() {
            let ty = self.scopes.ty(field).clone();
            let value = match values.get(i) {
                Some((_, value)) => self.convert(value.clone(), &ty)?,
                None => null(ty.clone(), span),
            };
            let name = format!("{}~", self.scopes.variables[field.0 as usize].name);
            let temporary = self.scopes.add_hidden(name, ty);
            steps.push(Step { kind: StepKind::Assign { variable: temporary, value }, span });
            let value = self.read(temporary, span);
            copies.push(Step { kind: StepKind::Assign { variable: field, value }, span });
        }
        steps.extend(copies);
        Ok(steps)
    }

    /// The fields of a row value; `None` for NULL.
    fn record_value(&self, value: Span) -> Result<Option<Vec<(String, Expr)>>, Diagnostic> {
        use crate::binder::Variables;
        let written = self.piece(value).text.trim();
        if written.eq_ignore_ascii_case("null") {
            return Ok(None);
        }
        if let Some(fields) = self.scopes.fields(&written.to_ascii_lowercase()) {
            return Ok(Some(fields.into_iter().map(|(name, id, _)| (name, self.read(id, value))).collect()));
        }
        let expr = self.value(value)?;
        match expr.kind {
            ExprKind::Row(fields) => {
                let named = |(i, field): (usize, Expr)| (format!("f{}", i + 1), field);
                Ok(Some(fields.into_iter().enumerate().map(named).collect()))
            }
            _ => Err(Diagnostic::unsupported(
                value,
                "assigning this value to a record",
                "assign another record, ROW(…) or NULL, or fill it with SELECT … INTO",
            )),
        }
    }

    /// `text` of a span with the INTO clause blanked, so that places stay.
    fn blanked(&self, span: Span, blank: Option<Span>) -> String {
        let mut text = self.piece(span).text.to_owned();
        if let Some(blank) = blank {
            let (start, end) = ((blank.start - span.start) as usize, (blank.end - span.start) as usize);
            text.replace_range(start..end, &" ".repeat(end - start));
        }
        text
    }

    fn sql(&mut self, into: Option<&IntoClause>, span: Span) -> Result<Vec<Step>, Diagnostic> {
        let text = self.blanked(span, into.map(|into| into.span));
        let statement = binder::bind_statement(&self.context(), Piece::new(span.file, span.start, &text))
            .map_err(|error| self.explain(error))?;
        let columns = statement.columns();
        let is_query = matches!(statement, bound::Statement::Query(_));
        let Some(clause) = into else {
            if is_query || !columns.is_empty() {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    span,
                    "query has no destination for result data",
                )
                .with_hint(match is_query {
                    true => "to discard the results of a SELECT, use PERFORM instead; else add INTO",
                    false => "leave RETURNING away, or add INTO",
                }));
            }
            let kind = StepKind::Sql { statement: Box::new(statement), into: None };
            return Ok(vec![Step { kind, span }]);
        };
        if columns.is_empty() && !is_query {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                clause.span,
                "INTO used with a command that cannot return data",
            )
            .with_hint("add RETURNING"));
        }
        let Targets { targets, missing } = self.targets(&clause.targets, &columns, clause.span)?;
        let into = Some(Into { targets, strict: clause.strict });
        let mut steps = vec![Step { kind: StepKind::Sql { statement: Box::new(statement), into }, span }];
        steps.extend(missing.into_iter().map(|id| self.assign_null(id, clause.span)));
        Ok(steps)
    }

    /// Extra columns are dropped and missing ones are NULL, as in PostgreSQL.
    pub(super) fn targets(
        &mut self,
        paths: &[Path],
        columns: &[OutputColumn],
        span: Span,
    ) -> Result<Targets, Diagnostic> {
        let mut variables = Vec::new();
        for path in paths {
            match self.scopes.target(path)? {
                Entry::Variable(variable) => variables.push(variable),
                Entry::Record(record) if paths.len() == 1 => {
                    variables = self.scopes.fill(record, columns, span)?;
                }
                Entry::Record(_) => {
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        path.span,
                        "record variable cannot be part of multiple-item INTO list",
                    ));
                }
            }
        }
        let missing = variables.split_off(variables.len().min(columns.len()));
        let targets = variables.into_iter().map(|variable| IntoTarget { variable }).collect();
        Ok(Targets { targets, missing })
    }

    fn perform(&mut self, span: Span) -> Result<StepKind, Diagnostic> {
        let text = self.perform_text(span);
        let query = binder::bind_query(&self.context(), Piece::new(span.file, span.start, &text))
            .map_err(|error| self.explain(error))?;
        Ok(StepKind::Sql { statement: Box::new(bound::Statement::Query(query)), into: None })
    }

    fn call(&mut self, span: Span) -> Result<StepKind, Diagnostic> {
        let call =
            binder::bind_call(&self.context(), self.piece(span)).map_err(|error| self.explain(error))?;
        self.call_step(call, span)
    }

    /// Each OUT argument must be a variable that can be written.
    pub(super) fn call_step(
        &self,
        call: crate::routine::BoundCall,
        span: Span,
    ) -> Result<StepKind, Diagnostic> {
        let signature = self.signature(call.procedure);
        if signature.kind != ProcedureKind::Procedure {
            return Err(Diagnostic::new(
                SqlState::WRONG_OBJECT_TYPE,
                span,
                format!("{} is not a procedure", signature.name),
            )
            .with_hint("declare it with CREATE PROCEDURE, its result as an OUT parameter"));
        }
        let outs = signature.parameters.iter().filter(|p| p.mode != bound::ParameterMode::In);
        let mut targets = Vec::new();
        for (parameter, argument) in outs.zip(&call.out_args) {
            let variable = match argument {
                Some(Expr { kind: ExprKind::Variable(variable), .. })
                    if !self.scopes.variables[variable.0 as usize].constant =>
                {
                    *variable
                }
                argument => {
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        argument.as_ref().map_or(span, |argument| argument.span),
                        format!(
                            "procedure parameter \"{}\" is an output parameter but corresponding argument is not \
                             writable",
                            parameter.name
                        ),
                    )
                    .with_hint("pass a variable there"));
                }
            };
            targets.push(IntoTarget { variable });
        }
        Ok(StepKind::Call { procedure: call.procedure, args: call.args, targets })
    }

    fn row_count(&mut self, target: &Path, span: Span) -> Result<Vec<Step>, Diagnostic> {
        let Entry::Variable(variable) = self.scopes.target(target)? else {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                target.span,
                format!("\"{}\" is not a scalar variable", target.dotted()),
            ));
        };
        let ty = self.scopes.ty(variable).clone();
        if ty.is_integer() {
            return Ok(vec![Step { kind: StepKind::GetRowCount { variable }, span }]);
        }
        let count = self.scopes.add_hidden("row_count~", SqlType::Int8);
        let value = self.convert(self.read(count, target.span), &ty)?;
        Ok(vec![
            Step { kind: StepKind::GetRowCount { variable: count }, span },
            Step { kind: StepKind::Assign { variable, value }, span },
        ])
    }

    fn return_step(&mut self, value: Option<Span>, span: Span) -> Result<StepKind, Diagnostic> {
        if self.trigger {
            return Ok(self.trigger_result(value, span));
        }
        let refuse = |state, what: &str, hint: &str| {
            let place = value.unwrap_or(span);
            let error = Diagnostic::new(state, place, what);
            Err(if hint.is_empty() { error } else { error.with_hint(hint) })
        };
        let returns = match (&self.kind, value) {
            (ProcedureKind::Procedure, Some(_)) => {
                return refuse(
                    SqlState::SYNTAX_ERROR,
                    "RETURN cannot have a parameter in a procedure",
                    "assign the OUT parameters, then RETURN without a value",
                );
            }
            (ProcedureKind::SetReturningFunction { .. }, Some(_)) => {
                return refuse(
                    SqlState::DATATYPE_MISMATCH,
                    "RETURN cannot have a parameter in function returning set",
                    "use RETURN NEXT or RETURN QUERY",
                );
            }
            (ProcedureKind::Procedure | ProcedureKind::SetReturningFunction { .. }, None) => {
                return Ok(StepKind::Return { value: None });
            }
            (ProcedureKind::Function { returns }, _) => returns.clone(),
        };
        match (value, self.output_value(span)) {
            (Some(_), Some(_)) => refuse(
                SqlState::DATATYPE_MISMATCH,
                "RETURN cannot have a parameter in function with OUT parameters",
                "assign the OUT parameters, then RETURN without a value",
            ),
            (None, Some(outputs)) => Ok(StepKind::Return { value: Some(outputs) }),
            (Some(_), None) if returns == SqlType::Void => refuse(
                SqlState::DATATYPE_MISMATCH,
                "RETURN cannot have a parameter in function returning void",
                "",
            ),
            (None, None) if returns == SqlType::Void => Ok(StepKind::Return { value: None }),
            (None, None) => refuse(SqlState::SYNTAX_ERROR, "missing expression after RETURN", ""),
            (Some(value), None) => Ok(StepKind::Return { value: Some(self.value_as(value, &returns)?) }),
        }
    }

    fn set_columns(&self, what: &str, span: Span) -> Result<Vec<(String, SqlType)>, Diagnostic> {
        match &self.kind {
            ProcedureKind::SetReturningFunction { columns } => Ok(columns.clone()),
            _ => Err(Diagnostic::new(
                SqlState::DATATYPE_MISMATCH,
                span,
                format!("cannot use {what} in a non-SETOF function"),
            )
            .with_hint("declare it with RETURNS SETOF or RETURNS TABLE")),
        }
    }

    fn return_next(&mut self, value: Option<Span>, span: Span) -> Result<StepKind, Diagnostic> {
        let columns = self.set_columns("RETURN NEXT", span)?;
        let values = match (value, self.outputs.is_empty()) {
            (None, false) => self.outputs.iter().map(|id| self.read(*id, span)).collect(),
            (None, true) => {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    span,
                    "RETURN NEXT must have a parameter",
                ));
            }
            (Some(value), false) => {
                return Err(Diagnostic::new(
                    SqlState::DATATYPE_MISMATCH,
                    value,
                    "RETURN NEXT cannot have a parameter in function with OUT parameters",
                )
                .with_hint("assign the columns' variables, then RETURN NEXT without a value"));
            }
            (Some(value), true) => match (columns.as_slice(), self.is_record(value)) {
                ([(_, ty)], false) => vec![self.value_as(value, ty)?],
                _ => self.row_values(value, &columns)?,
            },
        };
        Ok(StepKind::ReturnNext { values })
    }

    fn is_record(&self, value: Span) -> bool {
        let written = self.piece(value).text.trim().to_ascii_lowercase();
        self.scopes.record(&[&written]).is_some()
    }

    fn row_values(&self, value: Span, columns: &[(String, SqlType)]) -> Result<Vec<Expr>, Diagnostic> {
        let fields = self.record_value(value)?.unwrap_or_default();
        if fields.len() != columns.len() {
            return Err(Diagnostic::new(
                SqlState::DATATYPE_MISMATCH,
                value,
                format!(
                    "wrong record type supplied in RETURN NEXT: {} fields for {} columns",
                    fields.len(),
                    columns.len()
                ),
            ));
        }
        fields.into_iter().zip(columns).map(|((_, field), (_, ty))| self.convert(field, ty)).collect()
    }

    fn return_query(&mut self, query: Span, span: Span) -> Result<StepKind, Diagnostic> {
        let columns = self.set_columns("RETURN QUERY", span)?;
        let bound = self.query(query)?;
        check_structure(&bound.columns, &columns, query)?;
        Ok(StepKind::ReturnQuery { query: Box::new(bound) })
    }

    pub(super) fn query(&self, span: Span) -> Result<bound::Query, Diagnostic> {
        binder::bind_query(&self.context(), self.piece(span)).map_err(|error| self.explain(error))
    }
}

/// Where a statement names the variables that it assigns to.
fn written(statement: &Statement) -> Span {
    let span = statement.span;
    match &statement.kind {
        StatementKind::Sql { into: Some(into) } => into.span,
        StatementKind::Sql { into: None } | StatementKind::Perform => Span { end: span.start, ..span },
        StatementKind::Assign { target, .. } => target.span,
        _ => span,
    }
}

/// PostgreSQL wants the very types, modifiers aside.
pub(super) fn check_structure(
    found: &[OutputColumn],
    wanted: &[(String, SqlType)],
    span: Span,
) -> Result<(), Diagnostic> {
    let mismatch = |hint: String| {
        Err(Diagnostic::new(
            SqlState::DATATYPE_MISMATCH,
            span,
            "structure of query does not match function result type",
        )
        .with_hint(hint))
    };
    if found.len() != wanted.len() {
        return mismatch(format!(
            "number of returned columns ({}) does not match expected column count ({})",
            found.len(),
            wanted.len()
        ));
    }
    for (i, (column, (_, ty))) in found.iter().zip(wanted).enumerate() {
        if column.ty.base() != ty.base() {
            return mismatch(format!(
                "returned type {} does not match expected type {ty} in column {}; cast it: (…)::{ty}",
                column.ty,
                i + 1
            ));
        }
    }
    Ok(())
}
