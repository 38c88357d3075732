//! Functions in pg_temp: CREATE FUNCTION, its call and DROP FUNCTION. Such a function is its session's, so it is none of the schema's.
//!
//! One form is there, by which mappers insert a row and are told that another one has its key: OUT parameters, and a body that is one
//! INSERT, UPDATE or DELETE … RETURNING … INTO, with a handler that tells what was caught.

use weir_types::SqlState;

use super::cut::tokens;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};

#[derive(Clone, Debug, PartialEq)]
pub enum Temporary {
    Create { function: TemporaryFunction, replaces: bool },
    Call { name: String, outputs: Vec<Output> },
    Drop { name: String, if_exists: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TemporaryFunction {
    pub name: String,
    /// OUT parameters: their names, and their types as they are written.
    pub outputs: Vec<(String, String)>,
    /// The statement, without INTO.
    pub statement: String,
    /// The parameter that the row goes into.
    pub into: String,
    /// Assignments of the handler of `unique_violation`: parameters and their values.
    pub caught: Option<Vec<(String, Caught)>>,
}

/// An item of GET STACKED DIAGNOSTICS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    State,
    Message,
    Detail,
    Constraint,
}

/// Output of a call of the function: `f.parameter`, `(f.parameter).field`, or, without a field, `(f.parameter).*`.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Scalar(String),
    Field(String, Option<String>),
}

const REMEDY: &str = "in pg_temp there are functions of OUT parameters, in LANGUAGE plpgsql, whose body is BEGIN … RETURNING … INTO parameter; \
                      [EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS …;] END, called by SELECT (f.row).*, f.value FROM pg_temp.f()";

impl Temporary {
    /// `None`: the statement is not about a function in pg_temp.
    pub(super) fn of(piece: Piece<'_>, span: Span) -> Result<Option<Temporary>, Diagnostic> {
        if !piece.text_of(span).to_ascii_lowercase().contains("pg_temp") {
            return Ok(None);
        }
        let all: Vec<Token> = tokens(piece, span).collect();
        let mut reader = Reader { text: piece.text, tokens: &all };
        let (replaces, what) = if reader.words(&["create", "function", "pg_temp"]) {
            (false, "a function")
        } else if reader.words(&["create", "or", "replace", "function", "pg_temp"]) {
            (true, "a function")
        } else if reader.words(&["drop", "function", "pg_temp"]) {
            return Ok(Some(reader.drop(false, piece, span)?));
        } else if reader.words(&["drop", "function", "if", "exists", "pg_temp"]) {
            return Ok(Some(reader.drop(true, piece, span)?));
        } else if reader.words(&["select"]) && calls(piece.text, &all) {
            let call = reader.call();
            return call.map(Some).ok_or_else(|| refused(span, "this call of a function"));
        } else {
            return Ok(None);
        };
        let function = reader.function().ok_or_else(|| refused(span, what))?;
        Ok(Some(Temporary::Create { function, replaces }))
    }
}

fn refused(span: Span, what: &str) -> Diagnostic {
    Diagnostic::unsupported(span, format!("{what} in pg_temp of this form"), REMEDY)
}

/// FROM pg_temp.f(.
fn calls(text: &str, tokens: &[Token]) -> bool {
    tokens.windows(5).any(|five| {
        five[0].is_word(text, "from")
            && five[1].is_word(text, "pg_temp")
            && five[2].is(b'.')
            && five[4].is(b'(')
    })
}

/// Takes tokens one after the other.
struct Reader<'t> {
    text: &'t str,
    tokens: &'t [Token],
}

impl<'t> Reader<'t> {
    /// Takes the words if all of them are next.
    fn words(&mut self, words: &[&str]) -> bool {
        let all = self.tokens.len() >= words.len()
            && self.tokens.iter().zip(words).all(|(token, word)| token.is_word(self.text, word));
        if all {
            self.tokens = &self.tokens[words.len()..];
        }
        all
    }

    fn mark(&mut self, mark: u8) -> Option<()> {
        self.next().filter(|token| token.is(mark)).map(drop)
    }

    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn name(&mut self) -> Option<String> {
        self.next()?.name(self.text)
    }

    fn written(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    fn drop(mut self, if_exists: bool, piece: Piece<'_>, span: Span) -> Result<Temporary, Diagnostic> {
        let mut read = || {
            self.mark(b'.')?;
            let name = self.name()?;
            if !self.tokens.is_empty() {
                self.mark(b'(')?;
                self.mark(b')')?;
            }
            self.tokens.is_empty().then_some(Temporary::Drop { name, if_exists })
        };
        read().ok_or_else(|| {
            let at = piece.token(span.start as i32);
            Diagnostic::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                at,
                "DROP FUNCTION of this form in pg_temp is not supported",
            )
        })
    }

    /// Behind SELECT.
    fn call(mut self) -> Option<Temporary> {
        let mut outputs = Vec::new();
        let mut of = None;
        loop {
            let is_field = self.tokens.first()?.is(b'(');
            if is_field {
                self.mark(b'(')?;
            }
            let function = self.name()?;
            if of.get_or_insert_with(|| function.clone()) != &function {
                return None;
            }
            self.mark(b'.')?;
            let parameter = self.name()?;
            outputs.push(match is_field {
                false => Output::Scalar(parameter),
                true => {
                    self.mark(b')')?;
                    self.mark(b'.')?;
                    let field = self.next()?;
                    match self.written(field) {
                        "*" => Output::Field(parameter, None),
                        _ => Output::Field(parameter, Some(field.name(self.text)?)),
                    }
                }
            });
            if self.words(&["from", "pg_temp"]) {
                break;
            }
            self.mark(b',')?;
        }
        self.mark(b'.')?;
        let name = self.name()?;
        self.mark(b'(')?;
        self.mark(b')')?;
        (self.tokens.is_empty() && of.as_ref() == Some(&name)).then_some(Temporary::Call { name, outputs })
    }

    /// Behind CREATE FUNCTION pg_temp.
    fn function(mut self) -> Option<TemporaryFunction> {
        self.mark(b'.')?;
        let name = self.name()?;
        self.mark(b'(')?;
        let mut outputs = Vec::new();
        loop {
            self.words(&["out"]).then_some(())?;
            let parameter = self.name()?;
            let (first, mut last, mut depth) = (*self.tokens.first()?, None, 0_u32);
            while let Some(token) = self.tokens.first() {
                match () {
                    () if token.is(b'(') => depth += 1,
                    () if depth == 0 && (token.is(b',') || token.is(b')')) => break,
                    () if token.is(b')') => depth -= 1,
                    () => {}
                }
                last = self.next();
            }
            outputs.push((parameter, self.text.get(first.start..last?.end)?.to_owned()));
            if self.next()?.is(b')') {
                break;
            }
        }
        let (mut body, mut is_plpgsql) = (None, false);
        while !self.tokens.is_empty() {
            if self.words(&["returns", "record"]) {
                continue;
            }
            if self.words(&["language", "plpgsql"]) {
                is_plpgsql = true;
                continue;
            }
            self.words(&["as"]).then_some(())?;
            let text = self.next().filter(|token| token.kind == TokenKind::Text)?;
            body = Some(content(self.written(text))?);
        }
        let (statement, into, caught) = body_of(&body?)?;
        let has = |parameter: &String| outputs.iter().any(|(name, _)| name == parameter);
        let knows_all = has(&into) && caught.iter().flatten().all(|(parameter, _)| has(parameter));
        (is_plpgsql && knows_all).then_some(TemporaryFunction { name, outputs, statement, into, caught })
    }
}

/// Contents of a quoted string.
fn content(written: &str) -> Option<String> {
    if let Some(rest) = written.strip_prefix('\'') {
        return Some(rest.strip_suffix('\'')?.replace("''", "'"));
    }
    let tag = &written[..written.strip_prefix('$')?.find('$')? + 2];
    Some(written.strip_prefix(tag)?.strip_suffix(tag)?.to_owned())
}

type Body = (String, String, Option<Vec<(String, Caught)>>);

/// BEGIN statement INTO parameter; [EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS …;] END.
fn body_of(body: &str) -> Option<Body> {
    let all: Vec<Token> = Lexer::new(body, 0).collect();
    let mut reader = Reader { text: body, tokens: &all };
    reader.words(&["begin"]).then_some(())?;
    let end = reader.tokens.iter().position(|token| token.is(b';'))?;
    let (statement, rest) = reader.tokens.split_at(end);
    let [first, .., last, into, parameter] = statement else { return None };
    let writes = ["insert", "update", "delete"].iter().any(|word| first.is_word(body, word));
    if !writes || !into.is_word(body, "into") {
        return None;
    }
    let (written, into) = (body.get(first.start..last.end)?.to_owned(), parameter.name(body)?);
    reader.tokens = &rest[1..];
    let mut caught = None;
    if reader.words(&["exception", "when", "unique_violation", "then", "get", "stacked", "diagnostics"]) {
        let mut items = Vec::new();
        loop {
            let parameter = reader.name()?;
            matches!(reader.next().map(|token| reader.written(token)), Some("=" | ":=")).then_some(())?;
            let item = match &*reader.name()? {
                "returned_sqlstate" => Caught::State,
                "message_text" => Caught::Message,
                "pg_exception_detail" => Caught::Detail,
                "constraint_name" => Caught::Constraint,
                _ => return None,
            };
            items.push((parameter, item));
            if reader.next()?.is(b';') {
                break;
            }
        }
        caught = Some(items);
    }
    reader.words(&["end"]).then_some(())?;
    let is_over = matches!(reader.tokens, [] | [_]) && reader.tokens.iter().all(|token| token.is(b';'));
    is_over.then_some((written, into, caught))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, statements};
    use super::*;

    fn read(text: &str) -> Result<Option<Temporary>, String> {
        let said = statements(text).map_err(|wrong| format!("{:?} {}", wrong.state, wrong.message))?;
        Ok(match &said[0].what {
            Command::Temporary(temporary) => Some(temporary.clone()),
            _ => None,
        })
    }

    const CREATE: &str = r#"CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response "Users", OUT caught numeric(3, 1)) RETURNS RECORD AS $func_0a$
        BEGIN INSERT INTO "Users" ("id") VALUES (DEFAULT, 'a; b') RETURNING * INTO response;
        EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END $func_0a$ LANGUAGE plpgsql"#;

    #[test]
    fn what_mappers_send_is_read() {
        let function = TemporaryFunction {
            name: "testfunc".to_owned(),
            outputs: [("response", "\"Users\""), ("caught", "numeric(3, 1)")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into(),
            statement: r#"INSERT INTO "Users" ("id") VALUES (DEFAULT, 'a; b') RETURNING *"#.to_owned(),
            into: "response".to_owned(),
            caught: Some(vec![("caught".to_owned(), Caught::Detail)]),
        };
        assert_eq!(read(CREATE), Ok(Some(Temporary::Create { function, replaces: true })));
        let outputs = vec![
            Output::Field("response".to_owned(), Some("Id".to_owned())),
            Output::Field("response".to_owned(), None),
            Output::Scalar("caught".to_owned()),
        ];
        let call = r#"SELECT (testfunc.response)."Id", (testfunc.response).*, testfunc.caught FROM pg_temp.testfunc()"#;
        assert_eq!(read(call), Ok(Some(Temporary::Call { name: "testfunc".to_owned(), outputs })));
        let drop = Temporary::Drop { name: "testfunc".to_owned(), if_exists: true };
        assert_eq!(read("DROP FUNCTION IF EXISTS pg_temp.testfunc()"), Ok(Some(drop)));
        assert_eq!(read("SELECT 'pg_temp' FROM t"), Ok(None));
    }

    #[test]
    fn other_forms_are_refused_by_name() {
        for text in [
            "CREATE FUNCTION pg_temp.f(a int) RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql",
            "CREATE FUNCTION pg_temp.f(OUT a int) AS $$ BEGIN a := 1; END $$ LANGUAGE plpgsql",
            "CREATE FUNCTION pg_temp.f(OUT a int) AS $$ BEGIN DELETE FROM t RETURNING a INTO b; END $$ LANGUAGE plpgsql",
            "SELECT * FROM pg_temp.f()",
            "SELECT f.a FROM pg_temp.f(1)",
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains("pg_temp") && said.contains("not supported"), "{said}");
        }
    }
}
