//! IF, CASE, loops, EXIT and RAISE to steps.

use weir_types::{SqlState, SqlType, Value};

use super::bind::{Body, raise_error, text};
use super::conditions::state_of_condition;
use super::scope::Entry;
use super::steps::Targets;
use super::structure::{LoopKind, Name, Path, RaiseOption, RaiseStatement, RaiseWhat, Statement};
use crate::binder;
use crate::bound::{Expr, ExprKind, LoopLabel, Raise, RaiseLevel, Step, StepKind, VariableId};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

impl Body<'_> {
    pub(super) fn if_step(
        &mut self,
        branches: &[(Span, Vec<Statement>)],
        otherwise: &[Statement],
    ) -> Result<StepKind, Diagnostic> {
        let mut bound = Vec::new();
        for (condition, body) in branches {
            let condition = self.value_as(*condition, &SqlType::Bool)?;
            bound.push((condition, self.steps(body)?));
        }
        Ok(StepKind::If { branches: bound, otherwise: self.steps(otherwise)? })
    }

    /// The subject is evaluated once, into a variable that only the conditions see.
    pub(super) fn case(
        &mut self,
        subject: Option<Span>,
        branches: &[(Span, Vec<Statement>)],
        otherwise: Option<&[Statement]>,
        span: Span,
    ) -> Result<Vec<Step>, Diagnostic> {
        let mut steps = Vec::new();
        let mut subject_name = None;
        if let Some(subject) = subject {
            let value = self.value(subject)?;
            self.case_count += 1;
            let name = format!("case_{}~", self.case_count);
            self.scopes.enter(None);
            let variable = self.scopes.add_variable(&name, value.ty.clone());
            steps.push(Step { kind: StepKind::Assign { variable, value }, span: subject });
            subject_name = Some(name);
        }
        let mut bound = Vec::new();
        for (condition, body) in branches {
            let condition = match &subject_name {
                None => self.value_as(*condition, &SqlType::Bool)?,
                Some(name) => self.case_condition(name, *condition)?,
            };
            bound.push((condition, self.steps(body)?));
        }
        if subject.is_some() {
            self.scopes.leave();
        }
        let otherwise = match otherwise {
            Some(body) => self.steps(body)?,
            None => vec![raise_error(
                SqlState::CASE_NOT_FOUND,
                "case not found",
                Some("CASE statement is missing ELSE part."),
                span,
            )],
        };
        steps.push(Step { kind: StepKind::If { branches: bound, otherwise }, span });
        Ok(steps)
    }

    /// `subject IN (list)`, with the places of the list kept: what is put before it is shorter than what
    /// stands before any list in a file.
    fn case_condition(&self, subject: &str, list: Span) -> Result<Expr, Diagnostic> {
        let prefix = format!("\"{subject}\" IN (");
        let condition = format!("{prefix}{})", self.piece(list).text);
        let start = list.start.saturating_sub(prefix.len() as u32);
        binder::bind_expression_as(&self.context(), Piece::new(list.file, start, &condition), &SqlType::Bool)
            .map_err(|error| self.explain(error))
    }

    pub(super) fn loop_step(
        &mut self,
        kind: &LoopKind,
        label: Option<&Name>,
        body: &[Statement],
        span: Span,
    ) -> Result<StepKind, Diagnostic> {
        let name = label.map(|label| label.text.as_str());
        match kind {
            LoopKind::Refused(refusal) => Err((**refusal).clone()),
            LoopKind::Forever => {
                let (label, body) = self.loop_body(name, body)?;
                Ok(StepKind::Loop { label, body })
            }
            LoopKind::While(condition) => {
                let condition = self.value_as(*condition, &SqlType::Bool)?;
                let (label, body) = self.loop_body(name, body)?;
                Ok(StepKind::While { condition, label, body })
            }
            LoopKind::Range { variable, from, to, by, reverse } => {
                // The bounds do not see the loop's own variable.
                let bound = |span: Span| self.value_as(span, &SqlType::Int4);
                let (from, to, by) = (bound(*from)?, bound(*to)?, by.map(bound).transpose()?);
                self.scopes.enter(name);
                let variable = self.scopes.add_variable(&variable.text, SqlType::Int4);
                let (label, body) = self.loop_body(name, body)?;
                self.scopes.leave();
                Ok(StepKind::ForRange { variable, from, to, by, reverse: *reverse, label, body })
            }
            LoopKind::Query { targets, query } => {
                let query = self.query(*query)?;
                let Targets { targets, missing } = self.loop_targets(targets, &query.columns, span)?;
                let (label, mut body) = self.loop_body(name, body)?;
                body.splice(
                    0..0,
                    missing.into_iter().map(|id| self.assign_null(id, span)).collect::<Vec<_>>(),
                );
                Ok(StepKind::ForQuery { targets, query: Box::new(query), label, body })
            }
            LoopKind::Array { target, array } => {
                let variable = self.loop_variable(target)?;
                let array = self.array_of(*array, self.scopes.ty(variable).clone())?;
                let (label, body) = self.loop_body(name, body)?;
                Ok(StepKind::ForEach { variable, array, label, body })
            }
        }
    }

    fn loop_body(
        &mut self,
        name: Option<&str>,
        body: &[Statement],
    ) -> Result<(LoopLabel, Vec<Step>), Diagnostic> {
        let label = self.enter_label(name, true);
        let body = self.steps(body)?;
        self.labels.pop();
        Ok((label, body))
    }

    fn loop_targets(
        &mut self,
        targets: &[Path],
        columns: &[crate::bound::OutputColumn],
        span: Span,
    ) -> Result<Targets, Diagnostic> {
        self.targets(targets, columns, span).map_err(|error| match error.state {
            SqlState::SYNTAX_ERROR => Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                error.span,
                "loop variable of loop over rows must be a record variable or list of scalar variables",
            )
            .with_hint("declare it: RECORD, table%ROWTYPE, or one scalar variable per column"),
            _ => error,
        })
    }

    fn loop_variable(&self, target: &Path) -> Result<VariableId, Diagnostic> {
        match self.scopes.target(target)? {
            Entry::Variable(variable) => Ok(variable),
            Entry::Record(_) => Err(Diagnostic::unsupported(
                target.span,
                "FOREACH into a record",
                "loop with a scalar variable of the element's type",
            )),
        }
    }

    /// An array whose elements have the loop variable's type.
    fn array_of(&self, array: Span, element: SqlType) -> Result<Expr, Diagnostic> {
        let value = self.value(array)?;
        match &value.ty {
            SqlType::Array(found) if **found == element => Ok(value),
            SqlType::Array(_) => self.convert(value, &SqlType::Array(Box::new(element))),
            ty => Err(Diagnostic::new(
                SqlState::DATATYPE_MISMATCH,
                array,
                format!("FOREACH expression must yield an array, not type {ty}"),
            )),
        }
    }

    pub(super) fn leave(
        &self,
        resume: bool,
        label: Option<&Name>,
        when: Option<Span>,
        span: Span,
    ) -> Result<StepKind, Diagnostic> {
        let error = |span, message: String| Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, message));
        let found = match label {
            Some(name) => {
                self.labels.iter().rev().find(|label| label.name.as_deref() == Some(name.text.as_str()))
            }
            None => self.labels.iter().rev().find(|label| label.is_loop),
        };
        let label = match (found, label) {
            (Some(found), Some(name)) if resume && !found.is_loop => {
                return error(name.span, format!("block label \"{}\" cannot be used in CONTINUE", name.text));
            }
            (Some(found), _) => found.id,
            (None, Some(name)) => {
                let message = format!(
                    "there is no label \"{}\" attached to any block or loop enclosing this statement",
                    name.text
                );
                return error(name.span, message);
            }
            (None, None) if resume => return error(span, "CONTINUE cannot be used outside a loop".into()),
            (None, None) => {
                return error(span, "EXIT cannot be used outside a loop, unless it has a label".into());
            }
        };
        let when = when.map(|when| self.value_as(when, &SqlType::Bool)).transpose()?;
        Ok(match resume {
            true => StepKind::Continue { label, when },
            false => StepKind::Exit { label, when },
        })
    }

    pub(super) fn raise(&self, raise: &RaiseStatement) -> Result<StepKind, Diagnostic> {
        let mut state = None;
        // The message where nothing says it: the condition's name.
        let mut name = None;
        let mut format = None;
        match &raise.what {
            RaiseWhat::Format(text, _) => format = Some(text.clone()),
            RaiseWhat::Condition(condition) => {
                state = Some(condition_state(&condition.text, false, condition.span)?);
                name = Some(condition.text.clone());
            }
            RaiseWhat::SqlState(code, span) => {
                state = Some(SqlState::parse(code).ok_or_else(|| {
                    Diagnostic::new(SqlState::SYNTAX_ERROR, *span, "invalid SQLSTATE code")
                        .with_hint("a SQLSTATE has five characters, digits and capital letters")
                })?);
                name = Some(code.clone());
            }
            RaiseWhat::Nothing => {}
        }
        let (mut message, mut detail, mut hint) = (None, None, None);
        for (option, span) in &raise.options {
            let (slot, word) = match option {
                RaiseOption::ErrCode if state.is_some() => return Err(specified_twice("ERRCODE", *span)),
                RaiseOption::ErrCode => {
                    let code = self.constant_text(*span)?;
                    state = Some(condition_state(&code, true, *span)?);
                    name = Some(code);
                    continue;
                }
                RaiseOption::Message if format.is_some() => return Err(specified_twice("MESSAGE", *span)),
                RaiseOption::Message => (&mut message, "MESSAGE"),
                RaiseOption::Detail => (&mut detail, "DETAIL"),
                RaiseOption::Hint => (&mut hint, "HINT"),
            };
            if slot.replace(self.shown(*span)?).is_some() {
                return Err(specified_twice(word, *span));
            }
        }
        let state = state.unwrap_or(match raise.level {
            RaiseLevel::Exception => SqlState::RAISE_EXCEPTION,
            RaiseLevel::Warning => SqlState::WARNING,
            _ => SqlState::SUCCESSFUL_COMPLETION,
        });
        let args = raise.args.iter().map(|arg| self.shown(*arg)).collect::<Result<_, _>>()?;
        let format = format.unwrap_or_else(|| name.unwrap_or_else(|| state.to_string()).replace('%', "%%"));
        Ok(StepKind::Raise(Raise { level: raise.level, format, args, state, message, detail, hint }))
    }

    /// As text the way a message shows it: a boolean is `t` or `f` there.
    fn shown(&self, span: Span) -> Result<Expr, Diagnostic> {
        let value = self.value(span)?;
        if value.ty != SqlType::Bool {
            return self.convert(value, &SqlType::Text);
        }
        let not = Expr { kind: ExprKind::Not(Box::new(value.clone())), ty: SqlType::Bool, span };
        let kind =
            ExprKind::Case { whens: vec![(value, text("t", span)), (not, text("f", span))], otherwise: None };
        Ok(Expr { kind, ty: SqlType::Text, span })
    }

    fn constant_text(&self, span: Span) -> Result<String, Diagnostic> {
        match self.value(span)?.kind {
            ExprKind::Literal(Value::Text(text)) => Ok(text.to_string()),
            _ => Err(Diagnostic::unsupported(
                span,
                "a computed ERRCODE",
                "write the code itself: ERRCODE = '23505', or a condition's name",
            )),
        }
    }
}

fn specified_twice(option: &str, span: Span) -> Diagnostic {
    Diagnostic::new(SqlState::SYNTAX_ERROR, span, format!("RAISE option already specified: {option}"))
}

fn condition_state(name: &str, code_allowed: bool, span: Span) -> Result<SqlState, Diagnostic> {
    let code = if code_allowed { SqlState::parse(name) } else { None };
    code.or_else(|| state_of_condition(name)).ok_or_else(|| {
        Diagnostic::new(
            SqlState::UNDEFINED_OBJECT,
            span,
            format!("unrecognized exception condition \"{name}\""),
        )
        .with_hint("give its SQLSTATE instead: five digits or capital letters")
    })
}
