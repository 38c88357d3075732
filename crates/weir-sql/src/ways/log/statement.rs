//! One statement of a log: what it is, and the holes in it where values stand.
//!
//! Statements that differ in their values only have one shape: PostgreSQL's grammar looks at each shape once,
//! and `pg_query`'s fingerprint says which shapes are one statement (lists of other lengths, other spelling).

use std::collections::{BTreeMap, BTreeSet};

use pg_query::protobuf::{FuncCall, TransactionStmt, TransactionStmtKind, node};
use pg_query::{FingerprintOptions, NodeRef, ParserOptions};

use crate::ddl::statement_name;
use crate::lexer::{Lexer, TokenKind};
use crate::mentions::{names_of, targets};
use crate::parse::{self, Piece};
use crate::routine;
use crate::type_name;
use crate::ways::queries::{asks_serializable, is_serializable};

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// Bytes of the statement's text.
    pub start: usize,
    pub end: usize,
    /// `None` where the log does not say.
    pub value: Option<String>,
    pub number: bool,
    /// `$n` of a prepared statement.
    pub parameter: Option<usize>,
    /// A constant in the text of a prepared statement: the application's own, if it never changes.
    pub fixed: bool,
}

/// A statement as it was executed.
#[derive(Clone, Debug)]
pub(super) struct Executed {
    pub shape: usize,
    /// Without comments.
    pub text: String,
    pub holes: Vec<Hole>,
}

impl Executed {
    /// Substitute for a text that the grammar rejects: an opaque statement with the same words.
    pub fn stand_in(&self) -> Executed {
        let says_what_it_writes = !targets(&self.text).is_empty();
        let anything = if says_what_it_writes { "" } else { "EXECUTE " };
        let mut tag = "statement".to_owned();
        while self.text.contains(&format!("${tag}$")) {
            tag.push('_');
        }
        let text = format!("DO ${tag}$ {anything}{} ${tag}$", self.text);
        Executed { shape: self.shape, text, holes: Vec::new() }
    }
}

/// Common form of statements that differ in values only.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub fingerprint: String,
    pub kind: Kind,
    /// `update_account`.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Control(Control),
    /// Reads or writes tables, or both by a call inside of it.
    Statement,
    /// Calls this routine and does nothing else.
    Call(String),
    /// Settings, questions to the catalog, constants.
    Nothing,
    /// Another command, by name.
    PassedOver(String),
    /// Error of the grammar.
    Broken(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Begin { serializable: bool },
    Serializable,
    Commit,
    Rollback,
    Savepoint(String),
    RollbackTo(String),
}

/// Every shape that has been seen.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    list: Vec<Shape>,
    by_skeleton: BTreeMap<String, usize>,
}

impl Shapes {
    pub fn get(&self, shape: usize) -> &Shape {
        &self.list[shape]
    }

    /// `values`: of the parameters of a prepared statement, whose constants are its own; `None` for a text.
    pub fn statement(
        &mut self,
        sql: &str,
        values: Option<&[Option<String>]>,
        routines: &BTreeSet<String>,
    ) -> Executed {
        let (text, skeleton, holes) = holes(sql, values);
        let shape = match self.by_skeleton.get(&skeleton) {
            Some(known) => *known,
            None => {
                self.list.push(shape(&text, routines));
                self.by_skeleton.insert(skeleton, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        Executed { shape, text, holes }
    }
}

/// The text without comments, with `?` in the place of its values, and where these are.
fn holes(sql: &str, values: Option<&[Option<String>]>) -> (String, String, Vec<Hole>) {
    let (mut text, mut skeleton, mut holes) = (String::new(), String::new(), Vec::new());
    let mut before_end = 0;
    let mut fixed = Fixed::default();
    for token in Lexer::new(sql, 0) {
        let written = &sql[token.start..token.end];
        if token.start > before_end && !text.is_empty() {
            text.push(' ');
            skeleton.push(' ');
        }
        before_end = token.end;
        let constant =
            matches!(token.kind, TokenKind::Number | TokenKind::Text) && !fixed.is_part_of_form(token.kind);
        let parameter = match token.kind {
            TokenKind::Parameter => written[1..].parse::<usize>().ok(),
            _ => None,
        };
        if constant || parameter.is_some() {
            let value = match parameter {
                Some(number) => {
                    let logged = values.and_then(|values| values.get(number.checked_sub(1)?));
                    logged.map(|value| value.clone().unwrap_or_else(|| "NULL".to_owned()))
                }
                None => Some(plain(written)),
            };
            let number = value.as_ref().is_none_or(|value| value.parse::<f64>().is_ok());
            let (start, end) = (text.len(), text.len() + written.len());
            holes.push(Hole { start, end, value, number, parameter, fixed: constant && values.is_some() });
        }
        text.push_str(written);
        skeleton.push_str(if constant { "?" } else { written });
        fixed.behind(token.kind, written);
    }
    (text, skeleton, holes)
}

/// Knows the constants that belong to a statement's form: ORDER BY 1, 2; interval '1 day'; numeric(10,2).
#[derive(Default)]
struct Fixed {
    /// The token before, in lower case.
    before: String,
    /// Behind BY, as long as there are only numbers and commas.
    ordinals: bool,
    /// Behind `::` or AS, as long as there are only words.
    ty: bool,
    /// Within the parentheses of a type.
    modifier: bool,
}

impl Fixed {
    fn is_part_of_form(&self, kind: TokenKind) -> bool {
        let typed = ["time", "timetz", "zone", "json", "inet", "bit"].contains(&self.before.as_str())
            || type_name::internal(&self.before).is_some();
        match kind {
            TokenKind::Number => self.before == "by" || self.ordinals || self.modifier,
            _ => typed,
        }
    }

    fn behind(&mut self, kind: TokenKind, written: &str) {
        let list = kind == TokenKind::Number || written == ",";
        self.ordinals = list && (self.before == "by" || self.ordinals);
        self.modifier = written == "(" && self.ty && self.before != "as" || list && self.modifier;
        self.before = written.to_ascii_lowercase();
        self.ty = self.before == "::" || self.before == "as" || kind == TokenKind::Word && self.ty;
    }
}

/// The value of a constant, so that `5` and `'5'` are one.
fn plain(written: &str) -> String {
    let inner = written.trim_start_matches(['E', 'e']);
    match inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => written.to_owned(),
    }
}

fn shape(text: &str, routines: &BTreeSet<String>) -> Shape {
    let broken = |message: String| Shape {
        fingerprint: format!("broken: {text}"),
        kind: match is_of_replication(text) {
            true => Kind::Nothing,
            false => Kind::Broken(message),
        },
        name: "not_understood".to_owned(),
    };
    let statement = match parse::parse_statement(Piece::new(0, 0, text)) {
        Ok(statement) => statement.node,
        Err(error) => return broken(error.message),
    };
    let options = FingerprintOptions::FULL_RELNAME;
    let fingerprint = match pg_query::fingerprint(text, ParserOptions::DEFAULT, options) {
        Ok(fingerprint) => fingerprint.hex,
        Err(error) => return broken(error.to_string()),
    };
    let (kind, name) = kind(text, &statement, routines);
    Shape { fingerprint, kind, name }
}

/// A command of the protocol of replication, which is logged as statements are.
fn is_of_replication(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let words = [
        "identify_system",
        "start_replication",
        "create_replication_slot",
        "drop_replication_slot",
        "read_replication_slot",
        "base_backup",
        "timeline_history",
    ];
    words.contains(&first.trim_end_matches(';'))
}

fn kind(text: &str, statement: &node::Node, routines: &BTreeSet<String>) -> (Kind, String) {
    let mentioned = Mentioned::of(statement);
    let table = mentioned.tables.first().cloned().unwrap_or_default();
    let named = |verb: &str| match table.as_str() {
        "" => verb.to_owned(),
        table => format!("{verb}_{table}"),
    };
    let routine = |call: &FuncCall| {
        let name = crate::binder::expr_strings(&call.funcname).last().map(|name| (*name).to_owned());
        name.filter(|name| routines.contains(name))
    };
    let kind = match statement {
        node::Node::TransactionStmt(transaction) => return (control(transaction), String::new()),
        node::Node::VariableSetStmt(set) if set.name == "TRANSACTION" => {
            let serializable = set.args.iter().any(is_serializable);
            let kind = if serializable { Kind::Control(Control::Serializable) } else { Kind::Nothing };
            return (kind, String::new());
        }
        node::Node::CallStmt(call) => {
            let name = call.funccall.as_deref().and_then(routine);
            return (name.map_or(Kind::Statement, Kind::Call), "call".to_owned());
        }
        node::Node::SelectStmt(_) => match routine::only_call(statement).and_then(routine) {
            Some(name) => return (Kind::Call(name), "call".to_owned()),
            None if mentioned.matters(&names_of(text), routines) => {
                return (Kind::Statement, named("select"));
            }
            None => Kind::Nothing,
        },
        node::Node::InsertStmt(_) => return (Kind::Statement, named("insert")),
        node::Node::UpdateStmt(_) => return (Kind::Statement, named("update")),
        node::Node::DeleteStmt(_) => return (Kind::Statement, named("delete")),
        node::Node::MergeStmt(_) => return (Kind::Statement, named("merge")),
        node::Node::VariableSetStmt(_)
        | node::Node::VariableShowStmt(_)
        | node::Node::DiscardStmt(_)
        | node::Node::DeallocateStmt(_)
        | node::Node::ListenStmt(_)
        | node::Node::UnlistenStmt(_)
        | node::Node::NotifyStmt(_)
        | node::Node::ExplainStmt(_) => Kind::Nothing,
        other => Kind::PassedOver(statement_name(other)),
    };
    (kind, String::new())
}

fn control(transaction: &TransactionStmt) -> Kind {
    use TransactionStmtKind::*;
    let control = match TransactionStmtKind::try_from(transaction.kind) {
        Ok(TransStmtBegin | TransStmtStart) => {
            Control::Begin { serializable: asks_serializable(transaction) }
        }
        Ok(TransStmtCommit | TransStmtPrepare) => Control::Commit,
        Ok(TransStmtRollback) => Control::Rollback,
        Ok(TransStmtSavepoint) => Control::Savepoint(transaction.savepoint_name.clone()),
        Ok(TransStmtRollbackTo) => Control::RollbackTo(transaction.savepoint_name.clone()),
        _ => return Kind::Nothing,
    };
    Kind::Control(control)
}

/// The tables that a statement names, in order, as far as they are found easily.
#[derive(Debug, Default)]
struct Mentioned {
    tables: Vec<String>,
    /// The system's own are among them.
    system: bool,
}

impl Mentioned {
    fn of(statement: &node::Node) -> Mentioned {
        let mut mentioned = Mentioned::default();
        let target = match statement {
            node::Node::InsertStmt(insert) => insert.relation.as_ref(),
            node::Node::UpdateStmt(update) => update.relation.as_ref(),
            node::Node::DeleteStmt(delete) => delete.relation.as_ref(),
            node::Node::MergeStmt(merge) => merge.relation.as_ref(),
            _ => None,
        };
        mentioned.tables.extend(target.map(|range| range.relname.clone()));
        for (part, _, _, _) in statement.nodes() {
            if let NodeRef::RangeVar(range) = part {
                {
                    let system = matches!(range.schemaname.as_str(), "pg_catalog" | "information_schema")
                        || range.relname.starts_with("pg_");
                    match system {
                        true => mentioned.system = true,
                        false => mentioned.tables.push(range.relname.clone()),
                    }
                }
            }
        }
        mentioned
    }

    /// Whether a SELECT does more than ask the catalog or compute. `words`: all of its text.
    fn matters(&self, words: &BTreeSet<String>, routines: &BTreeSet<String>) -> bool {
        let reads = words.contains("from") && !(self.tables.is_empty() && self.system);
        reads || words.contains("nextval") || words.iter().any(|word| routines.contains(word))
    }
}

/// The statement with `$n` for each hole that is to be a parameter (`numbers`), as far as the grammar has a
/// parameter there: not in `interval '1 day'`.
pub(super) fn with_parameters(executed: &Executed, numbers: &[Option<usize>]) -> String {
    let written = |chosen: &dyn Fn(usize) -> bool| {
        let mut text = String::new();
        let mut from = 0;
        for (index, hole) in executed.holes.iter().enumerate() {
            text.push_str(&executed.text[from..hole.start]);
            match numbers.get(index).copied().flatten().filter(|_| chosen(index)) {
                Some(number) => text.push_str(&format!("${number}")),
                None => text.push_str(&executed.text[hole.start..hole.end]),
            }
            from = hole.end;
        }
        text.push_str(&executed.text[from..]);
        text
    };
    let parses = |text: &str| parse::parse_statement(Piece::new(0, 0, text)).is_ok();
    let all = written(&|_| true);
    if parses(&all) {
        return all;
    }
    // A prepared statement's own parameters stand where they may.
    let mut chosen: BTreeSet<usize> =
        (0..executed.holes.len()).filter(|index| executed.holes[*index].parameter.is_some()).collect();
    for index in 0..executed.holes.len() {
        if chosen.insert(index) && !parses(&written(&|other| chosen.contains(&other))) {
            chosen.remove(&index);
        }
    }
    written(&|index| chosen.contains(&index))
}
