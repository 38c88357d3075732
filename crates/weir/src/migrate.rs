//! The next version of the files of a directory that is served: what differs from the version before, as definitions.
//!
//! Statements are compared, not catalogs: what a file says is what is run. What cannot be told apart by statements is refused by name.
//! Nothing is run here but by [`apply`], in one transaction.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_client::{Client, NextSchemaVersion, SchemaVersion};
use weir_sql::Gives;
use weir_sql::normal::tokens;
use weir_sql::session::{Command, statements};
use weir_txn::exec::definition::Description;

use crate::application::Bare;
use crate::output::{Failure, print_remark};

/// Initial state of a data directory, and the texts of the files that it was last migrated to.
#[derive(Serialize, Deserialize)]
pub struct Kept {
    placement: u64,
    described: Description,
    pub files: Vec<String>,
}

/// Kind of a statement that creates nothing by a name.
const STATEMENT: &str = "statement";

/// Beside the logs of the shards.
const FILE: &str = "application.json";

impl Kept {
    pub fn of(begun: Bare, files: Vec<String>) -> Kept {
        Kept { placement: begun.placement, described: begun.described, files }
    }

    /// None: the directory is new, or was written before there was such a file.
    pub fn read(data: &Path) -> Result<Option<Kept>, Failure> {
        let path = data.join(FILE);
        let wrong = |why: String| {
            Failure::Check(Some(format!(
                "{}: error: {why}\nhint: restore the file from a copy of the data directory",
                path.display()
            )))
        };
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Whole or not at all, whenever the machine stops.
    pub fn write(&self, data: &Path) -> Result<(), Failure> {
        let (path, new) = (data.join(FILE), data.join(format!("{FILE}.new")));
        let text = serde_json::to_vec(self).expect("every key is a string");
        let written = || -> std::io::Result<()> {
            std::fs::write(&new, text)?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &path)?;
            std::fs::File::open(data)?.sync_all()
        };
        written().map_err(|error| Failure::Check(Some(format!("{}: error: {error}", path.display()))))
    }

    pub fn begun(&self) -> Bare {
        Bare { described: self.described.clone(), placement: self.placement }
    }
}

/// One thing that is otherwise in the new files.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// adds, changes or drops; runs, of a statement that creates nothing by a name.
    pub verb: &'static str,
    pub name: String,
    /// Rows or columns with what is in them go.
    pub loses: bool,
    /// Run before all else, in their place in the new files, and behind all else.
    before: Vec<String>,
    amid: Vec<String>,
    behind: Vec<String>,
}

impl Difference {
    fn new(verb: &'static str, name: impl Into<String>) -> Difference {
        Difference {
            verb,
            name: name.into(),
            loses: false,
            before: Vec::new(),
            amid: Vec::new(),
            behind: Vec::new(),
        }
    }
}

/// Shown as `drops table t, and what is in it`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loses = match (self.loses, self.verb) {
            (false, _) => "",
            (true, "runs") => ", which drops rows or columns with what is in them",
            (true, _) => ", and what is in it",
        };
        write!(f, "{} {}{loses}", self.verb, self.name)
    }
}

/// A statement of a file.
struct Stated<'t> {
    /// `table`, `procedure`, …, or STATEMENT.
    kind: String,
    name: String,
    text: &'t str,
    tokens: Vec<&'t str>,
    /// When it is run, tables, sequences or columns go.
    loses: bool,
}

impl<'t> Stated<'t> {
    fn all(files: &'t [String]) -> Result<Vec<Stated<'t>>, String> {
        let mut all = Vec::new();
        for file in files {
            for said in statements(file).map_err(|wrong| wrong.message)? {
                let tag = match said.what {
                    Command::Define(tag) => tag,
                    // Statements of a dump to its own session.
                    Command::Set { .. } | Command::Effects(_) | Command::Nothing(_) | Command::Chore(_) => {
                        continue;
                    }
                    _ => "",
                };
                let text = &file[said.span.start as usize..said.span.end as usize];
                all.push(Stated::of(tag, text));
            }
        }
        Ok(all)
    }

    fn of(tag: &str, text: &'t str) -> Stated<'t> {
        let tokens = tokens(text);
        let loses = loses(tag, &tokens);
        let kind = tag.strip_prefix("CREATE ").unwrap_or("").to_ascii_lowercase();
        let last = kind.rsplit(' ').next().filter(|last| !last.is_empty());
        let at = last.and_then(|last| tokens.iter().position(|token| token.eq_ignore_ascii_case(last)));
        let skipped = ["if", "not", "exists", "concurrently"];
        let mut name = String::new();
        let mut rest = at.map_or(&[][..], |at| &tokens[at + 1..]).iter();
        let mut rest =
            rest.by_ref().skip_while(|token| skipped.iter().any(|word| token.eq_ignore_ascii_case(word)));
        while let Some(part) = rest.next() {
            name.push_str(part);
            match rest.next() {
                Some(&".") => name.push('.'),
                _ => break,
            }
        }
        match name.is_empty() || kind == "index" && name.eq_ignore_ascii_case("on") {
            true => Stated { kind: STATEMENT.to_owned(), name: tokens.join(" "), text, tokens, loses },
            false => Stated { kind, name, text, tokens, loses },
        }
    }

    fn key(&self) -> (String, String) {
        (self.kind.clone(), self.name.to_lowercase())
    }

    fn shown(&self) -> String {
        const SHOWN_MAX: usize = 60;
        let mut shown: String = self.name.chars().take(SHOWN_MAX).collect();
        if shown.len() < self.name.len() {
            shown.push('…');
        }
        format!("{} {shown}", self.kind)
    }

    fn drop(&self) -> String {
        format!("DROP {} {}", self.kind.to_uppercase(), self.name)
    }

    fn replaced(&self) -> String {
        match self.tokens.get(1).is_some_and(|word| word.eq_ignore_ascii_case("or")) {
            true => self.text.to_owned(),
            false => format!("CREATE OR REPLACE{}", &self.text[self.tokens[0].len()..]),
        }
    }

    /// Where the first parenthesis opens, and behind its end.
    fn parenthesis(&self) -> Option<(usize, usize)> {
        let open = self.tokens.iter().position(|token| *token == "(")?;
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match *token {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some((open, at + 1));
            }
        }
        None
    }

    /// Elements of a table, columns and constraints by name, and the text after them.
    fn elements(&self) -> Option<(Vec<Element<'t>>, &[&'t str])> {
        let (open, end) = self.parenthesis()?;
        let (mut all, mut depth, mut begin) = (Vec::new(), 0, open + 1);
        for at in open..end {
            match self.tokens[at] {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 || depth == 1 && self.tokens[at] == "," {
                all.extend(Element::of(self.text, &self.tokens[begin..at]));
                begin = at + 1;
            }
        }
        Some((all, &self.tokens[end..]))
    }
}

/// Whether a definition takes rows or columns along with what is in them.
fn loses(tag: &str, tokens: &[&str]) -> bool {
    let has = |word: &str| tokens.iter().any(|token| token.eq_ignore_ascii_case(word));
    match tag {
        "DROP TABLE" | "DROP SEQUENCE" => true,
        "DROP SCHEMA" | "DROP TYPE" | "DROP DOMAIN" => has("cascade"),
        "ALTER TABLE" => drops_a_column(tokens),
        _ => false,
    }
}

/// Of the tokens of an ALTER TABLE: one of its actions is DROP, and not of a constraint.
fn drops_a_column(tokens: &[&str]) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.eq_ignore_ascii_case(word));
    let mut at = 2;
    while is(at, "if") || is(at, "exists") || is(at, "only") {
        at += 1;
    }
    at += 1;
    while is(at, ".") {
        at += 2;
    }
    at += usize::from(is(at, "*"));
    let (mut depth, mut begins) = (0, true);
    while at < tokens.len() {
        if begins && is(at, "drop") && !is(at + 1, "constraint") {
            return true;
        }
        match tokens[at] {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            _ => {}
        }
        begins = depth == 0 && tokens[at] == ",";
        at += 1;
    }
    false
}

struct Element<'t> {
    is_column: bool,
    /// None: of a constraint without a name.
    name: Option<&'t str>,
    text: &'t str,
    tokens: Vec<&'t str>,
}

impl<'t> Element<'t> {
    fn of(whole: &'t str, tokens: &[&'t str]) -> Option<Element<'t>> {
        let (first, last) = (tokens.first()?, tokens.last()?);
        let place = |token: &str| token.as_ptr() as usize - whole.as_ptr() as usize;
        let text = &whole[place(first)..place(last) + last.len()];
        let constraints = ["constraint", "primary", "unique", "check", "foreign", "exclude", "like"];
        let is_column = !constraints.iter().any(|word| first.eq_ignore_ascii_case(word));
        let name = match is_column {
            true => Some(*first),
            false if first.eq_ignore_ascii_case("constraint") => tokens.get(1).copied(),
            false => None,
        };
        Some(Element { is_column, name, text, tokens: tokens.to_vec() })
    }

    fn is(&self, other: &Element<'_>) -> bool {
        match (self.name, other.name) {
            (Some(one), Some(other_name)) => {
                self.is_column == other.is_column && one.eq_ignore_ascii_case(other_name)
            }
            (None, None) => self.tokens == other.tokens,
            _ => false,
        }
    }

    fn shown(&self, table: &str) -> String {
        match (self.is_column, self.name) {
            (true, Some(name)) => format!("column {table}.{name}"),
            (_, Some(name)) => format!("constraint {name} of {table}"),
            (_, None) => format!("{} of {table}", self.text),
        }
    }
}

/// Differences of the new files from the old ones.
///
/// # Errors
/// A difference that cannot be applied to a running database.
pub fn differences(before: &[String], after: &[String]) -> Result<Vec<Difference>, String> {
    let (before, after) = (Stated::all(before)?, Stated::all(after)?);
    let by_key = |all: &[Stated<'_>]| -> Result<BTreeMap<(String, String), usize>, String> {
        let mut found = BTreeMap::new();
        for (at, one) in all.iter().enumerate() {
            if found.insert(one.key(), at).is_some_and(|other: usize| all[other].tokens != one.tokens) {
                return Err(format!("{} is there twice, so its versions cannot be told apart", one.shown()));
            }
        }
        Ok(found)
    };
    let (old, new) = (by_key(&before)?, by_key(&after)?);
    let mut found = Vec::new();
    for one in &after {
        match old.get(&one.key()).map(|at| &before[*at]) {
            None => {
                let verb = if one.kind == STATEMENT { "runs" } else { "adds" };
                let (amid, loses) = (vec![one.text.to_owned()], one.loses);
                found.push(Difference { amid, loses, ..Difference::new(verb, one.shown()) });
            }
            Some(was) if was.tokens == one.tokens => {}
            Some(was) => changed(was, one, &mut found)?,
        }
    }
    for gone in before.iter().filter(|one| !new.contains_key(&one.key())) {
        let difference = Difference::new("drops", gone.shown());
        found.push(match gone.kind.as_str() {
            "procedure" | "function" | "view" | "materialized view" | "assertion" | "index" => {
                Difference { before: vec![gone.drop()], ..difference }
            }
            "table" | "sequence" => Difference { behind: vec![gone.drop()], loses: true, ..difference },
            _ => {
                return Err(format!(
                    "{} is gone from the files, and is not taken back by itself",
                    gone.shown()
                ));
            }
        });
    }
    Ok(found)
}

fn changed(was: &Stated<'_>, one: &Stated<'_>, found: &mut Vec<Difference>) -> Result<(), String> {
    let difference = Difference::new("changes", one.shown());
    let parameters = |of: &Stated<'_>| of.parenthesis().map(|(from, to)| of.tokens[from..to].join(" "));
    let again = |difference: Difference| {
        let (before, amid) = (vec![was.drop()], vec![one.text.to_owned()]);
        Difference { before, amid, ..difference }
    };
    match one.kind.as_str() {
        "procedure" | "function" if parameters(was) == parameters(one) => {
            found.push(Difference { amid: vec![one.replaced()], ..difference });
        }
        "view" => found.push(Difference { amid: vec![one.replaced()], ..difference }),
        "procedure" | "function" | "materialized view" | "assertion" | "index" => {
            found.push(again(difference))
        }
        "table" => return table(was, one, found),
        _ => return Err(format!("{} is declared otherwise, and is not changed by itself", one.shown())),
    }
    Ok(())
}

fn table(was: &Stated<'_>, one: &Stated<'_>, found: &mut Vec<Difference>) -> Result<(), String> {
    let unlike = |what: String| format!("{what} is declared otherwise than before");
    let (Some((before, tail)), Some((after, new_tail))) = (was.elements(), one.elements()) else {
        return Err(unlike(one.shown()));
    };
    if tail != new_tail {
        return Err(unlike(one.shown()));
    }
    let alter = |what: &str| vec![format!("ALTER TABLE {} {what}", one.name)];
    for element in &after {
        match before.iter().find(|other| other.is(element)) {
            Some(other) if other.tokens == element.tokens => {}
            Some(_) => return Err(unlike(element.shown(&one.name))),
            None => {
                let column = if element.is_column { "COLUMN " } else { "" };
                let amid = alter(&format!("ADD {column}{}", element.text));
                found.push(Difference { amid, ..Difference::new("adds", element.shown(&one.name)) });
            }
        }
    }
    for gone in before.iter().filter(|element| !after.iter().any(|other| other.is(element))) {
        let difference = Difference::new("drops", gone.shown(&one.name));
        found.push(match (gone.is_column, gone.name) {
            (true, Some(name)) => {
                Difference { behind: alter(&format!("DROP COLUMN {name}")), loses: true, ..difference }
            }
            (_, Some(name)) => Difference { before: alter(&format!("DROP CONSTRAINT {name}")), ..difference },
            (_, None) => return Err(unlike(one.shown())),
        });
    }
    Ok(())
}

/// Analyses a definition. Tables that get keys and have no rows are placed anew, as those of a session are.
fn analysed(
    client: &Client,
    transaction: u64,
    before: &SchemaVersion,
    text: &str,
) -> Result<NextSchemaVersion, String> {
    let next = before.define(text).map_err(|wrong| told(&wrong.error))?;
    if next.moves_if_empty.is_empty() {
        return Ok(next);
    }
    client.begin_definition(transaction, &before.held()).wait().map_err(|error| error.to_string())?;
    for query in &next.moves_if_empty {
        let given = client.begin_within(transaction, query, &[]).wait().map_err(|error| error.to_string())?;
        if !query.rows(given).is_empty() {
            return Ok(next);
        }
    }
    Ok(before.define_anew(text).unwrap_or(next))
}

/// Makes them in one transaction, of which all or nothing happens.
///
/// # Errors
/// The statement that fails, and why.
pub fn apply(client: &Client, found: &[Difference]) -> Result<(), (String, String)> {
    let phases: [fn(&Difference) -> &Vec<String>; 3] =
        [|one| &one.before, |one| &one.amid, |one| &one.behind];
    let texts: Vec<&String> = phases.iter().flat_map(|phase| found.iter().flat_map(phase)).collect();
    let transaction = client.new_transaction();
    let end = |commit| client.end_transaction(transaction, commit).wait().map_err(|error| error.to_string());
    let mut schema_version =
        client.schema_version().map_err(|wrong| (String::new(), wrong.error.to_string()))?;
    for text in texts {
        let defined = || -> Result<_, String> {
            let next = analysed(client, transaction, &schema_version, text)?;
            client.begin_definition(transaction, &next).wait().map_err(|error| error.to_string())?;
            for (validation, query) in &next.validations {
                let given = client.begin_within(transaction, query, &[]).wait();
                if !query.rows(given.map_err(|error| error.to_string())?).is_empty() {
                    let kind = match validation.gives {
                        Gives::Orphans { .. } => "foreign key",
                        _ => "assertion",
                    };
                    return Err(format!("the rows that there are violate {kind} \"{}\"", validation.name));
                }
            }
            next.notices
                .iter()
                .for_each(|notice| print_remark(&format!("weir: notice: {}", notice.message())));
            Ok(next.schema_version)
        };
        schema_version = match defined() {
            Ok(next) => next,
            Err(why) => {
                // Work that was begun is taken back when its coordinator goes, too.
                let _ = end(false);
                return Err((text.clone(), why));
            }
        };
    }
    end(true).map_err(|why| ("COMMIT".to_owned(), why))?;
    client.adopt(&schema_version);
    Ok(())
}

fn told(error: &weir_types::SqlError) -> String {
    let hint = error.fields().hint.as_ref().map(|hint| format!("; {hint}"));
    format!("{error}{}", hint.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `verb name: statements`, in their order; or why not.
    fn told(before: &str, after: &str) -> Vec<String> {
        let one = |one: Difference| {
            let all: Vec<String> = [one.before, one.amid, one.behind].concat();
            format!(
                "{} {}{}: {}",
                one.verb,
                one.name,
                if one.loses { " (loses)" } else { "" },
                all.join("; ")
            )
        };
        match differences(&[before.to_owned()], &[after.to_owned()]) {
            Ok(found) => found.into_iter().map(one).collect(),
            Err(why) => vec![why],
        }
    }

    #[test]
    fn differences_are_statements() {
        let table =
            "CREATE TABLE t (id int PRIMARY KEY, a numeric(5, 2) DEFAULT 1, CONSTRAINT c CHECK (a > 0));";
        let body = |text: &str| format!("CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql AS $$ {text} $$;");
        for (before, after, expected) in [
            (table.to_owned(), format!("-- said anew\n{}", table.replace(", a", ",\n  a")), vec![]),
            (
                table.to_owned(),
                format!("{table} CREATE INDEX i ON t (a);"),
                vec!["adds index i: CREATE INDEX i ON t (a)"],
            ),
            (
                table.to_owned(),
                table.replace("DEFAULT 1,", "DEFAULT 1, b text NOT NULL DEFAULT 'x, (y',"),
                vec!["adds column t.b: ALTER TABLE t ADD COLUMN b text NOT NULL DEFAULT 'x, (y'"],
            ),
            (
                table.to_owned(),
                "CREATE TABLE t (id int PRIMARY KEY);".to_owned(),
                vec![
                    "drops column t.a (loses): ALTER TABLE t DROP COLUMN a",
                    "drops constraint c of t: ALTER TABLE t DROP CONSTRAINT c",
                ],
            ),
            (
                table.to_owned(),
                table.replace("id int", "id bigint"),
                vec!["column t.id is declared otherwise than before"],
            ),
            (table.to_owned(), String::new(), vec!["drops table t (loses): DROP TABLE t"]),
            (
                body("SELECT x"),
                body("SELECT x + 1"),
                vec![
                    "changes function f: CREATE OR REPLACE FUNCTION f(x int) RETURNS int LANGUAGE sql AS $$ SELECT x + 1 $$",
                ],
            ),
            (body("SELECT x"), String::new(), vec!["drops function f: DROP FUNCTION f"]),
            (
                "CREATE ASSERTION s CHECK (1 < 2);".to_owned(),
                "CREATE ASSERTION s CHECK (1 < 3);".to_owned(),
                vec!["changes assertion s: DROP ASSERTION s; CREATE ASSERTION s CHECK (1 < 3)"],
            ),
            (
                table.to_owned(),
                format!(
                    "{table} ALTER TABLE ONLY s.t ALTER a DROP DEFAULT, DROP CONSTRAINT c, ADD b int DEFAULT (1);"
                ),
                vec![
                    "runs statement ALTER TABLE ONLY s . t ALTER a DROP DEFAULT , DROP CONSTRAIN…: \
                     ALTER TABLE ONLY s.t ALTER a DROP DEFAULT, DROP CONSTRAINT c, ADD b int DEFAULT (1)",
                ],
            ),
            (
                table.to_owned(),
                format!("{table} ALTER TABLE t ADD CHECK (a IN (1, 2)), DROP a; DROP TABLE t; DROP VIEW v;"),
                vec![
                    "runs statement ALTER TABLE t ADD CHECK ( a IN ( 1 , 2 ) ) , DROP a (loses): \
                     ALTER TABLE t ADD CHECK (a IN (1, 2)), DROP a",
                    "runs statement DROP TABLE t (loses): DROP TABLE t",
                    "runs statement DROP VIEW v: DROP VIEW v",
                ],
            ),
            (
                "CREATE TYPE e AS ENUM ('a');".to_owned(),
                "CREATE TYPE e AS ENUM ('b');".to_owned(),
                vec!["type e is declared otherwise, and is not changed by itself"],
            ),
        ] {
            assert_eq!(told(&before, &after), expected, "{before} → {after}");
        }
    }
}
