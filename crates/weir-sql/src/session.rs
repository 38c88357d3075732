//! What clients of a server say beside queries: transactions, settings, prepared statements.
//!
//! A text of the simple protocol may hold several statements; each is told with its place and its kind. Nothing here is bound
//! against a catalog.

use pg_query::protobuf::{Node, TransactionStmtKind, VariableSetKind, a_const, node};
use weir_types::SqlState;

use crate::parse::{self, Piece};
use crate::source::{Diagnostic, Span};

/// One statement of a client's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub what: Command,
    /// Its bytes of the text, without the semicolon.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// BEGIN and START TRANSACTION.
    Begin(Characteristics),
    /// COMMIT and END.
    Commit,
    /// ROLLBACK and ABORT.
    RollBack,
    Savepoint(String),
    Release(String),
    RollBackTo(String),
    /// Of the transaction that is open.
    SetTransaction(Characteristics),
    /// SET SESSION CHARACTERISTICS: of all that follow.
    SetSession(Characteristics),
    /// None: to its default. Several values are told as SHOW tells them.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
    },
    ResetAll,
    /// None: all settings.
    Show(Option<String>),
    /// DISCARD ALL, PLANS, SEQUENCES or TEMP.
    Discard {
        all: bool,
    },
    /// None: all.
    Deallocate(Option<String>),
    Copy,
    /// CREATE, ALTER, DROP and what else changes the catalog.
    Define,
    /// A query, a write or a call.
    Run,
    /// What a server of this kind has nothing to do for: VACUUM, ANALYZE, CHECKPOINT.
    Nothing(&'static str),
    /// PREPARE, LISTEN, LOCK, DECLARE and so on, by its words.
    Unsupported(String),
}

/// What a transaction is to be like, as far as it is said.
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
    let piece = Piece::new(0, 0, text);
    let parsed = parse::parse_statements(piece)?;
    parsed
        .into_iter()
        .map(|one| Ok(Said { what: command(piece, &one.node, one.span)?, span: one.span }))
        .collect()
}

fn command(piece: Piece<'_>, statement: &node::Node, span: Span) -> Result<Command, Diagnostic> {
    use node::Node as N;
    Ok(match statement {
        N::TransactionStmt(stmt) => {
            let name = stmt.savepoint_name.clone();
            match stmt.kind() {
                TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => {
                    Command::Begin(characteristics(piece, &stmt.options, span)?)
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
            Command::Discard { all: stmt.target() == pg_query::protobuf::DiscardMode::DiscardAll }
        }
        N::DeallocateStmt(stmt) => Command::Deallocate((!stmt.isall).then(|| stmt.name.clone())),
        N::CopyStmt(_) => Command::Copy,
        N::SelectStmt(_) | N::InsertStmt(_) | N::UpdateStmt(_) | N::DeleteStmt(_) | N::CallStmt(_) => {
            Command::Run
        }
        N::VacuumStmt(stmt) => Command::Nothing(if stmt.is_vacuumcmd { "VACUUM" } else { "ANALYZE" }),
        N::CheckPointStmt(_) => Command::Nothing("CHECKPOINT"),
        other if is_definition(other) => Command::Define,
        _ => unsupported(piece, span),
    })
}

fn is_definition(statement: &node::Node) -> bool {
    use node::Node as N;
    matches!(
        statement,
        N::CreateStmt(_)
            | N::CreateTableAsStmt(_)
            | N::CreateSchemaStmt(_)
            | N::CreateSeqStmt(_)
            | N::CreateDomainStmt(_)
            | N::CreateEnumStmt(_)
            | N::CreateFunctionStmt(_)
            | N::CreateTrigStmt(_)
            | N::CreateExtensionStmt(_)
            | N::AlterTableStmt(_)
            | N::AlterSeqStmt(_)
            | N::AlterDomainStmt(_)
            | N::AlterEnumStmt(_)
            | N::AlterFunctionStmt(_)
            | N::AlterOwnerStmt(_)
            | N::IndexStmt(_)
            | N::ViewStmt(_)
            | N::RefreshMatViewStmt(_)
            | N::RenameStmt(_)
            | N::DropStmt(_)
            | N::TruncateStmt(_)
            | N::CommentStmt(_)
            | N::GrantStmt(_)
    )
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
        node::Node::TypeCast(cast) => constant(cast.arg.as_deref()?),
        node::Node::String(text) => Some(text.sval.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Command]) {
        let seen: Vec<Command> = statements(text).unwrap().into_iter().map(|one| one.what).collect();
        assert_eq!(seen, expected, "{text}");
    }

    fn set(name: &str, value: Option<&str>, local: bool) -> Command {
        Command::Set { name: name.to_owned(), value: value.map(str::to_owned), local }
    }

    #[test]
    fn transactions() {
        let plain = Characteristics::default();
        check("BEGIN", &[Command::Begin(plain)]);
        check(
            "begin work; COMMIT; END; rollback; ABORT",
            &[Command::Begin(plain), Command::Commit, Command::Commit, Command::RollBack, Command::RollBack],
        );
        let serializable = Characteristics {
            isolation: Some(Isolation::Serializable),
            read_only: Some(true),
            deferrable: Some(true),
        };
        check(
            "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
            &[Command::Begin(serializable)],
        );
        let writes = Characteristics { read_only: Some(false), ..plain };
        check("BEGIN READ WRITE", &[Command::Begin(writes)]);
        let repeatable = Characteristics { isolation: Some(Isolation::RepeatableRead), ..plain };
        check("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", &[Command::SetTransaction(repeatable)]);
        check("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", &[Command::SetSession(writes)]);
        check(
            "SAVEPOINT a; RELEASE a; ROLLBACK TO SAVEPOINT \"B\"",
            &[Command::Savepoint("a".into()), Command::Release("a".into()), Command::RollBackTo("B".into())],
        );
        check("COMMIT AND CHAIN", &[Command::Unsupported("COMMIT AND".into())]);
        check("PREPARE TRANSACTION 'x'", &[Command::Unsupported("PREPARE TRANSACTION".into())]);
    }

    #[test]
    fn settings() {
        check("SET extra_float_digits = 3", &[set("extra_float_digits", Some("3"), false)]);
        check("set local TimeZone to 'UTC'", &[set("timezone", Some("UTC"), true)]);
        check("SET search_path TO a, public", &[set("search_path", Some("a, public"), false)]);
        check(
            "SET standard_conforming_strings = on",
            &[set("standard_conforming_strings", Some("on"), false)],
        );
        check(
            "SET a.b TO DEFAULT; RESET c; RESET ALL",
            &[set("a.b", None, false), set("c", None, false), Command::ResetAll],
        );
        check(
            "SHOW Transaction_Isolation; SHOW ALL",
            &[Command::Show(Some("transaction_isolation".into())), Command::Show(None)],
        );
        check("SHOW TRANSACTION ISOLATION LEVEL", &[Command::Show(Some("transaction_isolation".into()))]);
        check(
            "DISCARD ALL; DEALLOCATE p; DEALLOCATE ALL",
            &[
                Command::Discard { all: true },
                Command::Deallocate(Some("p".into())),
                Command::Deallocate(None),
            ],
        );
    }

    #[test]
    fn the_others() {
        check("", &[]);
        check(" ;; -- nothing\n ; /* at all */", &[]);
        check(
            "select 1; insert into t values (1); call p(); with x as (select 1) delete from t",
            &[Command::Run, Command::Run, Command::Run, Command::Run],
        );
        check(
            "CREATE TABLE t (a int); DROP VIEW v; TRUNCATE t; COMMENT ON TABLE t IS 'x'",
            &[Command::Define, Command::Define, Command::Define, Command::Define],
        );
        check(
            "COPY t FROM STDIN; VACUUM t; ANALYZE; CHECKPOINT",
            &[
                Command::Copy,
                Command::Nothing("VACUUM"),
                Command::Nothing("ANALYZE"),
                Command::Nothing("CHECKPOINT"),
            ],
        );
        check(
            "LISTEN x; LOCK TABLE t",
            &[Command::Unsupported("LISTEN X".into()), Command::Unsupported("LOCK TABLE".into())],
        );
        let said = statements("/* before */ select 'é' ; commit ").unwrap();
        let places: Vec<(u32, u32)> = said.iter().map(|one| (one.span.start, one.span.end)).collect();
        assert_eq!(places, [(13, 24), (27, 33)]);
        assert_eq!(statements("selec 1").unwrap_err().state, SqlState::SYNTAX_ERROR);
    }
}
