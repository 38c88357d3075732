//! `options` of a startup packet: what a PostgreSQL server could be started with.

use weir_types::{SqlError, SqlState};

/// The settings that they name, with their values.
///
/// # Errors
/// They are no settings.
pub fn options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = words(text).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let (written, assignment) = match word.strip_prefix("-c") {
            Some("") => ("-c ", words.next().unwrap_or_default()),
            Some(rest) => ("-c ", rest.to_owned()),
            None => match word.strip_prefix("--").filter(|rest| !rest.is_empty()) {
                Some(rest) => ("--", rest.to_owned()),
                None => {
                    let message = format!("invalid command-line argument for server process: {word}");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                        .with_hint("options may have -c name=value and --name=value"));
                }
            },
        };
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("{written}{assignment} requires a value"),
            ));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

/// Apart at blanks; behind a backslash everything belongs to the word.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut open) = (Vec::new(), None::<String>);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            character if character.is_ascii_whitespace() => words.extend(open.take()),
            '\\' => open.get_or_insert_default().extend(characters.next()),
            character => open.get_or_insert_default().push(character),
        }
    }
    words.extend(open);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_settings() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let seen = options(text).unwrap();
            let seen: Vec<_> = seen.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(seen, expected, "{text}");
        };
        check("", &[]);
        check(" -c a=1  -cb=2 --c-d=x\\ y\\\\ ", &[("a", "1"), ("b", "2"), ("c_d", "x y\\")]);
        check("-c a=", &[("a", "")]);
        for text in ["-c", "-c a", "--a", "-x", "a", "--"] {
            assert_eq!(options(text).unwrap_err().state(), SqlState::SYNTAX_ERROR, "{text}");
        }
    }
}
