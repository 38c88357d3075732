//! Names of statements that stand in no text of a client: those of procedures, and the checks of assertions. A name stands where ad-hoc
//! statements have their text. Together with the schema version it is the same statement for every process, which has the application.

/// First character of a name. No SQL text contains it, so no client can send a name as a statement.
const MARK: char = '\u{1}';

/// Separates the mark of a check from the number of its assertion.
const CHECK: char = '!';

/// Separates the mark of a block's statement from its number.
const BLOCK: char = '#';

/// Separates the mark of the query for candidates from its statement.
const CANDIDATES: char = '?';

/// Separates the mark of the statement for one candidate from the whole statement.
const CANDIDATE: char = '=';

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'t> {
    /// The statement with this number of the procedure with this index.
    Statement { procedure: usize, statement: usize },
    /// The statement with this number of the DO block with that text.
    BlockStatement { block: &'t str, statement: usize },
    /// The check of the assertion with this index, for rows that equal a key of that link or for all.
    Check { assertion: usize, link: Option<u32> },
    /// The query for candidates of a statement that locks its first rows, which has `own` parameters.
    Candidates { own: usize, of: &'t str },
    /// That statement for one candidate.
    Candidate { own: usize, of: &'t str },
}

impl<'t> Name<'t> {
    /// `None`: the text is SQL.
    pub fn of(text: &'t str) -> Option<Name<'t>> {
        let name = text.strip_prefix(MARK)?;
        if let Some(check) = name.strip_prefix(CHECK) {
            let (assertion, link) = match check.split_once('.') {
                Some((assertion, link)) => (assertion, Some(link.parse().ok()?)),
                None => (check, None),
            };
            return Some(Name::Check { assertion: assertion.parse().ok()?, link });
        }
        if let Some(of_block) = name.strip_prefix(BLOCK) {
            let (statement, block) = of_block.split_once(BLOCK)?;
            return Some(Name::BlockStatement { block, statement: statement.parse().ok()? });
        }
        if let Some(candidates) = name.strip_prefix(CANDIDATES) {
            let (own, of) = candidates.split_once(CANDIDATES)?;
            return Some(Name::Candidates { own: own.parse().ok()?, of });
        }
        if let Some(candidate) = name.strip_prefix(CANDIDATE) {
            let (own, of) = candidate.split_once(CANDIDATE)?;
            return Some(Name::Candidate { own: own.parse().ok()?, of });
        }
        let (procedure, statement) = name.split_once('.')?;
        Some(Name::Statement { procedure: procedure.parse().ok()?, statement: statement.parse().ok()? })
    }
}

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Statement { procedure, statement } => write!(f, "{MARK}{procedure}.{statement}"),
            Name::BlockStatement { block, statement } => {
                write!(f, "{MARK}{BLOCK}{statement}{BLOCK}{block}")
            }
            Name::Candidates { own, of } => write!(f, "{MARK}{CANDIDATES}{own}{CANDIDATES}{of}"),
            Name::Candidate { own, of } => write!(f, "{MARK}{CANDIDATE}{own}{CANDIDATE}{of}"),
            Name::Check { assertion, link: None } => write!(f, "{MARK}{CHECK}{assertion}"),
            Name::Check { assertion, link: Some(link) } => write!(f, "{MARK}{CHECK}{assertion}.{link}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_sql() {
        let check = |link| Name::Check { assertion: 3, link };
        let block = Name::BlockStatement { block: "DO $$ # $$", statement: 2 };
        let statement = Name::Statement { procedure: 17, statement: 4 };
        let (named, text) = (statement.to_string(), "SELECT 1 = ? LIMIT 1");
        let candidates = [&*named, text].map(|of| Name::Candidates { own: 3, of });
        let candidate = [&*named, text].map(|of| Name::Candidate { own: 0, of });
        let others = [statement, block, check(None), check(Some(2))];
        for name in others.into_iter().chain(candidates).chain(candidate) {
            assert_eq!(Name::of(&name.to_string()), Some(name));
        }
        for text in [
            "SELECT 1", "", "\u{1}", "\u{1}17", "\u{1}a.1", "17.4", "\u{1}!", "\u{1}!x", "\u{1}!3.", "!3",
            "\u{1}#1", "\u{1}?1", "\u{1}=x=",
        ] {
            assert_eq!(Name::of(text), None, "{text:?}");
        }
    }
}
