//! The form in which statements are looked up: tokens with one blank between them, words in lower case, and `$1`, `$2`, … for parameters and
//! constants in the order in which they stand.

use weir_sql::normal::tokens;

/// The meaning of a place of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `$n`, from 1.
    Number(usize),
    /// `:name`, `@name` or `sqlc.arg(name)`, which the text of an application has.
    Name(String),
    /// A constant: the value of a plain string or number, else the token.
    Constant(String),
}

/// A statement in that form, up to the first semicolon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub text: String,
    pub places: Vec<Place>,
}

impl Form {
    /// The form of a statement of a client: parameters are `$n`. None: the text has more than one statement.
    pub fn of(text: &str) -> Option<Form> {
        let mut behind = tokens(text).into_iter().skip_while(|token| *token != ";");
        behind.all(|token| token == ";").then(|| Form::read(text, false))
    }

    /// The form of a statement of an application, whose parameters may have names.
    pub fn of_application(text: &str) -> Form {
        Form::read(text, true)
    }

    fn read(text: &str, has_names: bool) -> Form {
        let tokens = tokens(text);
        let (mut form, mut at, mut brackets) = (Form::default(), 0, 0usize);
        while let Some(&written) = tokens.get(at) {
            match written {
                "[" => brackets += 1,
                "]" => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            let name = has_names.then(|| named(&tokens[at..], brackets)).flatten();
            at += name.as_ref().map_or(1, |name| name.tokens);
            match (name, TokenKind::of(written)) {
                (Some(name), _) => {
                    if !name.before.is_empty() {
                        form.token(name.before);
                    }
                    form.place(Place::Name(name.name.to_owned()));
                }
                (None, TokenKind::Parameter) => match written[1..].parse() {
                    Ok(number) => form.place(Place::Number(number)),
                    Err(_) => form.token(written),
                },
                (None, TokenKind::Constant) => form.place(Place::Constant(constant(written))),
                (None, TokenKind::Word) => form.token(&written.to_lowercase()),
                (None, TokenKind::Other) if written == ";" => break,
                (None, TokenKind::Other) => form.token(written),
            }
        }
        form
    }

    fn token(&mut self, token: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(token);
    }

    fn place(&mut self, place: Place) {
        self.places.push(place);
        self.token(&format!("${}", self.places.len()));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Parameter,
    Constant,
    Word,
    Other,
}

impl TokenKind {
    fn of(token: &str) -> TokenKind {
        let mut bytes = token.bytes();
        let (first, next) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        match first {
            b'$' if next.is_ascii_digit() => TokenKind::Parameter,
            b'$' | b'\'' | b'0'..=b'9' => TokenKind::Constant,
            b'.' if next.is_ascii_digit() => TokenKind::Constant,
            b'e' | b'E' | b'b' | b'B' | b'x' | b'X' if next == b'\'' => TokenKind::Constant,
            b'u' | b'U' if next == b'&' => match token.ends_with('"') {
                true => TokenKind::Other,
                false => TokenKind::Constant,
            },
            _ if first.is_ascii_alphabetic() || first == b'_' || first >= 0x80 => TokenKind::Word,
            _ => TokenKind::Other,
        }
    }
}

/// A parameter by name.
struct Named<'t> {
    name: &'t str,
    /// The operator that is written together with it.
    before: &'t str,
    tokens: usize,
}

/// A parameter by name at the first of these tokens. The rules are those of weir-sql's `ways::queries`.
fn named<'t>(tokens: &[&'t str], brackets: usize) -> Option<Named<'t>> {
    let (first, next) = (*tokens.first()?, *tokens.get(1)?);
    let is_adjacent = first.as_bytes().as_ptr_range().end == next.as_ptr();
    let is_colon = first.ends_with(':') && !first.ends_with("::") && brackets == 0;
    if is_adjacent && TokenKind::of(next) == TokenKind::Word && (is_colon || matches!(first, "@" | "=@")) {
        return Some(Named { name: next, before: &first[..first.len() - 1], tokens: 2 });
    }
    let is_argument = first.eq_ignore_ascii_case("sqlc") && next == ".";
    match tokens.get(2..6)? {
        [function, "(", name, ")"] if is_argument && is_argument_function(function) => {
            Some(Named { name: name.trim_matches('\''), before: "", tokens: 6 })
        }
        _ => None,
    }
}

fn is_argument_function(word: &str) -> bool {
    word.eq_ignore_ascii_case("arg") || word.eq_ignore_ascii_case("narg")
}

fn constant(written: &str) -> String {
    let inner = written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.map_or_else(|| written.to_owned(), |inner| inner.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_the_application_and_of_its_client_have_one_form() {
        let written =
            Form::of_application("UPDATE rooms SET n = n + 1, s = 'it''s' WHERE id = :room AND b=@who;");
        let sent = Form::of("update rooms set n=n+1, s = $2\n where id = $1 and b = 'x'; -- end").unwrap();
        assert_eq!(written.text, sent.text);
        assert_eq!(written.text, "update rooms set n = n + $1 , s = $2 where id = $3 and b = $4");
        let constant = |text: &str| Place::Constant(text.into());
        let name = |text: &str| Place::Name(text.into());
        assert_eq!(written.places, [constant("1"), constant("it's"), name("room"), name("who")]);
        assert_eq!(sent.places, [constant("1"), Place::Number(2), Place::Number(1), constant("x")]);
    }

    #[test]
    fn two_statements_have_no_form() {
        assert_eq!(Form::of("SELECT 1; DELETE FROM t"), None);
        assert!(Form::of("SELECT ';'; ; ").is_some());
    }

    #[test]
    fn casts_slices_and_quoted_names_stay() {
        let form = Form::of_application("SELECT a[1:b]::text, \"A\" FROM t WHERE x = sqlc.arg(key)");
        assert_eq!(form.text, "select a [ $1 : b ] :: text , \"A\" from t where x = $2");
        assert_eq!(form.places.last(), Some(&Place::Name("key".into())));
    }
}
