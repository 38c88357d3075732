//! The structure parser: tokens to [`Block`].
//!
//! It reads PL/pgSQL as PostgreSQL does (`pl_gram.y`): a word starts a statement of PL/pgSQL, an
//! assignment, or else SQL up to the semicolon. Features that Weir does not have are refused here, by
//! name and place. Nothing is looked up: that is the binder's.

use weir_types::SqlState;

use super::structure::{
    Block, Declaration, DeclarationKind, DeclaredType, Handler, IntoClause, Name, Path, Statement,
    StatementKind,
};
use super::tokens::{Token, TokenKind, Tokens};
use crate::source::{Diagnostic, Span};

/// Deeper nesting is refused rather than risking the stack.
const NESTING_MAX: usize = 100;

pub(super) struct Parser<'a> {
    pub tokens: Tokens<'a>,
    depth: usize,
    /// Statements that Weir does not have are kept, with the refusal, instead of ending the parse.
    pub tolerant: bool,
}

/// Parses a whole body; `base` is its offset in its file.
pub fn parse(file: u32, base: u32, body: &str) -> Result<Block, Diagnostic> {
    parse_with(file, base, body, false)
}

/// `tolerant`: for what is only analysed.
pub(super) fn parse_with(file: u32, base: u32, body: &str, tolerant: bool) -> Result<Block, Diagnostic> {
    let mut parser = Parser { tokens: Tokens::scan(file, base, body)?, depth: 0, tolerant };
    if tolerant && parser.tokens.at("#") {
        // `#variable_conflict use_column`: which of two names is meant changes no table.
        for _ in 0..3 {
            parser.tokens.advance();
        }
    }
    if parser.tokens.at("#") {
        let token = parser.tokens.peek();
        return Err(Diagnostic::unsupported(
            parser.tokens.span(token),
            "a # option",
            "remove the line; where a variable and a column have one name, qualify the variable with the \
             procedure's name and the column with its table's",
        ));
    }
    let label = parser.opening_label()?;
    let block = parser.block(label)?;
    parser.tokens.accept(";");
    match parser.tokens.peek().kind {
        TokenKind::End => Ok(block),
        _ => Err(parser.tokens.unexpected("the end of the body")),
    }
}

impl Parser<'_> {
    /// `<<label>>`, if one comes next.
    pub fn opening_label(&mut self) -> Result<Option<Name>, Diagnostic> {
        if !self.tokens.accept("<<") {
            return Ok(None);
        }
        let label = self.tokens.name("a label")?;
        self.tokens.expect(">>")?;
        Ok(Some(label))
    }

    /// After END [LOOP]: the label again, if at all.
    pub fn closing_label(&mut self, label: Option<&Name>) -> Result<(), Diagnostic> {
        if !self.tokens.at_name() {
            return Ok(());
        }
        let name = self.tokens.name("a label")?;
        let message = match label {
            Some(label) if label.text == name.text => return Ok(()),
            Some(label) => {
                format!("end label \"{}\" differs from block's label \"{}\"", name.text, label.text)
            }
            None => format!("end label \"{}\" specified for unlabeled block", name.text),
        };
        Err(Diagnostic::new(SqlState::SYNTAX_ERROR, name.span, message))
    }

    pub fn block(&mut self, label: Option<Name>) -> Result<Block, Diagnostic> {
        let start = self.tokens.peek();
        let mut declarations = Vec::new();
        if self.tokens.accept("declare") {
            while !self.tokens.at("begin") {
                if !self.tokens.accept("declare") {
                    declarations.push(self.declaration()?);
                }
            }
        }
        if !self.tokens.at("begin") {
            return Err(self.tokens.unexpected("DECLARE or BEGIN"));
        }
        self.tokens.advance();
        let body = self.statements(&["end", "exception"])?;
        let mut handlers = Vec::new();
        if self.tolerant && self.tokens.accept("exception") {
            while self.tokens.accept("when") {
                let when = self.tokens.code_until(&["then"], "a condition")?;
                self.tokens.expect("then")?;
                handlers.push(Handler { when, body: self.statements(&["end", "when"])? });
            }
        } else if self.tokens.at("exception") {
            return Err(Diagnostic::unsupported(
                self.tokens.span(self.tokens.peek()),
                "EXCEPTION",
                "test beforehand instead: INSERT … ON CONFLICT DO NOTHING, IF NOT FOUND THEN, or a SELECT; an \
                 error always ends the whole transaction",
            ));
        }
        self.tokens.expect("end")?;
        self.closing_label(label.as_ref())?;
        Ok(Block { label, declarations, body, handlers, span: self.tokens.span_from(start) })
    }

    fn declaration(&mut self) -> Result<Declaration, Diagnostic> {
        let start = self.tokens.peek();
        if self.tokens.at("<<") {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                self.tokens.span(start),
                "block label must be placed before DECLARE, not after",
            ));
        }
        if start.kind == TokenKind::Parameter {
            return Err(self.tokens.unexpected("a name"));
        }
        let name = self.tokens.name("a declaration or BEGIN")?;
        let kind = if self.tokens.accept("alias") {
            self.tokens.expect("for")?;
            DeclarationKind::Alias(self.tokens.path("the name of a variable")?)
        } else if self.tokens.at_any(&["cursor", "scroll", "no"]) {
            let refusal = no_cursors(self.tokens.span_from(start));
            if !self.tolerant {
                return Err(refusal);
            }
            self.tokens.skip_statement(self.tokens.position());
            DeclarationKind::Refused(Box::new(refusal))
        } else {
            self.variable_declaration()?
        };
        self.tokens.expect(";")?;
        Ok(Declaration { name, kind, span: self.tokens.span_from(start) })
    }

    fn variable_declaration(&mut self) -> Result<DeclarationKind, Diagnostic> {
        let constant = self.tokens.accept("constant");
        let ty = self.declared_type()?;
        if self.tokens.accept("collate") {
            let collation = self.tokens.path("the name of a collation")?;
            let known = collation
                .names
                .last()
                .is_some_and(|name| matches!(name.text.as_str(), "C" | "POSIX" | "default"));
            if !known {
                return Err(Diagnostic::unsupported(
                    collation.span,
                    format!("the collation \"{}\"", collation.dotted()),
                    "strings compare by their bytes: leave COLLATE out, or write COLLATE \"C\"",
                ));
            }
        }
        let not_null = self.tokens.accept("not");
        if not_null {
            self.tokens.expect("null")?;
        }
        let default = if ["default", ":=", "="].iter().any(|word| self.tokens.accept(word)) {
            Some(self.tokens.code_until(&[";"], "an expression")?)
        } else {
            None
        };
        Ok(DeclarationKind::Variable { constant, ty, not_null, default })
    }

    fn declared_type(&mut self) -> Result<DeclaredType, Diagnostic> {
        let start = self.tokens.peek();
        if self.tokens.at("record") && !self.tokens.matches(self.tokens.peek_at(1), ".") {
            self.tokens.advance();
            return Ok(DeclaredType::Record(self.tokens.span_from(start)));
        }
        if matches!(start.kind, TokenKind::Word | TokenKind::QuotedName | TokenKind::Parameter) {
            // `a.b%TYPE` is a path of any length before the percent sign.
            let mut ahead = 1;
            while self.tokens.matches(self.tokens.peek_at(ahead), ".") {
                ahead += 2;
            }
            if self.tokens.matches(self.tokens.peek_at(ahead), "%") {
                return self.type_by_reference();
            }
        }
        let ends = [";", ":=", "=", "default", "not", "collate"];
        let span = self.tokens.code_until(&ends, "a type")?;
        Ok(DeclaredType::Named(span))
    }

    fn type_by_reference(&mut self) -> Result<DeclaredType, Diagnostic> {
        let path = self.tokens.path("a name")?;
        self.tokens.expect("%")?;
        if self.tokens.accept("rowtype") {
            return Ok(DeclaredType::RowOf(path));
        }
        self.tokens.expect("type")?;
        let array = self.tokens.accept("[");
        if array {
            self.tokens.expect("]")?;
        }
        Ok(DeclaredType::SameAs { path, array })
    }

    /// Statements up to one of `ends`, which is left to be read.
    pub fn statements(&mut self, ends: &[&str]) -> Result<Vec<Statement>, Diagnostic> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(Diagnostic::new(
                SqlState::STATEMENT_TOO_COMPLEX,
                self.tokens.span(self.tokens.peek()),
                "blocks and loops nest too deeply",
            )
            .with_hint(format!("the limit is {NESTING_MAX} levels")));
        }
        let mut statements = Vec::new();
        while !self.tokens.at_any(ends) {
            if self.tokens.peek().kind == TokenKind::End {
                return Err(self.tokens.unexpected(&ends[0].to_uppercase()));
            }
            statements.push(self.statement()?);
        }
        self.depth -= 1;
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Statement, Diagnostic> {
        const COMPOUND: [&str; 9] =
            ["<<", "declare", "begin", "if", "case", "loop", "while", "for", "foreach"];
        let start = self.tokens.peek();
        let at = self.tokens.position();
        let simple = !self.tokens.at_any(&COMPOUND);
        let label = self.opening_label()?;
        let kind = match label {
            Some(label) if self.tokens.at_any(&["declare", "begin"]) => {
                StatementKind::Block(self.block(Some(label))?)
            }
            Some(label) => self.loop_statement(Some(label))?,
            None => {
                let kind = match self.at_assignment() {
                    true => self.assignment(),
                    false => self.keyword_statement(start),
                };
                match kind {
                    Err(refusal)
                        if self.tolerant && simple && refusal.state == SqlState::FEATURE_NOT_SUPPORTED =>
                    {
                        self.tokens.skip_statement(at);
                        StatementKind::Refused(Box::new(refusal))
                    }
                    kind => kind?,
                }
            }
        };
        let span = self.tokens.span_from(start);
        self.tokens.expect(";")?;
        Ok(Statement { kind, span })
    }

    /// A name that is no reserved word of PL/pgSQL, followed by what only a variable can be followed by.
    fn at_assignment(&self) -> bool {
        const RESERVED: [&str; 16] = [
            "begin", "by", "case", "declare", "else", "end", "execute", "for", "foreach", "from", "if", "in",
            "into", "loop", "null", "while",
        ];
        if !self.tokens.at_name() || self.tokens.at_any(&RESERVED) {
            return false;
        }
        let mut ahead = 1;
        while self.tokens.matches(self.tokens.peek_at(ahead), ".") {
            ahead += 2;
        }
        let next = self.tokens.peek_at(ahead);
        ["=", ":=", "["].iter().any(|sign| self.tokens.matches(next, sign))
    }

    fn assignment(&mut self) -> Result<StatementKind, Diagnostic> {
        let target = self.tokens.path("a variable")?;
        let mut index = None;
        while self.tokens.at("[") {
            let bracket = self.tokens.advance();
            if index.is_some() {
                return Err(Diagnostic::unsupported(
                    self.tokens.span(bracket),
                    "an array of more than one dimension",
                    "use one array per row, or a table",
                ));
            }
            index = Some(self.tokens.code_until(&["]", ":"], "an index")?);
            if self.tokens.at(":") {
                return Err(Diagnostic::unsupported(
                    self.tokens.span(self.tokens.peek()),
                    "assignment to a slice of an array",
                    "assign the elements one by one, or build the whole array with ||",
                ));
            }
            self.tokens.expect("]")?;
        }
        if !self.tokens.accept(":=") {
            self.tokens.expect("=")?;
        }
        let value = self.tokens.code_until(&[";"], "an expression")?;
        Ok(StatementKind::Assign { target, index, value })
    }

    fn keyword_statement(&mut self, start: Token) -> Result<StatementKind, Diagnostic> {
        if start.kind != TokenKind::Word {
            // `(SELECT …)` and other things that only the SQL grammar can judge.
            return self.sql_statement();
        }
        self.refuse(start)?;
        match self.tokens.text_of(start).to_ascii_lowercase().as_str() {
            "declare" | "begin" => Ok(StatementKind::Block(self.block(None)?)),
            "if" => self.if_statement(),
            "case" => self.case_statement(),
            "loop" | "while" | "for" | "foreach" => self.loop_statement(None),
            "exit" | "continue" => self.leave_statement(),
            "raise" => self.raise_statement(),
            "return" => self.return_statement(),
            "get" => self.get_diagnostics(),
            "assert" => self.assert_statement(),
            "null" => {
                self.tokens.advance();
                Ok(StatementKind::Null)
            }
            "perform" => {
                self.tokens.advance();
                self.tokens.code_until(&[";"], "an expression")?;
                Ok(StatementKind::Perform)
            }
            "call" => {
                self.tokens.advance();
                self.tokens.code_until(&[";"], "the name of a procedure")?;
                Ok(StatementKind::Call)
            }
            "else" | "elsif" | "elseif" | "end" | "when" | "then" | "exception" => {
                Err(self.tokens.unexpected("a statement"))
            }
            _ => self.sql_statement(),
        }
    }

    /// Statements that have no meaning here, each with what to write instead.
    fn refuse(&self, start: Token) -> Result<(), Diagnostic> {
        let word = self.tokens.text_of(start).to_ascii_uppercase();
        let instead = match word.as_str() {
            "EXECUTE" => {
                "write the statement itself; its tables and columns must be known when the procedure is loaded"
            }
            "OPEN" | "FETCH" | "MOVE" | "CLOSE" => return Err(no_cursors(self.tokens.span(start))),
            "COMMIT" | "ROLLBACK" | "ABORT" | "START" | "SAVEPOINT" | "RELEASE" => {
                "a CALL is one transaction, which commits when the procedure ends; RAISE EXCEPTION rolls it \
                 back; split what must commit separately into several procedures"
            }
            "DO" => "write the block itself: DECLARE … BEGIN … END",
            _ => return Ok(()),
        };
        let what = match word.as_str() {
            "EXECUTE" => "EXECUTE (dynamic SQL)".to_string(),
            "DO" => "DO inside a procedure".to_string(),
            _ => format!("{word} inside a procedure"),
        };
        Err(Diagnostic::unsupported(self.tokens.span(start), what, instead))
    }

    /// SQL up to the semicolon; INTO is PL/pgSQL's unless it belongs to INSERT or MERGE.
    fn sql_statement(&mut self) -> Result<StatementKind, Diagnostic> {
        let first = self.tokens.peek();
        let mut before = first;
        let mut into = None;
        while !self.tokens.at(";") {
            let token = self.tokens.peek();
            if token.kind == TokenKind::End {
                return Err(self.tokens.unexpected(";"));
            }
            let of_sql = self.tokens.matches(before, "insert") || self.tokens.matches(before, "merge");
            if self.tokens.at("into") && !of_sql {
                if into.is_some() {
                    return Err(Diagnostic::new(
                        SqlState::SYNTAX_ERROR,
                        self.tokens.span(token),
                        "INTO specified more than once",
                    ));
                }
                into = Some(self.read_into()?);
            } else {
                self.tokens.advance();
            }
            before = token;
        }
        if self.tokens.peek().start == first.start {
            return Err(self.tokens.unexpected("a statement"));
        }
        Ok(StatementKind::Sql { into })
    }

    fn read_into(&mut self) -> Result<IntoClause, Diagnostic> {
        let start = self.tokens.advance();
        let strict = self.tokens.accept("strict");
        let targets = self.paths("the name of a variable")?;
        Ok(IntoClause { strict, targets, span: self.tokens.span_from(start) })
    }

    /// `a, b.c, d`.
    pub fn paths(&mut self, wanted: &str) -> Result<Vec<Path>, Diagnostic> {
        let mut paths = vec![self.tokens.path(wanted)?];
        while self.tokens.accept(",") {
            paths.push(self.tokens.path(wanted)?);
        }
        Ok(paths)
    }
}

fn no_cursors(span: Span) -> Diagnostic {
    Diagnostic::unsupported(span, "a cursor", "use FOR row IN SELECT … LOOP, or SELECT … INTO with LIMIT 1")
}
