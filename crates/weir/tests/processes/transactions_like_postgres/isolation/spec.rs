//! Specs of PostgreSQL's isolationtester (`src/test/isolation/README`): sessions of named steps, and the orders in which they are begun.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Default)]
pub struct Spec {
    /// Each is one message to the server.
    pub setups: Vec<String>,
    pub teardown: Option<String>,
    pub sessions: Vec<Session>,
    pub permutations: Vec<Permutation>,
}

#[derive(Debug, Default)]
pub struct Session {
    pub setup: Option<String>,
    pub teardown: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub sql: String,
}

/// Steps in their order: session, step, and whether a marker says that it may or may not be seen waiting.
pub type Permutation = Vec<(usize, usize, bool)>;

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Sql(String),
    /// The markers in parentheses behind a step of a permutation.
    Markers(String),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut chars = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(next) = chars.peek().copied() {
        match next {
            '#' => drop(take_while(&mut chars, |one| one != '\n')),
            '{' => tokens.push(Token::Sql(enclosed(&mut chars, '}'))),
            '(' => tokens.push(Token::Markers(enclosed(&mut chars, ')'))),
            '"' => tokens.push(Token::Word(enclosed(&mut chars, '"'))),
            one if one.is_whitespace() => drop(chars.next()),
            _ => tokens.push(Token::Word(take_while(&mut chars, |one| {
                !one.is_whitespace() && !matches!(one, '{' | '(' | '#')
            }))),
        }
    }
    tokens
}

fn take_while(chars: &mut Peekable<Chars<'_>>, is_in: impl Fn(char) -> bool) -> String {
    std::iter::from_fn(|| chars.next_if(|one| is_in(*one))).collect()
}

/// Between the next character and this one.
fn enclosed(chars: &mut Peekable<Chars<'_>>, end: char) -> String {
    chars.next();
    let inner = take_while(chars, |one| one != end);
    chars.next().unwrap_or_else(|| panic!("{end} is missing behind {inner}"));
    inner.trim().to_owned()
}

/// Reads a spec; one without permutations has all orders in which each session's steps are as they stand.
pub fn parse(text: &str) -> Spec {
    let mut spec = Spec::default();
    let mut tokens = tokens(text).into_iter().peekable();
    let mut orders: Vec<Vec<(String, bool)>> = Vec::new();
    while let Some(token) = tokens.next() {
        let Token::Word(word) = token else { panic!("{token:?} stands by itself") };
        let mut word_and_sql = |has_name: bool| {
            let name = has_name.then(|| tokens.next());
            match (name, tokens.next()) {
                (Some(Some(Token::Word(name))), Some(Token::Sql(sql))) => (name, sql),
                (None, Some(Token::Sql(sql))) => (String::new(), sql),
                other => panic!("{word}: {other:?}"),
            }
        };
        match (word.as_str(), spec.sessions.last_mut()) {
            ("setup", None) => spec.setups.push(word_and_sql(false).1),
            ("setup", Some(session)) => session.setup = Some(word_and_sql(false).1),
            ("teardown", None) => spec.teardown = Some(word_and_sql(false).1),
            ("teardown", Some(session)) => session.teardown = Some(word_and_sql(false).1),
            ("step", Some(session)) => {
                let (name, sql) = word_and_sql(true);
                session.steps.push(Step { name, sql });
            }
            ("session", _) => {
                tokens.next();
                spec.sessions.push(Session::default());
            }
            ("permutation", _) => orders.push(Vec::new()),
            (_, _) => {
                let order = orders.last_mut().unwrap_or_else(|| panic!("{word} is no keyword"));
                let is_marked = matches!(tokens.peek(), Some(Token::Markers(_)));
                if is_marked {
                    tokens.next();
                }
                order.push((word, is_marked));
            }
        }
    }
    spec.permutations = match orders.is_empty() {
        true => interleavings(&spec.sessions.iter().map(|session| session.steps.len()).collect::<Vec<_>>())
            .into_iter()
            .map(|order| order.into_iter().map(|(session, step)| (session, step, false)).collect())
            .collect(),
        false => orders.iter().map(|order| spec.resolve(order)).collect(),
    };
    spec
}

impl Spec {
    fn resolve(&self, order: &[(String, bool)]) -> Permutation {
        let place = |(name, is_marked): &(String, bool)| {
            let mut sessions = self.sessions.iter().enumerate();
            let found = sessions.find_map(|(at, session)| {
                let step = session.steps.iter().position(|step| step.name == *name)?;
                Some((at, step, *is_marked))
            });
            found.unwrap_or_else(|| panic!("there is no step {name}"))
        };
        order.iter().map(place).collect()
    }

    pub fn step(&self, (session, step, _): (usize, usize, bool)) -> &Step {
        &self.sessions[session].steps[step]
    }

    /// Names of its steps.
    pub fn name(&self, permutation: &Permutation) -> String {
        permutation.iter().map(|at| self.step(*at).name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Whether some session asks for more than READ COMMITTED.
    pub fn is_strict(&self) -> bool {
        let texts = self
            .sessions
            .iter()
            .flat_map(|session| session.setup.iter().chain(session.steps.iter().map(|step| &step.sql)));
        let mut upper = texts.map(|sql| sql.to_uppercase());
        upper.any(|sql| sql.contains("SERIALIZABLE") || sql.contains("REPEATABLE READ"))
    }
}

/// All orders of so many things of each kind, in which those of one kind are in their order.
pub fn interleavings(counts: &[usize]) -> Vec<Vec<(usize, usize)>> {
    fn extend(counts: &[usize], so_far: &mut Vec<(usize, usize)>, all: &mut Vec<Vec<(usize, usize)>>) {
        let taken =
            |kind: usize, so_far: &[(usize, usize)]| so_far.iter().filter(|one| one.0 == kind).count();
        let mut is_whole = true;
        for kind in 0..counts.len() {
            let next = taken(kind, so_far);
            if next < counts[kind] {
                is_whole = false;
                so_far.push((kind, next));
                extend(counts, so_far, all);
                so_far.pop();
            }
        }
        if is_whole {
            all.push(so_far.clone());
        }
    }
    let mut all = Vec::new();
    extend(counts, &mut Vec::new(), &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
# A comment { that is none of SQL }
setup { CREATE TABLE t (a int); }
setup { INSERT INTO t VALUES (1); }
teardown { DROP TABLE t; }
session "s 1"
setup { BEGIN; }
step s1a { SELECT 1; -- ( no marker )
}
step s1b { COMMIT; }
session s2
step s2a { SELECT 2; }
teardown { ROLLBACK; }
"#;

    #[test]
    fn a_spec_without_permutations_has_all() {
        let spec = parse(TEXT);
        assert_eq!(spec.setups.len(), 2);
        assert_eq!(spec.sessions[1].teardown.as_deref(), Some("ROLLBACK;"));
        let names: Vec<String> = spec.permutations.iter().map(|one| spec.name(one)).collect();
        assert_eq!(names, ["s1a s1b s2a", "s1a s2a s1b", "s2a s1a s1b"]);
        assert!(!spec.is_strict());
    }

    #[test]
    fn permutations_have_markers() {
        let spec = parse(&format!("{TEXT}permutation s2a s1a(*) # why\npermutation s1b (s1a, s2a) s2a"));
        assert_eq!(spec.permutations, [vec![(1, 0, false), (0, 0, true)], vec![(0, 1, true), (1, 0, false)]]);
    }
}
