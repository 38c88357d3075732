//! Bodies of routines and DO blocks in single quotes, with quotes within: the same text with the body between `$…$`.
//!
//! Bound parts of a body refer to ranges of the text that contains it, so quotes must not be doubled there.

use std::borrow::Cow;

use crate::lexer::{Lexer, Token, TokenKind};

/// The text with such bodies between dollars. Lines stay where they are.
pub fn dollar_quoted(text: &str) -> Cow<'_, str> {
    if !text.contains("''") && !text.contains("\\'") {
        return Cow::Borrowed(text);
    }
    let mut whole = String::new();
    let mut copied = 0;
    for (token, body) in bodies(text) {
        whole.push_str(&text[copied..token.start]);
        let tag = tag_of(&body);
        for part in [tag.as_str(), &body, &tag] {
            whole.push_str(part);
        }
        copied = token.end;
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(whole + &text[copied..]),
    }
}

/// The constants that are bodies with quotes within, and what they say.
fn bodies(text: &str) -> Vec<(Token, String)> {
    let mut found = Vec::new();
    // Words of the statement so far, and whether its body may come now.
    let (mut words, mut awaits_body, mut is_block) = (0, false, false);
    let mut creates = false;
    for token in Lexer::new(text, 0) {
        let is = |word: &str| token.is_word(text, word);
        match token.kind {
            _ if token.is(b';') => (words, awaits_body, is_block, creates) = (0, false, false, false),
            TokenKind::Text => {
                if awaits_body || is_block {
                    found.extend(said_of(&text[token.start..token.end]).map(|body| (token, body)));
                }
                (awaits_body, is_block) = (false, false);
            }
            TokenKind::Word => {
                is_block |= words == 0 && is("do");
                // CREATE, or CREATE OR REPLACE.
                creates |= matches!(words, 1 | 3) && (is("function") || is("procedure"));
                awaits_body = creates && is("as");
                words += 1;
            }
            _ => {
                awaits_body = false;
                words += 1;
            }
        }
    }
    found
}

/// `None`: no other quoting is needed, or the kind of constant is not supported here.
fn said_of(constant: &str) -> Option<String> {
    let escapes = constant.starts_with(['e', 'E']);
    let inner = constant.get(usize::from(escapes)..)?.strip_prefix('\'')?.strip_suffix('\'')?;
    if !escapes {
        return inner.contains("''").then(|| inner.replace("''", "'"));
    }
    let mut said = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        said.push(match c {
            '\'' => rest.next()?,
            '\\' => match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                quoted @ ('\\' | '\'' | '"') => quoted,
                _ => return None,
            },
            other => other,
        });
    }
    Some(said)
}

/// One that does not end the body early.
fn tag_of(body: &str) -> String {
    let tags =
        (0_usize..).map(|number| if number == 0 { "$body$".to_owned() } else { format!("$body{number}$") });
    // A body ends before there are as many.
    tags.take(body.len() + 1).find(|tag| !body.contains(tag.as_str())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::dollar_quoted;

    fn check(text: &str, expect: &str) {
        assert_eq!(dollar_quoted(text), expect, "{text}");
    }

    #[test]
    fn bodies_are_told_without_doubled_quotes() {
        check("DO 'begin raise notice ''hi''; end'", "DO $body$begin raise notice 'hi'; end$body$");
        check(
            "do language plpgsql 'a '''' b'; select 'it''s'",
            "do language plpgsql $body$a '' b$body$; select 'it''s'",
        );
        check(
            "CREATE OR REPLACE FUNCTION f(a text DEFAULT 'x''y') RETURNS text LANGUAGE sql AS 'select ''$body$''';",
            "CREATE OR REPLACE FUNCTION f(a text DEFAULT 'x''y') RETURNS text LANGUAGE sql AS $body1$select '$body$'$body1$;",
        );
        check(
            r"create procedure p() as E'select \'a\\b\'' language sql",
            r"create procedure p() as $body$select 'a\b'$body$ language sql",
        );
        for same in [
            "DO $$ begin raise notice 'it''s'; end $$",
            "SELECT 'it''s' AS x",
            "CREATE TABLE function (a text DEFAULT 'it''s')",
            "CREATE VIEW v AS SELECT 'it''s'",
            "DO 'begin end'; select ''",
        ] {
            check(same, same);
        }
    }
}
