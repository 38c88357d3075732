//! A DO block as statements for a session, one after the other: definitions, EXECUTE and EXCEPTION are no work for shards.
//!
//! Taken so is a block without variables, loops and INTO. Its expressions are queries, so this needs no catalog and runs nothing.

use pg_query::protobuf::{DefElem, DoStmt, node};
use weir_types::SqlState;

use super::bind::Options;
use super::conditions::state_of_condition;
use super::parser;
use super::structure::{Block, Handler, RaiseStatement, RaiseWhat, Statement, StatementKind};
use crate::bound::RaiseLevel;
use crate::lexer::{Lexer, TokenKind};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

#[derive(Clone, Debug, PartialEq)]
pub enum ScriptStep {
    /// A statement, as it was written.
    Run(String),
    /// PERFORM: a query whose rows are discarded.
    Perform(String),
    /// EXECUTE: a query that gives the text of what is to be run.
    Execute(String),
    /// The conditions are queries of one value.
    If {
        branches: Vec<(String, Vec<ScriptStep>)>,
        otherwise: Vec<ScriptStep>,
    },
    /// The arguments of the message are queries of one value.
    Raise {
        level: RaiseLevel,
        message: String,
        arguments: Vec<String>,
    },
    /// A block with EXCEPTION: if a step fails, its effects are undone and the handler of that error runs.
    Guarded {
        steps: Vec<ScriptStep>,
        handlers: Vec<(Vec<Caught>, Vec<ScriptStep>)>,
    },
    Return,
}

/// Condition of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    Others,
    /// An SQLSTATE; one that ends in 000 includes its class.
    State(SqlState),
}

impl Caught {
    pub fn catches(self, state: SqlState) -> bool {
        match self {
            // As in PostgreSQL, OTHERS excludes these two.
            Caught::Others => ![SqlState::QUERY_CANCELED, SqlState::ASSERT_FAILURE].contains(&state),
            Caught::State(caught) => {
                caught == state || caught.as_str().ends_with("000") && caught.0[..2] == state.0[..2]
            }
        }
    }
}

/// `None`: it has variables, loops or INTO, and nothing that is a session's.
///
/// # Errors
/// It cannot be read, or has both.
pub(crate) fn script(
    piece: Piece<'_>,
    stmt: &DoStmt,
    span: Span,
) -> Result<Option<Vec<ScriptStep>>, Diagnostic> {
    let body = body_of_block(piece, stmt, span)?;
    let block = parser::parse_with(body.file, body.offset, body.text, true)?;
    let mut reader = Reader { piece, is_sessions: None, is_shards: false };
    let steps = reader.block(&block)?;
    match (reader.is_sessions, reader.is_shards) {
        (_, false) => Ok(Some(steps)),
        (None, true) => Ok(None),
        (Some(what), true) => Err(Diagnostic::unsupported(
            what,
            "a definition, EXECUTE, PERFORM, CALL or EXCEPTION in a DO block with variables, loops or INTO",
            "write it without variables, as IF EXISTS (SELECT …) THEN …, or make a procedure of the rest and CALL it",
        )),
    }
}

/// Body between the quotes of DO.
pub(super) fn body_of_block<'p>(
    piece: Piece<'p>,
    stmt: &DoStmt,
    span: Span,
) -> Result<Piece<'p>, Diagnostic> {
    let elements = stmt.args.iter().filter_map(|arg| match &arg.node {
        Some(node::Node::DefElem(element)) => Some(&**element),
        _ => None,
    });
    let elements: Vec<&DefElem> = elements.collect();
    let options = Options::of_block(piece, &elements, span);
    if options.language != "plpgsql" {
        return Err(Diagnostic::unsupported(
            options.language_at,
            format!("LANGUAGE {}", options.language),
            "write the block in LANGUAGE plpgsql",
        ));
    }
    options.body(piece, span)
}

struct Reader<'p> {
    piece: Piece<'p>,
    /// Something that no shard does.
    is_sessions: Option<Span>,
    /// Something that no session does.
    is_shards: bool,
}

impl Reader<'_> {
    fn block(&mut self, block: &Block) -> Result<Vec<ScriptStep>, Diagnostic> {
        self.is_shards |= !block.declarations.is_empty();
        let steps = self.steps(&block.body)?;
        if block.handlers.is_empty() {
            return Ok(steps);
        }
        self.is_sessions.get_or_insert(Span { end: block.span.start + 5, ..block.span });
        let handlers =
            block.handlers.iter().map(|Handler { when, body }| Ok((self.caught(*when)?, self.steps(body)?)));
        let handlers = handlers.collect::<Result<_, Diagnostic>>()?;
        Ok(vec![ScriptStep::Guarded { steps, handlers }])
    }

    fn steps(&mut self, statements: &[Statement]) -> Result<Vec<ScriptStep>, Diagnostic> {
        let mut steps = Vec::with_capacity(statements.len());
        for statement in statements {
            steps.extend(self.statement(statement)?);
        }
        Ok(steps)
    }

    fn text(&self, span: Span) -> String {
        self.piece.text_of(span).to_owned()
    }

    fn value(&self, span: Span) -> String {
        format!("SELECT ({})", self.piece.text_of(span))
    }

    fn statement(&mut self, statement: &Statement) -> Result<Vec<ScriptStep>, Diagnostic> {
        let Statement { kind, span } = statement;
        let step = match kind {
            StatementKind::Null => return Ok(Vec::new()),
            StatementKind::Block(block) => return self.block(block),
            StatementKind::Sql { into: None } => {
                let text = self.text(*span);
                if !is_shards_statement(&text) {
                    self.is_sessions.get_or_insert(*span);
                }
                ScriptStep::Run(text)
            }
            StatementKind::Call => {
                self.is_sessions.get_or_insert(*span);
                ScriptStep::Run(self.text(*span))
            }
            StatementKind::Perform => {
                let text = self.text(*span);
                ScriptStep::Perform(format!("SELECT{}", text.get("PERFORM".len()..).unwrap_or_default()))
            }
            StatementKind::If { branches, otherwise } => {
                let branch =
                    |(when, steps): &(Span, Vec<Statement>)| Ok((self.value(*when), self.steps(steps)?));
                let branches = branches.iter().map(branch).collect::<Result<_, Diagnostic>>()?;
                ScriptStep::If { branches, otherwise: self.steps(otherwise)? }
            }
            StatementKind::Raise(raise) => match self.raise(raise) {
                Some(step) => step,
                None => return self.only_shards(),
            },
            StatementKind::Return { value: None } => ScriptStep::Return,
            StatementKind::Refused(refusal) => match self.execute(*span) {
                Some(step) => {
                    self.is_sessions.get_or_insert(*span);
                    step
                }
                None => return Err((**refusal).clone()),
            },
            StatementKind::Loop { body, .. } => {
                self.steps(body)?;
                return self.only_shards();
            }
            _ => return self.only_shards(),
        };
        Ok(vec![step])
    }

    fn only_shards(&mut self) -> Result<Vec<ScriptStep>, Diagnostic> {
        self.is_shards = true;
        Ok(Vec::new())
    }

    /// EXECUTE of a text, without INTO and USING.
    fn execute(&self, span: Span) -> Option<ScriptStep> {
        let text = self.piece.text_of(span);
        let mut tokens = Lexer::new(text, 0);
        let first = tokens.next().filter(|token| token.is_word(text, "execute"))?;
        let mut depth = 0i32;
        for token in tokens {
            depth += i32::from(token.is(b'(')) - i32::from(token.is(b')'));
            if depth == 0 && (token.is_word(text, "into") || token.is_word(text, "using")) {
                return None;
            }
        }
        Some(ScriptStep::Execute(format!("SELECT ({})", text.get(first.end..)?)))
    }

    fn raise(&self, raise: &RaiseStatement) -> Option<ScriptStep> {
        let RaiseWhat::Format(message, _) = &raise.what else { return None };
        let arguments = raise.args.iter().map(|span| self.value(*span)).collect();
        let step = ScriptStep::Raise { level: raise.level, message: message.clone(), arguments };
        raise.options.is_empty().then_some(step)
    }

    /// `duplicate_object OR SQLSTATE '42P07'`.
    fn caught(&self, when: Span) -> Result<Vec<Caught>, Diagnostic> {
        let text = self.piece.text_of(when);
        let mut caught = Vec::new();
        for token in Lexer::new(text, 0) {
            let start = when.start + token.start as u32;
            let place = Span { start, end: when.start + token.end as u32, ..when };
            let wrong = |what: String| Diagnostic::new(SqlState::UNDEFINED_OBJECT, place, what);
            match token.kind {
                _ if token.is_word(text, "or") || token.is_word(text, "sqlstate") => {}
                _ if token.is_word(text, "others") => caught.push(Caught::Others),
                TokenKind::Text => {
                    let state = text[token.start..token.end].trim_matches('\'');
                    let state = SqlState::parse(state);
                    caught
                        .push(Caught::State(state.ok_or_else(|| wrong("invalid SQLSTATE code".to_owned()))?));
                }
                _ => {
                    let name = token.name(text).unwrap_or_default();
                    let state = state_of_condition(&name);
                    let unknown = || wrong(format!("unrecognized exception condition \"{name}\""));
                    caught.push(Caught::State(state.ok_or_else(unknown)?));
                }
            }
        }
        Ok(caught)
    }
}

/// A statement that a procedure may have.
fn is_shards_statement(text: &str) -> bool {
    const WORDS: [&str; 6] = ["select", "insert", "update", "delete", "with", "values"];
    let first = Lexer::new(text, 0).next();
    first.is_some_and(|first| first.is(b'(') || WORDS.iter().any(|word| first.is_word(text, word)))
}

#[cfg(test)]
mod tests {
    use super::{Caught, ScriptStep};
    use crate::session::{Command, statements};

    fn check(body: &str, expect: &str) {
        let text = format!("DO $x$ {body} $x$");
        let found = match statements(&text) {
            Ok(said) => match &said[0].what {
                Command::Script(steps) => {
                    steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join("; ")
                }
                other => format!("{other:?}"),
            },
            Err(wrong) => format!("{} {} at {}", wrong.state, wrong.message, wrong.span.start),
        };
        assert_eq!(found, expect, "{body}");
    }

    #[test]
    fn blocks_without_variables_are_a_sessions() {
        check("BEGIN NULL; CREATE TABLE a (b int); END", "Run(\"CREATE TABLE a (b int)\")");
        check(
            "BEGIN IF NOT EXISTS (SELECT 1) THEN PERFORM f(1); ELSIF x THEN RETURN; ELSE EXECUTE 'a' || 'b'; END IF; END",
            "If { branches: [(\"SELECT (NOT EXISTS (SELECT 1))\", [Perform(\"SELECT f(1)\")]), (\"SELECT (x)\", [Return])], \
             otherwise: [Execute(\"SELECT ( 'a' || 'b')\")] }",
        );
        check(
            "BEGIN CREATE TYPE a AS ENUM (); EXCEPTION WHEN duplicate_object OR SQLSTATE '42P07' THEN NULL; WHEN others THEN RAISE NOTICE 'it is %', 1; END",
            &format!(
                "{:?}",
                ScriptStep::Guarded {
                    steps: vec![ScriptStep::Run("CREATE TYPE a AS ENUM ()".into())],
                    handlers: vec![
                        (
                            ["42710", "42P07"]
                                .map(|state| Caught::State(weir_types::SqlState::parse(state).unwrap()))
                                .to_vec(),
                            Vec::new(),
                        ),
                        (
                            vec![Caught::Others],
                            vec![ScriptStep::Raise {
                                level: crate::bound::RaiseLevel::Notice,
                                message: "it is %".into(),
                                arguments: vec!["SELECT (1)".into()],
                            }],
                        ),
                    ],
                }
            ),
        );
    }

    #[test]
    fn the_others_are_procedures() {
        check("DECLARE i int; BEGIN i := 1; END", "Run");
        check("BEGIN FOR i IN 1..3 LOOP INSERT INTO t VALUES (i); END LOOP; END", "Run");
        check(
            "BEGIN FOR i IN 1..3 LOOP NULL; END LOOP; DROP TABLE t; END",
            "0A000 a definition, EXECUTE, PERFORM, CALL or EXCEPTION in a DO block with variables, loops or INTO is not \
             supported at 48",
        );
        check("BEGIN EXECUTE 'a' USING 1; END", "0A000 EXECUTE (dynamic SQL) is not supported at 13");
    }
}
