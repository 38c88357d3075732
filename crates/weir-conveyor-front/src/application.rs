//! An application as the front knows it: its templates, and the form in which statements are looked up.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::matching::{Class, Column, Source, StatementTemplate, Template, Templates};
use weir_conveyor::routing::{Routing, RoutingValue};
use weir_conveyor_net::operation::PlacedTable;
use weir_sql::normal::tokens;

use crate::analysed::Analysed;
use crate::placement::placement_of;

/// The file that describes an application by hand.
pub const FILE: &str = "transactions.toml";

/// A parameter or a constant, at a place of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// `$n`, from 1; 0 only in templates.
    Parameter(usize),
    /// A constant, without its quotes.
    Constant(String),
}

/// A statement with a place for each parameter and each constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Form {
    text: String,
    places: Vec<Place>,
}

/// A statement as the templates look it up.
pub type Matchable = (String, Vec<RoutingValue>);

/// An application. Values of parameters are texts as PostgreSQL prints them; None: NULL.
pub trait Application: Send + Sync {
    fn templates(&self) -> &Templates;

    /// None: no template has the statement, or a parameter has a form that does not say which value it is.
    fn statement(&self, text: &str, parameters: &[Option<&str>]) -> Option<Matchable>;

    /// The values of a call, for [`Templates::call`]. None: there is no such transaction, or as for a statement.
    fn call(&self, name: &str, arguments: &[Option<&str>]) -> Option<Vec<RoutingValue>>;

    /// Rows that a call names by whole primary keys: table, and key as it is shown.
    fn rows_of_call(&self, _name: &str, _arguments: &[Option<&str>]) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Columns that a statement touches which reads these tables and does nothing else. None: not known.
    fn touched(&self, tables: &[String]) -> Option<BTreeSet<Column>>;

    /// Returns whether global operations write the table of that name.
    fn is_written(&self, table: &str) -> bool;

    /// Statements that make the ids which the server generates route back to it; none if they do. They are to run once, while nobody works.
    ///
    /// # Errors
    /// The server's.
    fn sequences(&self, server: ServerId, database: &str) -> Result<Vec<String>, postgres::Error>;

    /// The same application with another map of slots.
    fn routed(&self, routing: Routing) -> Arc<dyn Application>;

    /// Tables whose rows travel with their slots.
    ///
    /// # Errors
    /// Nothing says which, or not of all: in words, why.
    fn placed(&self) -> Result<&[PlacedTable], &str>;

    /// Sequences of which operations draw ids that route back to their server, by their names in statements.
    fn drawn(&self) -> Vec<String>;
}

/// The application of a folder, as it is described there by hand, or else as the analysis sees it. `servers`: those of the deployment, in their
/// order.
///
/// # Errors
/// In words: what is wrong, where, and what would be right.
pub fn templates_of(folder: &Path, servers: &[ServerId]) -> Result<Arc<dyn Application>, String> {
    let file = folder.join(FILE);
    if !file.exists() {
        return Ok(Arc::new(Analysed::of_folder(folder, servers)?.placed_by(placement_of(folder, false)?)?));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let described = Described::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let placed = placement_of(folder, true)?;
    Ok(Arc::new(ByHand { placed, ..described.application(servers) }))
}

/// An application that is described by hand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    #[serde(default)]
    pub transaction: Vec<DescribedTransaction>,
}

/// A transaction. `$n` in its statements is its n-th parameter, and `$0` anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribedTransaction {
    pub name: String,
    pub class: DescribedClass,
    /// The number of the partitioning parameter, from 1. None: any server will do.
    pub home: Option<usize>,
    /// Numbers of further partitioning parameters.
    #[serde(default)]
    pub others: Vec<usize>,
    #[serde(default)]
    pub statements: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DescribedClass {
    Commutative,
    Local,
    Global,
    LocalGlobal,
}

impl Described {
    /// # Errors
    /// As [`templates_of`].
    pub fn parse(text: &str) -> Result<Described, String> {
        let described: Described = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut names = BTreeSet::new();
        for transaction in &described.transaction {
            let DescribedTransaction { name, class, home, others, .. } = transaction;
            if !names.insert(name) {
                return Err(format!("two transactions have the name `{name}`"));
            }
            if home.iter().chain(others).any(|number| *number == 0) {
                return Err(format!("transaction `{name}`: parameters are numbered from 1"));
            }
            let is_local = matches!(class, DescribedClass::Local | DescribedClass::LocalGlobal);
            if is_local && home.is_none() {
                return Err(format!(
                    "transaction `{name}` is local and has no `home`: say which parameter routes it"
                ));
            }
        }
        Ok(described)
    }

    pub fn application(self, servers: &[ServerId]) -> ByHand {
        let names = self.transaction.iter().map(|transaction| transaction.name.clone()).collect();
        let templates = self.transaction.into_iter().map(template).collect();
        let templates = Templates::new(templates, BTreeSet::new(), Routing::even(servers));
        ByHand { names, templates, placed: None }
    }
}

fn template(described: DescribedTransaction) -> Template {
    let DescribedTransaction { name, class, home, others, statements } = described;
    let class = match class {
        DescribedClass::Commutative => Class::Commutative,
        DescribedClass::Local => Class::Local,
        DescribedClass::Global => Class::Global,
        DescribedClass::LocalGlobal => Class::LocalGlobal,
    };
    let statement = |text: &String| {
        let Form { text, places } = form(text);
        let source = |place| match place {
            Place::Parameter(0) => Source::Free,
            Place::Parameter(number) => Source::Parameter(number - 1),
            Place::Constant(constant) => Source::Constant(value(Some(&constant))),
        };
        StatementTemplate { text, arguments: places.into_iter().map(source).collect() }
    };
    Template {
        name,
        class,
        home: home.map(|number| number - 1),
        others: others.into_iter().map(|number| number - 1).collect(),
        statements: statements.iter().map(statement).collect(),
    }
}

/// An application whose templates were given by hand.
#[derive(Clone)]
pub struct ByHand {
    names: Vec<String>,
    templates: Templates,
    placed: Option<Vec<PlacedTable>>,
}

impl Application for ByHand {
    fn templates(&self) -> &Templates {
        &self.templates
    }

    fn statement(&self, text: &str, parameters: &[Option<&str>]) -> Option<Matchable> {
        let Form { text, places } = form(text);
        let argument = |place: &Place| match place {
            Place::Constant(constant) => Some(value(Some(constant))),
            Place::Parameter(number) => parameters.get(number.checked_sub(1)?).map(|text| value(*text)),
        };
        let arguments: Option<Vec<RoutingValue>> = places.iter().map(argument).collect();
        Some((text, arguments?))
    }

    fn call(&self, name: &str, arguments: &[Option<&str>]) -> Option<Vec<RoutingValue>> {
        let is_known = self.names.iter().any(|known| known == name);
        is_known.then(|| arguments.iter().map(|text| value(*text)).collect())
    }

    fn touched(&self, _tables: &[String]) -> Option<BTreeSet<Column>> {
        None
    }

    fn is_written(&self, _table: &str) -> bool {
        true
    }

    fn sequences(&self, _server: ServerId, _database: &str) -> Result<Vec<String>, postgres::Error> {
        Ok(Vec::new())
    }

    fn routed(&self, routing: Routing) -> Arc<dyn Application> {
        Arc::new(ByHand { templates: self.templates.routed(routing), ..self.clone() })
    }

    fn placed(&self) -> Result<&[PlacedTable], &str> {
        self.placed.as_deref().ok_or("nobody has said which rows belong to which slot")
    }

    fn drawn(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Tokens with a blank between them, words in lower case, and `$1`, `$2`, … for parameters and constants in the order in which they stand.
fn form(text: &str) -> Form {
    let mut form = Form::default();
    for token in without_jdbc_casts(tokens(text)) {
        let mut bytes = token.bytes();
        let (first, second) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        let place = match first {
            b'$' if second.is_ascii_digit() => token[1..].parse().ok().map(Place::Parameter),
            b'$' | b'\'' | b'0'..=b'9' => Some(Place::Constant(unquoted(token))),
            b'.' if second.is_ascii_digit() => Some(Place::Constant(token.to_owned())),
            b'e' | b'E' if second == b'\'' => Some(Place::Constant(token.to_owned())),
            _ => None,
        };
        if token == ";" {
            continue;
        }
        if !form.text.is_empty() {
            form.text.push(' ');
        }
        match place {
            Some(place) => {
                form.places.push(place);
                form.text.push_str(&format!("${}", form.places.len()));
            }
            None if first == b'"' => form.text.push_str(token),
            None => form.text.push_str(&token.to_lowercase()),
        }
    }
    form
}

/// JDBC writes a parameter as `('7'::int4)` in the simple protocol: that is the constant. A parenthesis behind a word is that of a call.
fn without_jdbc_casts(tokens: Vec<&str>) -> Vec<&str> {
    let is_constant = |token: &str| token.starts_with('\'');
    let mut kept: Vec<&str> = Vec::with_capacity(tokens.len());
    let mut rest = &tokens[..];
    while let [first, after @ ..] = rest {
        let is_behind_word = kept
            .last()
            .is_some_and(|token| token.ends_with(|end: char| end.is_alphanumeric() || "_\"".contains(end)));
        match rest {
            ["(", constant, "::", _, ")", after @ ..] if is_constant(constant) && !is_behind_word => {
                kept.push(constant);
                rest = after;
            }
            _ => {
                kept.push(first);
                rest = after;
            }
        }
    }
    kept
}

pub(crate) fn unquoted(token: &str) -> String {
    let inner = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.map_or_else(|| token.to_owned(), |inner| inner.replace("''", "'"))
}

/// A whole number routes as a number, however it is written: PostgreSQL reads it as the same key.
fn value(text: Option<&str>) -> RoutingValue {
    let Some(text) = text else { return RoutingValue::Null };
    whole(text).map_or_else(|| RoutingValue::Text(text.to_owned()), RoutingValue::Integer)
}

/// `5`, ` +05`, `5.0`, `5e0`, and, from PostgreSQL 16 on, `0x5` and `5_000`.
fn whole(text: &str) -> Option<i64> {
    let text = text.trim().replace('_', "");
    let unsigned = text.trim_start_matches(['+', '-']);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = unsigned.to_ascii_lowercase().strip_prefix(prefix) {
            let number = i64::from_str_radix(digits, radix).ok()?;
            return Some(if text.starts_with('-') { -number } else { number });
        }
    }
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    // Beyond that a double has no halves.
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_constants_have_one_form() {
        let written = form("UPDATE cart SET n = n + 1 WHERE key = $1 AND name = 'it''s';");
        let sent = form("update cart set n=n+1 where key=7 and name='it''s'");
        assert_eq!(written.text, sent.text);
        assert_eq!(sent.text, "update cart set n = n + $1 where key = $2 and name = $3");
        assert_eq!(sent.places[1..], [Place::Constant("7".into()), Place::Constant("it's".into())]);
        assert_eq!(written.places[1], Place::Parameter(1));
    }

    #[test]
    fn statements_are_covered_with_what_may_be_anything() {
        use weir_conveyor::matching::{Matching, Statement, StatementAction};
        use weir_conveyor::message::Placement;
        let text = "[[transaction]]\nname = \"a\"\nclass = \"local\"\nhome = 1\n\
            statements = [\"INSERT INTO note SELECT $2::bigint, $0::int, 'r', 'cart ' || $1 || ' ' || $0, coalesce((SELECT 1 FROM cart WHERE key = $1::int), 0)\"]\n";
        let application = Described::parse(text).unwrap().application(&[0, 1, 2]);
        let sent = "INSERT INTO note SELECT $1::bigint, $2::int, 'r', 'cart ' || $3 || ' ' || $4, coalesce((SELECT 1 FROM cart WHERE key = $3::int), 0)";
        let parameters = [Some("12"), Some("0"), Some("4"), Some("1")];
        let (text, arguments) = application.statement(sent, &parameters).unwrap();
        let mut matching = Matching::new(application.templates(), 0);
        let statement = Statement { text: &text, arguments: &arguments, touches: None };
        let action = matching.statement(application.templates(), &statement);
        assert_eq!(action, StatementAction::Runs(Placement::Local(1)), "{text} {arguments:?}");
    }

    /// As texts they routed to other servers: `key = '05'` found no row that `key = 5` had written.
    #[test]
    fn a_number_routes_alike_however_it_is_written() {
        for text in ["5", " 5 ", "05", "+5", "5.0", "5e0", "0x5", "0b101", "0_5"] {
            assert_eq!(value(Some(text)), RoutingValue::Integer(5), "{text}");
        }
        assert_eq!(value(Some("-0x10")), RoutingValue::Integer(-16));
        for text in ["4.6", "five", "", "5 a", "1e300", "NaN", "-"] {
            assert_eq!(value(Some(text)), RoutingValue::Text(text.into()), "{text}");
        }
    }

    #[test]
    fn what_jdbc_writes_for_a_parameter_is_a_constant() {
        let written = form("INSERT INTO cart VALUES ($1, $2, 'x')");
        let sent = form("INSERT INTO cart VALUES (('5'::int4), ('-7'::int8), ('x'::varchar))");
        assert_eq!(sent.text, written.text);
        assert_eq!(sent.places[0], Place::Constant("5".into()));
        assert_eq!(form("SELECT f('5'::int4)").text, "select f ( $1 :: int4 )");
    }

    #[test]
    fn a_description_that_is_wrong_is_refused_with_its_place() {
        for (text, expected) in [
            (
                "[[transaction]]\nname = \"a\"\nclass = \"local\"\n",
                "transaction `a` is local and has no `home`",
            ),
            ("[[transaction]]\nname = \"a\"\nclass = \"lokal\"\n", "unknown variant `lokal`"),
            ("[[transaction]]\nname = \"a\"\nclass = \"global\"\nhome = 0\n", "numbered from 1"),
        ] {
            let error = Described::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
