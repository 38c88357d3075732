//! Client statements other than queries: transactions, settings, prepared statements.
//!
//! A text of the simple protocol may hold several statements; each is told with its place and its kind. Nothing here is bound
//! against a catalog.

mod chore;
mod inner;
mod signal;
mod tables;
mod tags;
mod temporary;
#[cfg(test)]
mod tests;

use pg_query::protobuf::{
    DiscardMode, ExplainStmt, FetchDirection, Node, TransactionStmtKind, TypeName, VariableSetKind, a_const,
    node,
};
use weir_types::function::quote_identifier;
use weir_types::{SqlState, SqlType};

use self::signal::signals;
use self::tables::{copy, create_as, lock, select_into};
use crate::assertion::{self, AssertionStatement};
use crate::binder::stand_in;
use crate::effects::Effects;
use crate::explain::{self, Explain};
use crate::parse::{self, ParsedStatement, Piece};
use crate::plpgsql::{self, ScriptStep};
use crate::source::{Diagnostic, Span};
use crate::type_name;

pub use self::chore::Chore;
pub use self::inner::InnerStatement;
pub use self::signal::{Signal, SignalKind};
pub use self::tables::{Copied, Copy, CopyOption, CreateAs, Lock, LockMode};
pub use self::temporary::{Caught, Output, OutputType, Temporary, TemporaryFunction};

/// One statement of a client's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub what: Command,
    /// Its bytes of the text, without the semicolon.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// BEGIN and START TRANSACTION, each with its command tag.
    Begin(Characteristics, &'static str),
    /// COMMIT and END.
    Commit,
    /// ROLLBACK and ABORT.
    RollBack,
    Savepoint(String),
    Release(String),
    RollBackTo(String),
    /// Characteristics of the open transaction.
    SetTransaction(Characteristics),
    /// SET SESSION CHARACTERISTICS: of all that follow.
    SetSession(Characteristics),
    /// None: the default. Several values are joined as SHOW prints them.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    ResetAll,
    /// None: all settings.
    Show(Option<String>),
    /// UNLISTEN: there are no listeners, so it succeeds at once, as in PostgreSQL without a LISTEN.
    Unlisten,
    /// DISCARD ALL, PLANS, SEQUENCES or TEMP.
    Discard {
        all: bool,
        sequences: bool,
        temporary: bool,
    },
    /// None: all.
    Deallocate(Option<String>),
    /// PREPARE: a statement, and the types of its parameters as far as they are given.
    Prepare {
        name: String,
        types: Vec<SqlType>,
        body: InnerStatement,
    },
    /// EXECUTE of what was prepared; `arguments`: a query for the row of them, if there are any.
    Execute {
        name: String,
        arguments: Option<InnerStatement>,
    },
    /// DECLARE CURSOR. `scroll`: whether it goes backwards, where that is said.
    Declare {
        name: String,
        scroll: Option<bool>,
        hold: bool,
        binary: bool,
        query: InnerStatement,
    },
    /// FETCH, and MOVE, which gives nothing.
    Fetch {
        name: String,
        way: Way,
        moves: bool,
    },
    /// SET TRANSACTION SNAPSHOT: to read what the transaction reads that has given that name.
    Snapshot(String),
    /// CLOSE. None: all cursors.
    CloseCursor(Option<String>),
    Copy(Copy),
    /// CREATE, ALTER, DROP and other catalog changes, with the command tag.
    Define(&'static str),
    /// A query with calls of pg_cancel_backend or pg_terminate_backend in its select list, and the same with what these are given in
    /// their place.
    Signal {
        signals: Vec<Signal>,
        query: InnerStatement,
    },
    /// EXPLAIN of a query, a write, a call, or a prepared or declared statement.
    Explain(Explain, Box<Command>),
    /// A query, a write or a call; a DO that is work for shards.
    Run,
    /// The same, as a part of another statement.
    RunInner(InnerStatement),
    /// Any other DO: its steps.
    Script(Vec<ScriptStep>),
    /// A SELECT of functions that act on the session.
    Effects(Effects),
    /// SET CONSTRAINTS; none as names is ALL.
    Constraints {
        names: Option<Vec<String>>,
        deferred: bool,
    },
    Lock(Lock),
    /// Statements without an effect in this server: CHECKPOINT.
    Nothing(&'static str),
    /// VACUUM, ANALYZE, REINDEX and CLUSTER, also without effect, with the objects that they name.
    Chore(Chore),
    /// CREATE TABLE … AS a query.
    CreateAs(CreateAs),
    /// CREATE MATERIALIZED VIEW … WITH DATA, by its name and its quoted name: the client is told the number of rows.
    CreateMaterialized(String, String),
    /// REFRESH of a materialized view of that name: it is always as its tables say.
    Refresh(String),
    /// A statement about a function in pg_temp.
    Temporary(Temporary),
    /// PREPARE, LISTEN, LOCK, DECLARE and so on, by its words.
    Unsupported(String),
}

/// Where FETCH goes to from where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// That number of rows; backwards if negative, all of them at the ends of the integer range. 0: the current row.
    By(i64),
    /// To a row, counted from the first, or from the last if negative.
    To(i64),
    /// To a row, counted from the current one.
    Over(i64),
}

/// Transaction characteristics, as far as given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Characteristics {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub fn by_name(name: &str) -> Option<Isolation> {
        Some(match name.to_ascii_lowercase().as_str() {
            "read uncommitted" => Isolation::ReadUncommitted,
            "read committed" => Isolation::ReadCommitted,
            "repeatable read" => Isolation::RepeatableRead,
            "serializable" => Isolation::Serializable,
            _ => return None,
        })
    }

    /// As SHOW tells it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// The statements of a text, in order; none where there are only blanks, comments and semicolons.
///
/// # Errors
/// It is not of PostgreSQL's grammar (42601), or a transaction is to be like nothing that there is (22023).
pub fn statements(text: &str) -> Result<Vec<Said>, Diagnostic> {
    let (text, explained) = explain::cut_out(text)?;
    let (text, of_assertions) = assertion::cut_out(&text)?;
    let piece = Piece::new(0, 0, &text);
    let parsed = parse::parse_statements(piece)?;
    let of = |one: ParsedStatement| {
        let span = one.span;
        let what = command(piece, one.node, span)?;
        let what = match explained.iter().find(|cut| cut.body == span.start) {
            Some(cut) => Command::Explain(cut.explain, Box::new(what)),
            None => what,
        };
        Ok(Said { what, span })
    };
    let mut said: Vec<Said> = parsed.into_iter().map(of).collect::<Result<_, _>>()?;
    if !of_assertions.is_empty() {
        let defines =
            |(one, span): (AssertionStatement, Span)| Said { what: Command::Define(one.tag()), span };
        said.extend(of_assertions.into_iter().map(defines));
        said.sort_by_key(|one| one.span.start);
    }
    Ok(said)
}

/// EXPLAIN, but for that of CALL.
fn explained(piece: Piece<'_>, stmt: ExplainStmt, span: Span) -> Result<Command, Diagnostic> {
    let explain = Explain::of(piece, &stmt.options, span)?;
    let not_explained = || {
        Diagnostic::unsupported(
            span,
            "EXPLAIN of this statement",
            "SELECT, INSERT, UPDATE, DELETE, CALL, EXECUTE and DECLARE can be explained",
        )
    };
    let node = stmt.query.and_then(|query| query.node).ok_or_else(not_explained)?;
    let of = match as_run(piece, node, span)? {
        Ok(inner) => Command::RunInner(inner),
        Err(of @ (Command::Execute { .. } | Command::Declare { .. })) => of,
        Err(_) => return Err(not_explained()),
    };
    Ok(Command::Explain(explain, Box::new(of)))
}

/// The statement, if it is a query or a write that shards run; otherwise what it is.
fn as_run(
    piece: Piece<'_>,
    node: node::Node,
    span: Span,
) -> Result<Result<InnerStatement, Command>, Diagnostic> {
    Ok(match session_command(piece, &node, span)? {
        None if is_run(&node) => Ok(InnerStatement::of(node)),
        None => Err(command(piece, node, span)?),
        Some(command) => Err(command),
    })
}

/// The command of a query that is a session's: a call that acts on the session, a signal to another one, a new table.
fn session_command(
    piece: Piece<'_>,
    statement: &node::Node,
    span: Span,
) -> Result<Option<Command>, Diagnostic> {
    if let Some(temporary) = Temporary::of(piece, statement, span)? {
        return Ok(Some(Command::Temporary(temporary)));
    }
    let node::Node::SelectStmt(select) = statement else { return Ok(None) };
    Ok(signals(select)
        .or_else(|| select_into(select).map(Command::CreateAs))
        .or_else(|| Effects::of(select).map(Command::Effects)))
}

/// MERGE is refused when it is bound, so that the client gets the error before it sends parameters.
fn is_run(statement: &node::Node) -> bool {
    use node::Node as N;
    matches!(
        statement,
        N::SelectStmt(_)
            | N::InsertStmt(_)
            | N::UpdateStmt(_)
            | N::DeleteStmt(_)
            | N::MergeStmt(_)
            | N::CallStmt(_)
    )
}

fn command(piece: Piece<'_>, statement: node::Node, span: Span) -> Result<Command, Diagnostic> {
    use node::Node as N;
    if let Some(command) = session_command(piece, &statement, span)? {
        return Ok(command);
    }
    Ok(match statement {
        statement if is_run(&statement) => Command::Run,
        N::TransactionStmt(stmt) => {
            let name = stmt.savepoint_name.clone();
            match stmt.kind() {
                TransactionStmtKind::TransStmtBegin => {
                    Command::Begin(characteristics(piece, &stmt.options, span)?, "BEGIN")
                }
                TransactionStmtKind::TransStmtStart => {
                    Command::Begin(characteristics(piece, &stmt.options, span)?, "START TRANSACTION")
                }
                TransactionStmtKind::TransStmtCommit if !stmt.chain => Command::Commit,
                TransactionStmtKind::TransStmtRollback if !stmt.chain => Command::RollBack,
                TransactionStmtKind::TransStmtSavepoint => Command::Savepoint(name),
                TransactionStmtKind::TransStmtRelease => Command::Release(name),
                TransactionStmtKind::TransStmtRollbackTo => Command::RollBackTo(name),
                _ => unsupported(piece, span),
            }
        }
        N::VariableSetStmt(stmt) => {
            let (name, local) = (stmt.name.to_ascii_lowercase(), stmt.is_local);
            match (stmt.kind(), name.as_str()) {
                (VariableSetKind::VarSetMulti, "transaction") => {
                    Command::SetTransaction(characteristics(piece, &stmt.args, span)?)
                }
                (VariableSetKind::VarSetMulti, "transaction snapshot") => {
                    Command::Snapshot(stmt.args.first().and_then(constant).unwrap_or_default())
                }
                (VariableSetKind::VarSetMulti, "session characteristics") => {
                    Command::SetSession(characteristics(piece, &stmt.args, span)?)
                }
                (VariableSetKind::VarSetValue, _) => {
                    let values: Vec<String> = stmt.args.iter().filter_map(constant).collect();
                    Command::Set { name, value: Some(values.join(", ")), local }
                }
                (VariableSetKind::VarSetDefault | VariableSetKind::VarReset, _) => {
                    Command::Set { name, value: None, local }
                }
                (VariableSetKind::VarResetAll, _) => Command::ResetAll,
                _ => unsupported(piece, span),
            }
        }
        N::VariableShowStmt(stmt) => {
            let name = stmt.name.to_ascii_lowercase();
            Command::Show((name != "all").then_some(name))
        }
        N::DiscardStmt(stmt) => {
            let (target, all) = (stmt.target(), stmt.target() == DiscardMode::DiscardAll);
            let is = |one: DiscardMode| all || target == one;
            let (sequences, temporary) = (is(DiscardMode::DiscardSequences), is(DiscardMode::DiscardTemp));
            Command::Discard { all, sequences, temporary }
        }
        N::UnlistenStmt(_) => Command::Unlisten,
        N::ListenStmt(stmt) => {
            Command::Unsupported(format!("LISTEN {}", quote_identifier(&stmt.conditionname)))
        }
        N::NotifyStmt(stmt) => {
            Command::Unsupported(format!("NOTIFY {}", quote_identifier(&stmt.conditionname)))
        }
        N::DeallocateStmt(stmt) => Command::Deallocate((!stmt.isall).then(|| stmt.name.clone())),
        N::ExplainStmt(stmt) => explained(piece, *stmt, span)?,
        N::PrepareStmt(stmt) => Command::Prepare {
            name: stmt.name,
            types: parameter_types(piece, &stmt.argtypes)?,
            body: InnerStatement::within(stmt.query).ok_or_else(|| nothing_within(span))?,
        },
        N::ExecuteStmt(stmt) => {
            let arguments = (!stmt.params.is_empty()).then(|| InnerStatement::row_of(stmt.params));
            Command::Execute { name: stmt.name, arguments: arguments.transpose()? }
        }
        N::DeclareCursorStmt(stmt) => {
            let has = |option: i32| stmt.options & option != 0;
            Command::Declare {
                scroll: (has(CURSOR_SCROLL) || has(CURSOR_NO_SCROLL)).then(|| has(CURSOR_SCROLL)),
                hold: has(CURSOR_HOLD),
                binary: has(CURSOR_BINARY),
                name: stmt.portalname,
                query: InnerStatement::within(stmt.query).ok_or_else(|| nothing_within(span))?,
            }
        }
        N::FetchStmt(stmt) => {
            let many = stmt.how_many;
            let way = match stmt.direction() {
                FetchDirection::FetchBackward => Way::By(many.saturating_neg()),
                FetchDirection::FetchAbsolute => Way::To(many),
                FetchDirection::FetchRelative => Way::Over(many),
                _ => Way::By(many),
            };
            Command::Fetch { name: stmt.portalname.clone(), way, moves: stmt.ismove }
        }
        N::ClosePortalStmt(stmt) => {
            Command::CloseCursor(Some(stmt.portalname.clone()).filter(|name| !name.is_empty()))
        }
        N::CopyStmt(stmt) => copy(*stmt, span)?,
        N::ConstraintsSetStmt(set) => {
            let name = |node: &Node| match &node.node {
                Some(node::Node::RangeVar(range)) => Some(range.relname.clone()),
                _ => None,
            };
            let names: Vec<String> = set.constraints.iter().filter_map(name).collect();
            Command::Constraints {
                names: Some(names).filter(|names| !names.is_empty()),
                deferred: set.deferred,
            }
        }
        N::LockStmt(stmt) => Command::Lock(lock(&stmt)),
        N::DoStmt(stmt) => plpgsql::script(piece, &stmt, span)?.map_or(Command::Run, Command::Script),
        N::VacuumStmt(stmt) => {
            let chore = Chore::vacuum(&stmt);
            Command::Chore(chore.map_err(|wrong| Diagnostic::new(wrong.state(), span, wrong.message()))?)
        }
        N::ClusterStmt(stmt) => Command::Chore(Chore::cluster(&stmt)),
        N::ReindexStmt(stmt) => Command::Chore(Chore::reindex(&stmt)),
        N::CheckPointStmt(_) => Command::Nothing("CHECKPOINT"),
        N::RefreshMatViewStmt(refresh) => {
            Command::Refresh(refresh.relation.as_ref().map_or_else(String::new, crate::ddl::relation_name))
        }
        N::CreateTableAsStmt(create) => match create_as(*create) {
            Ok(command) => command,
            Err(create) => definition(piece, &N::CreateTableAsStmt(create), span),
        },
        other => definition(piece, &other, span),
    })
}

fn definition(piece: Piece<'_>, statement: &node::Node, span: Span) -> Command {
    tags::definition(statement).map_or_else(|| unsupported(piece, span), Command::Define)
}

/// The grammar gives no such tree.
fn nothing_within(span: Span) -> Diagnostic {
    Diagnostic::new(SqlState::SYNTAX_ERROR, span, "syntax error: there is no statement within this one")
}

/// `DeclareCursorStmt.options` of PostgreSQL.
const CURSOR_BINARY: i32 = 1;
const CURSOR_SCROLL: i32 = 2;
const CURSOR_NO_SCROLL: i32 = 4;
const CURSOR_HOLD: i32 = 32;

fn parameter_types(piece: Piece<'_>, types: &[Node]) -> Result<Vec<SqlType>, Diagnostic> {
    let of = |node: &Node| match &node.node {
        // `unknown` is for the statement to say.
        Some(node::Node::TypeName(name)) if is_unknown(name) => Some(Ok(SqlType::Unknown)),
        Some(node::Node::TypeName(name)) => {
            let of_catalog = last_word(name).filter(|_| name.array_bounds.is_empty()).and_then(stand_in);
            Some(of_catalog.map_or_else(|| type_name::resolve(piece, name), Ok))
        }
        _ => None,
    };
    types.iter().filter_map(of).collect()
}

fn is_unknown(name: &TypeName) -> bool {
    last_word(name) == Some("unknown")
}

fn last_word(name: &TypeName) -> Option<&str> {
    match name.names.last()?.node.as_ref()? {
        node::Node::String(word) => Some(&word.sval),
        _ => None,
    }
}

/// By its first two words.
fn unsupported(piece: Piece<'_>, span: Span) -> Command {
    let words = piece.text_of(span).split_whitespace().take(2).map(str::to_ascii_uppercase);
    Command::Unsupported(words.collect::<Vec<_>>().join(" "))
}

fn characteristics(piece: Piece<'_>, options: &[Node], span: Span) -> Result<Characteristics, Diagnostic> {
    let mut all = Characteristics::default();
    for option in options {
        let Some(node::Node::DefElem(option)) = &option.node else { continue };
        let Some(value) = option.arg.as_deref().and_then(constant) else { continue };
        let is_true = || value != "0" && value != "false";
        match option.defname.as_str() {
            "transaction_isolation" => {
                let isolation = Isolation::by_name(&value).ok_or_else(|| {
                    let message =
                        format!("invalid value for parameter \"transaction_isolation\": \"{value}\"");
                    let at = if option.location >= 0 { piece.token(option.location) } else { span };
                    Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, at, message)
                })?;
                all.isolation = Some(isolation);
            }
            "transaction_read_only" => all.read_only = Some(is_true()),
            "transaction_deferrable" => all.deferrable = Some(is_true()),
            _ => {}
        }
    }
    Ok(all)
}

/// The text of a constant, as SHOW tells it.
fn constant(node: &Node) -> Option<String> {
    match node.node.as_ref()? {
        node::Node::AConst(constant) => Some(match constant.val.as_ref()? {
            a_const::Val::Ival(int) => int.ival.to_string(),
            a_const::Val::Fval(float) => float.fval.clone(),
            a_const::Val::Boolval(bool) => bool.boolval.to_string(),
            a_const::Val::Sval(text) => text.sval.clone(),
            a_const::Val::Bsval(bits) => bits.bsval.clone(),
        }),
        // SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE is the only one with a type.
        node::Node::TypeCast(cast) => {
            let text = constant(cast.arg.as_deref()?)?;
            let is_interval = cast.type_name.as_ref().is_some_and(|name| {
                let last = name.names.last().and_then(|name| name.node.as_ref());
                matches!(last, Some(node::Node::String(name)) if name.sval == "interval")
            });
            Some(if is_interval { format!("INTERVAL '{text}'") } else { text })
        }
        node::Node::String(text) => Some(text.sval.clone()),
        _ => None,
    }
}
