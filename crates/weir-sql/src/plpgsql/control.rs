//! The control statements of the structure parser: IF, CASE, loops, EXIT, RAISE, RETURN and so on.

use weir_types::SqlState;

use super::parser::Parser;
use super::structure::{LoopKind, Name, RaiseOption, RaiseStatement, RaiseWhat, StatementKind};
use super::tokens::TokenKind;
use crate::bound::RaiseLevel;
use crate::source::{Diagnostic, Span};

impl Parser<'_> {
    pub(super) fn if_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        const ENDS: [&str; 4] = ["end", "elsif", "elseif", "else"];
        let mut branches = Vec::new();
        loop {
            // IF, ELSIF or ELSEIF.
            self.tokens.advance();
            let condition = self.tokens.code_until(&["then"], "a condition")?;
            self.tokens.expect("then")?;
            branches.push((condition, self.statements(&ENDS)?));
            if !self.tokens.at_any(&["elsif", "elseif"]) {
                break;
            }
        }
        let otherwise = if self.tokens.accept("else") { self.statements(&["end"])? } else { Vec::new() };
        self.tokens.expect("end")?;
        self.tokens.expect("if")?;
        Ok(StatementKind::If { branches, otherwise })
    }

    pub(super) fn case_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        self.tokens.expect("case")?;
        let subject = match self.tokens.at("when") {
            true => None,
            false => Some(self.tokens.code_until(&["when"], "WHEN or an expression")?),
        };
        let mut branches = Vec::new();
        while self.tokens.accept("when") {
            let condition = self.tokens.code_until(&["then"], "an expression")?;
            self.tokens.expect("then")?;
            branches.push((condition, self.statements(&["end", "when", "else"])?));
        }
        let otherwise = match self.tokens.accept("else") {
            true => Some(self.statements(&["end"])?),
            false => None,
        };
        self.tokens.expect("end")?;
        self.tokens.expect("case")?;
        Ok(StatementKind::Case { subject, branches, otherwise })
    }

    /// At LOOP, WHILE, FOR or FOREACH.
    pub(super) fn loop_statement(&mut self, label: Option<Name>) -> Result<StatementKind, Diagnostic> {
        let kind = if self.tokens.accept("while") {
            LoopKind::While(self.tokens.code_until(&["loop"], "a condition")?)
        } else if self.tokens.accept("for") {
            self.for_header()?
        } else if self.tokens.accept("foreach") {
            self.foreach_header()?
        } else if self.tokens.at("loop") {
            LoopKind::Forever
        } else {
            return Err(self.tokens.unexpected("a block or a loop"));
        };
        self.tokens.expect("loop")?;
        let body = self.statements(&["end"])?;
        self.tokens.expect("end")?;
        self.tokens.expect("loop")?;
        self.closing_label(label.as_ref())?;
        Ok(StatementKind::Loop { kind, label, body })
    }

    fn for_header(&mut self) -> Result<LoopKind, Diagnostic> {
        let mut targets = self.paths("the name of a variable")?;
        self.tokens.expect("in")?;
        if self.tokens.at("execute") {
            let refusal = Diagnostic::unsupported(
                self.tokens.span(self.tokens.peek()),
                "FOR … IN EXECUTE (dynamic SQL)",
                "write the query itself",
            );
            if !self.tolerant {
                return Err(refusal);
            }
            self.tokens.code_until(&["loop"], "a query")?;
            return Ok(LoopKind::Refused(Box::new(refusal)));
        }
        let reverse = self.tokens.accept("reverse");
        let first = self.tokens.code_until(&["..", "loop"], "a range or a query")?;
        if !self.tokens.accept("..") {
            if reverse {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    first,
                    "cannot specify REVERSE in query FOR loop",
                )
                .with_hint("order the query itself: ORDER BY … DESC"));
            }
            return Ok(LoopKind::Query { targets, query: first });
        }
        let to = self.tokens.code_until(&["loop", "by"], "an expression")?;
        let by = match self.tokens.accept("by") {
            true => Some(self.tokens.code_until(&["loop"], "an expression")?),
            false => None,
        };
        match (targets.len(), targets.pop()) {
            (1, Some(mut path)) if path.names.len() == 1 => {
                let variable = path.names.remove(0);
                Ok(LoopKind::Range { variable, from: first, to, by, reverse })
            }
            (_, path) => Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                path.map_or(first, |path| path.span),
                "integer FOR loop must have only one target variable",
            )),
        }
    }

    fn foreach_header(&mut self) -> Result<LoopKind, Diagnostic> {
        let target = self.tokens.path("the name of a variable")?;
        if self.tokens.at("slice") {
            return Err(Diagnostic::unsupported(
                self.tokens.span(self.tokens.peek()),
                "FOREACH … SLICE",
                "arrays have one dimension: loop over their elements",
            ));
        }
        self.tokens.expect("in")?;
        self.tokens.expect("array")?;
        Ok(LoopKind::Array { target, array: self.tokens.code_until(&["loop"], "an array")? })
    }

    /// EXIT or CONTINUE.
    pub(super) fn leave_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        let resume = self.tokens.at("continue");
        self.tokens.advance();
        let label = match self.tokens.at_name() && !self.tokens.at("when") {
            true => Some(self.tokens.name("a label")?),
            false => None,
        };
        let when = match self.tokens.accept("when") {
            true => Some(self.tokens.code_until(&[";"], "a condition")?),
            false => None,
        };
        Ok(StatementKind::Leave { resume, label, when })
    }

    pub(super) fn return_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        self.tokens.advance();
        if self.tokens.at(";") {
            return Ok(StatementKind::Return { value: None });
        }
        if self.tokens.accept("next") {
            let value = match self.tokens.at(";") {
                true => None,
                false => Some(self.tokens.code_until(&[";"], "an expression")?),
            };
            return Ok(StatementKind::ReturnNext { value });
        }
        if self.tokens.accept("query") {
            if self.tokens.at("execute") {
                return Err(Diagnostic::unsupported(
                    self.tokens.span(self.tokens.peek()),
                    "RETURN QUERY EXECUTE (dynamic SQL)",
                    "write the query itself: RETURN QUERY SELECT …",
                ));
            }
            return Ok(StatementKind::ReturnQuery { query: self.tokens.code_until(&[";"], "a query")? });
        }
        Ok(StatementKind::Return { value: Some(self.tokens.code_until(&[";"], "an expression")?) })
    }

    pub(super) fn get_diagnostics(&mut self) -> Result<StatementKind, Diagnostic> {
        self.tokens.advance();
        if self.tokens.at("stacked") {
            return Err(Diagnostic::unsupported(
                self.tokens.span(self.tokens.peek()),
                "GET STACKED DIAGNOSTICS",
                "an error always ends the whole transaction; the client is told its SQLSTATE and message",
            ));
        }
        self.tokens.accept("current");
        self.tokens.expect("diagnostics")?;
        let mut targets = Vec::new();
        loop {
            targets.push(self.tokens.path("the name of a variable")?);
            if !self.tokens.accept(":=") {
                self.tokens.expect("=")?;
            }
            if !self.tokens.accept("row_count") {
                let item = self.tokens.name("ROW_COUNT")?;
                return Err(Diagnostic::unsupported(
                    item.span,
                    format!("GET DIAGNOSTICS … = {}", item.text.to_uppercase()),
                    "only ROW_COUNT is available",
                ));
            }
            if !self.tokens.accept(",") {
                return Ok(StatementKind::GetRowCount { targets });
            }
        }
    }

    pub(super) fn assert_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        self.tokens.advance();
        let condition = self.tokens.code_until(&[",", ";"], "a condition")?;
        let message = match self.tokens.accept(",") {
            true => Some(self.tokens.code_until(&[";"], "a message")?),
            false => None,
        };
        Ok(StatementKind::Assert { condition, message })
    }

    pub(super) fn raise_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        let start = self.tokens.advance();
        if self.tokens.at(";") {
            return Err(Diagnostic::unsupported(
                self.tokens.span(start),
                "RAISE without parameters",
                "it rethrows what EXCEPTION caught; say what to raise: RAISE EXCEPTION '…'",
            ));
        }
        let level = self.raise_level();
        let what = self.raise_what()?;
        let mut args = Vec::new();
        if let RaiseWhat::Format(format, span) = &what {
            while self.tokens.accept(",") {
                args.push(self.tokens.code_until(&[",", ";", "using"], "an expression")?);
            }
            check_placeholders(format, *span, &args)?;
        }
        let mut options = Vec::new();
        if self.tokens.accept("using") {
            loop {
                options.push(self.raise_option()?);
                if !self.tokens.accept(",") {
                    break;
                }
            }
        }
        Ok(StatementKind::Raise(RaiseStatement { level, what, args, options }))
    }

    fn raise_level(&mut self) -> RaiseLevel {
        let levels = [
            ("exception", RaiseLevel::Exception),
            ("warning", RaiseLevel::Warning),
            ("notice", RaiseLevel::Notice),
            ("info", RaiseLevel::Info),
            ("log", RaiseLevel::Log),
            ("debug", RaiseLevel::Debug),
        ];
        let found = levels.into_iter().find(|(word, _)| self.tokens.accept(word));
        found.map_or(RaiseLevel::Exception, |(_, level)| level)
    }

    fn raise_what(&mut self) -> Result<RaiseWhat, Diagnostic> {
        if self.tokens.at("using") {
            return Ok(RaiseWhat::Nothing);
        }
        if self.tokens.peek().kind == TokenKind::Text {
            let (format, span) = self.tokens.string("a format")?;
            return Ok(RaiseWhat::Format(format, span));
        }
        if self.tokens.accept("sqlstate") {
            let (code, span) = self.tokens.string("a SQLSTATE such as '23505'")?;
            return Ok(RaiseWhat::SqlState(code, span));
        }
        Ok(RaiseWhat::Condition(self.tokens.name("a format string, the name of a condition, or USING")?))
    }

    fn raise_option(&mut self) -> Result<(RaiseOption, Span), Diagnostic> {
        let name = self.tokens.name("ERRCODE, MESSAGE, DETAIL or HINT")?;
        let option = match name.text.as_str() {
            "errcode" => RaiseOption::ErrCode,
            "message" => RaiseOption::Message,
            "detail" => RaiseOption::Detail,
            "hint" => RaiseOption::Hint,
            "column" | "constraint" | "datatype" | "table" | "schema" => {
                return Err(Diagnostic::unsupported(
                    name.span,
                    format!("RAISE … USING {}", name.text.to_uppercase()),
                    "ERRCODE, MESSAGE, DETAIL and HINT are available",
                ));
            }
            _ => {
                return Err(Diagnostic::new(
                    SqlState::SYNTAX_ERROR,
                    name.span,
                    format!("unrecognized RAISE statement option \"{}\"", name.text),
                )
                .with_hint("ERRCODE, MESSAGE, DETAIL and HINT are available"));
            }
        };
        if !self.tokens.accept(":=") {
            self.tokens.expect("=")?;
        }
        Ok((option, self.tokens.code_until(&[",", ";"], "an expression")?))
    }
}

/// Each `%` stands for an argument, `%%` for a percent sign.
fn check_placeholders(format: &str, span: Span, args: &[Span]) -> Result<(), Diagnostic> {
    let placeholders = format.replace("%%", "").matches('%').count();
    if placeholders == args.len() {
        return Ok(());
    }
    let (few, place) = match args.get(placeholders) {
        Some(surplus) => ("many", *surplus),
        None => ("few", span),
    };
    Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, format!("too {few} parameters specified for RAISE"))
        .with_hint(format!(
            "the format has {placeholders} placeholders (%) and there are {} arguments",
            args.len()
        )))
}
