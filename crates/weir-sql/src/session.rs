//! What clients of a server say beside queries: transactions, settings, prepared statements.
//!
//! A text of the simple protocol may hold several statements; each is told with its place and its kind. Nothing here is bound
//! against a catalog.

use pg_query::protobuf::{
    CopyStmt, DiscardMode, FetchDirection, Node, ObjectType, SelectStmt, TransactionStmtKind, TypeName,
    VariableSetKind, a_const, node,
};
use weir_types::function::double_quoted;
use weir_types::{SqlState, SqlType};

use crate::assertion::{self, AssertionStatement};
use crate::binder::stand_in;
use crate::effects::Effects;
use crate::explain::{self, Explain};
use crate::lexer::{self, Lexer, Token};
use crate::parse::{self, ParsedStatement, Piece};
use crate::plpgsql::{self, ScriptStep};
use crate::source::{Diagnostic, Span};
use crate::type_name;

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
        sequences: bool,
    },
    /// None: all.
    Deallocate(Option<String>),
    /// PREPARE: a statement, and the types of its parameters as far as they are given.
    Prepare {
        name: String,
        types: Vec<SqlType>,
        body: Span,
    },
    /// EXECUTE of what was prepared; `arguments`: the bytes within its parentheses.
    Execute {
        name: String,
        arguments: Span,
    },
    /// DECLARE CURSOR. `scroll`: whether it goes backwards, where that is said.
    Declare {
        name: String,
        scroll: Option<bool>,
        hold: bool,
        binary: bool,
        query: Span,
    },
    /// FETCH, and MOVE, which gives nothing.
    Fetch {
        name: String,
        way: Way,
        moves: bool,
    },
    /// CLOSE. None: all cursors.
    CloseCursor(Option<String>),
    Copy(Copy),
    /// CREATE, ALTER, DROP and what else changes the catalog, with what its client is told that it was.
    Define(&'static str),
    /// A query with calls of pg_cancel_backend or pg_terminate_backend in its select list, and the same with what these are given in
    /// their place.
    Signal {
        signals: Vec<Signal>,
        query: String,
    },
    /// What is to be told, and of what: a query, a write, a call, or one that is prepared or declared.
    Explain(Explain, Box<Command>),
    /// A query, a write or a call; a DO that is work for shards.
    Run,
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
    /// What a server of this kind has nothing to do for: VACUUM, ANALYZE, CHECKPOINT.
    Nothing(&'static str),
    /// CREATE TABLE … AS a query.
    CreateAs(CreateAs),
    /// CREATE MATERIALIZED VIEW … WITH DATA, by its name, and by that quoted: its client is told how many rows it has.
    CreateMaterialized(String, String),
    /// REFRESH of a materialized view of that name: it is always as its tables say.
    Refresh(String),
    /// PREPARE, LISTEN, LOCK, DECLARE and so on, by its words.
    Unsupported(String),
}

/// A column of a query that is the number of a process, which is to be told something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    pub column: usize,
    pub kind: SignalKind,
    /// The column has the name of the function.
    pub is_unnamed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// Its statement is to end.
    Cancel,
    /// Its connection is to end.
    Terminate,
}

impl SignalKind {
    /// Of the function.
    pub fn name(self) -> &'static str {
        match self {
            SignalKind::Cancel => "pg_cancel_backend",
            SignalKind::Terminate => "pg_terminate_backend",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateAs {
    /// As a catalog has it, and as a text does.
    pub table: String,
    pub written: String,
    /// Other names than those of the query, of the first columns.
    pub columns: Vec<String>,
    pub if_not_exists: bool,
    pub with_data: bool,
    pub query: Span,
    /// Of SELECT … INTO: the query's text, with blanks for that.
    pub instead: Option<String>,
}

/// LOCK TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// As a catalog has them.
    pub tables: Vec<String>,
    pub mode: LockMode,
    pub nowait: bool,
}

/// What others may do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// ACCESS SHARE: anything but a change of the schema.
    AccessShare,
    /// ROW SHARE, ROW EXCLUSIVE and SHARE UPDATE EXCLUSIVE: write, too.
    Rows,
    /// SHARE, SHARE ROW EXCLUSIVE and EXCLUSIVE: read.
    Exclusive,
    /// ACCESS EXCLUSIVE, which is meant where nothing is said: nothing.
    AccessExclusive,
}

/// COPY between a client and a table, or from a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub what: Copied,
    pub is_from: bool,
    /// By their names, as they were given.
    pub options: Vec<(String, CopyOption)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Copied {
    /// By the catalog's name, with the schema's before it unless that is `public`. None as columns: all of them.
    Table {
        name: String,
        columns: Vec<String>,
    },
    Query(Span),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopyOption {
    /// It is named, and nothing more.
    Bare,
    Text(String),
    Names(Vec<String>),
    /// `*`.
    All,
}

/// Where FETCH goes to from where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// So many rows; backwards where it is negative, all of them at the ends of the range. 0: the row on which it stands.
    By(i64),
    /// To a row, counted from the first, or from the last where it is negative.
    To(i64),
    /// To a row, counted from where it stands.
    Over(i64),
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
    let (text, explained) = explain::cut_out(text)?;
    let (text, of_assertions) = assertion::cut_out(&text)?;
    let piece = Piece::new(0, 0, &text);
    let parsed = parse::parse_statements(piece)?;
    let of = |one: ParsedStatement| {
        let what = command(piece, &one.node, one.span)?;
        let explain = explained.iter().find(|cut| cut.body == one.span.start);
        let what = match (explain, what) {
            (None, what) => what,
            (Some(cut), what @ (Command::Run | Command::Execute { .. } | Command::Declare { .. })) => {
                Command::Explain(cut.explain, Box::new(what))
            }
            (Some(_), _) => return Err(not_explained(piece, one.span)),
        };
        Ok(Said { what, span: one.span })
    };
    let mut said: Vec<Said> = parsed.into_iter().map(of).collect::<Result<_, _>>()?;
    if !of_assertions.is_empty() {
        if let Some((_, span)) =
            of_assertions.iter().find(|(_, span)| explained.iter().any(|cut| cut.body == span.start))
        {
            return Err(not_explained(piece, *span));
        }
        let defines =
            |(one, span): (AssertionStatement, Span)| Said { what: Command::Define(one.tag()), span };
        said.extend(of_assertions.into_iter().map(defines));
        said.sort_by_key(|one| one.span.start);
    }
    Ok(said)
}

fn not_explained(piece: Piece<'_>, span: Span) -> Diagnostic {
    let first = piece.token(span.start as i32);
    let message = format!("syntax error at or near \"{}\"", piece.text_of(first));
    Diagnostic::new(SqlState::SYNTAX_ERROR, first, message)
        .with_hint("SELECT, INSERT, UPDATE, DELETE, CALL, EXECUTE and DECLARE can be explained")
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
            let (target, all) = (stmt.target(), stmt.target() == DiscardMode::DiscardAll);
            Command::Discard { all, sequences: all || target == DiscardMode::DiscardSequences }
        }
        N::DeallocateStmt(stmt) => Command::Deallocate((!stmt.isall).then(|| stmt.name.clone())),
        N::PrepareStmt(stmt) => Command::Prepare {
            name: stmt.name.clone(),
            types: parameter_types(piece, &stmt.argtypes)?,
            body: behind(piece, span, "as"),
        },
        N::ExecuteStmt(stmt) => {
            Command::Execute { name: stmt.name.clone(), arguments: in_parentheses(piece, span) }
        }
        N::DeclareCursorStmt(stmt) => {
            let has = |option: i32| stmt.options & option != 0;
            Command::Declare {
                name: stmt.portalname.clone(),
                scroll: (has(CURSOR_SCROLL) || has(CURSOR_NO_SCROLL)).then(|| has(CURSOR_SCROLL)),
                hold: has(CURSOR_HOLD),
                binary: has(CURSOR_BINARY),
                query: behind(piece, span, "for"),
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
        N::CopyStmt(stmt) => copy(piece, stmt, span)?,
        N::SelectStmt(select) if piece.text_of(span).contains("_backend") => {
            signals(piece, select, span).unwrap_or(Command::Run)
        }
        N::CreateTableAsStmt(create) if create_as(create).is_some() => {
            let (into, relation) = create_as(create).expect("just looked at");
            Command::CreateAs(CreateAs {
                table: crate::ddl::relation_name(relation),
                written: written(relation),
                columns: into.col_names.iter().filter_map(constant).collect(),
                if_not_exists: create.if_not_exists,
                with_data: !into.skip_data,
                query: without_data(piece, behind(piece, span, "as")),
                instead: None,
            })
        }
        N::CreateTableAsStmt(create) if materialized(create).is_some() => {
            let (name, quoted) = materialized(create).unwrap_or_default();
            Command::CreateMaterialized(name, quoted)
        }
        N::SelectStmt(select) if select.into_clause.is_some() => match select_into(piece, select, span) {
            Some(create) => Command::CreateAs(create),
            None => Command::Run,
        },
        N::SelectStmt(select) => Effects::of(piece, select, span).map_or(Command::Run, Command::Effects),
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
        N::LockStmt(stmt) => Command::Lock(lock(stmt)),
        N::InsertStmt(_) | N::UpdateStmt(_) | N::DeleteStmt(_) | N::CallStmt(_) => Command::Run,
        N::DoStmt(stmt) => plpgsql::script(piece, stmt, span)?.map_or(Command::Run, Command::Script),
        N::VacuumStmt(stmt) => Command::Nothing(if stmt.is_vacuumcmd { "VACUUM" } else { "ANALYZE" }),
        N::CheckPointStmt(_) => Command::Nothing("CHECKPOINT"),
        N::RefreshMatViewStmt(refresh) => {
            Command::Refresh(refresh.relation.as_ref().map_or_else(String::new, crate::ddl::relation_name))
        }
        other => match definition(other) {
            Some(tag) => Command::Define(tag),
            None => unsupported(piece, span),
        },
    })
}

fn copy(piece: Piece<'_>, stmt: &CopyStmt, span: Span) -> Result<Command, Diagnostic> {
    let not_here = |what: &str, instead: &str| Err(Diagnostic::unsupported(span, what, instead));
    if stmt.is_program || !stmt.filename.is_empty() {
        return not_here(
            "COPY to or from a file of the server",
            "use \\copy of psql, or COPY … STDIN or STDOUT",
        );
    }
    if stmt.where_clause.is_some() {
        return not_here("COPY … WHERE", "leave the rows out before they are sent");
    }
    let what = match &stmt.relation {
        Some(relation) => Copied::Table {
            name: crate::ddl::relation_name(relation),
            columns: stmt.attlist.iter().filter_map(constant).collect(),
        },
        None => Copied::Query(in_parentheses(piece, span)),
    };
    let option = |node: &Node| {
        let Some(node::Node::DefElem(option)) = &node.node else { return None };
        let value = match option.arg.as_deref().map(|arg| (arg, arg.node.as_ref())) {
            None => CopyOption::Bare,
            Some((_, Some(node::Node::AStar(_)))) => CopyOption::All,
            Some((_, Some(node::Node::List(list)))) => {
                CopyOption::Names(list.items.iter().filter_map(constant).collect())
            }
            Some((arg, _)) => constant(arg).map_or(CopyOption::Bare, CopyOption::Text),
        };
        Some((option.defname.clone(), value))
    };
    let options = stmt.options.iter().filter_map(option).collect();
    Ok(Command::Copy(Copy { what, is_from: stmt.is_from, options }))
}

/// None: there is no such call where it can be told apart from the query.
fn signals(piece: Piece<'_>, select: &SelectStmt, span: Span) -> Option<Command> {
    let mut query = piece.text_of(span).as_bytes().to_vec();
    let mut signals = Vec::new();
    for (column, target) in select.target_list.iter().enumerate() {
        let Some(node::Node::ResTarget(target)) = &target.node else { return None };
        match target.val.as_ref()?.node.as_ref()? {
            node::Node::FuncCall(call) if call.args.len() == 1 => {
                let name = call.funcname.last().and_then(constant);
                let kind = [SignalKind::Cancel, SignalKind::Terminate]
                    .into_iter()
                    .find(|kind| name.as_deref() == Some(kind.name()));
                let Some(kind) = kind else { continue };
                let start = usize::try_from(call.location).ok()?;
                let open = Lexer::new(piece.text, start).find(|token| token.is(b'('))?.start;
                let within = span.start as usize;
                query.get_mut(start.checked_sub(within)?..open.checked_sub(within)?)?.fill(b' ');
                signals.push(Signal { column, kind, is_unnamed: target.name.is_empty() });
            }
            // How many columns it is nobody knows here.
            node::Node::ColumnRef(column)
                if column.fields.iter().any(|field| matches!(field.node, Some(node::Node::AStar(_)))) =>
            {
                return None;
            }
            _ => {}
        }
    }
    let query = String::from_utf8(query).ok()?;
    (!signals.is_empty()).then_some(Command::Signal { signals, query })
}
/// `LockStmt.mode` of PostgreSQL.
const ACCESS_SHARE: i32 = 1;
const SHARE: i32 = 5;
const ACCESS_EXCLUSIVE: i32 = 8;

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

/// What follows the first such word that stands in no parentheses.
fn behind(piece: Piece<'_>, span: Span, word: &str) -> Span {
    let mut depth = 0usize;
    for token in tokens(piece, span) {
        if token.is(b'(') {
            depth += 1;
        } else if token.is(b')') {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is_word(piece.text, word) {
            return trimmed(piece, Span { start: token.end as u32, ..span });
        }
    }
    Span { start: span.end, ..span }
}

/// What stands between the first parenthesis and the one that closes it; nothing where there is none.
fn in_parentheses(piece: Piece<'_>, span: Span) -> Span {
    let open = tokens(piece, span).find(|token| token.is(b'('));
    match open {
        Some(open) => {
            let end = lexer::closing_end(piece.text, open.start) as u32;
            Span { start: open.end as u32, end: end.saturating_sub(1).max(open.end as u32), ..span }
        }
        None => Span { start: span.end, ..span },
    }
}

fn tokens<'p>(piece: Piece<'p>, span: Span) -> impl Iterator<Item = Token> + use<'p> {
    Lexer::new(piece.text, span.start as usize).take_while(move |token| token.end <= span.end as usize)
}

fn trimmed(piece: Piece<'_>, span: Span) -> Span {
    let first = tokens(piece, span).next();
    Span { start: first.map_or(span.end, |token| token.start as u32), ..span }
}

/// A table of a query, for everybody to see.
fn create_as(
    create: &pg_query::protobuf::CreateTableAsStmt,
) -> Option<(&pg_query::protobuf::IntoClause, &pg_query::protobuf::RangeVar)> {
    let into = create.into.as_deref()?;
    let relation = into.rel.as_ref()?;
    let is_query = matches!(create.query.as_deref()?.node, Some(node::Node::SelectStmt(_)));
    let is_table = create.objtype() == ObjectType::ObjectTable && !create.is_select_into;
    (is_query && is_table && relation.relpersistence != "t").then_some((into, relation))
}

fn materialized(create: &pg_query::protobuf::CreateTableAsStmt) -> Option<(String, String)> {
    let is_one = create.objtype() == ObjectType::ObjectMatview;
    let relation = create.into.as_deref().filter(|into| is_one && !into.skip_data)?.rel.as_ref()?;
    Some((crate::ddl::relation_name(relation), written(relation)))
}

fn lock(stmt: &pg_query::protobuf::LockStmt) -> Lock {
    let name = |node: &Node| match &node.node {
        Some(node::Node::RangeVar(range)) => Some(crate::ddl::relation_name(range)),
        _ => None,
    };
    let mode = match stmt.mode {
        ACCESS_SHARE => LockMode::AccessShare,
        SHARE..ACCESS_EXCLUSIVE => LockMode::Exclusive,
        ACCESS_EXCLUSIVE => LockMode::AccessExclusive,
        _ => LockMode::Rows,
    };
    Lock { tables: stmt.relations.iter().filter_map(name).collect(), mode, nowait: stmt.nowait }
}

/// SELECT … INTO is CREATE TABLE AS. None: the table is temporary, or the text is hard to take apart.
fn select_into(piece: Piece<'_>, select: &SelectStmt, span: Span) -> Option<CreateAs> {
    let into = select.into_clause.as_deref()?;
    let relation = into.rel.as_ref().filter(|relation| relation.relpersistence == "p")?;
    let place = usize::try_from(relation.location).ok()?;
    let is_into = |token: &Token| token.start < place && token.is_word(piece.text, "into");
    let start = tokens(piece, span).filter(is_into).last()?.start;
    let mut end = lexer::token_end(piece.text, place);
    if !relation.schemaname.is_empty() {
        let dot = lexer::token_end(piece.text, end);
        end = lexer::token_end(piece.text, dot);
    }
    let own = |at: usize| at.saturating_sub(span.start as usize);
    let mut query = piece.text_of(span).to_owned();
    crate::assertion::blank(&mut query, own(start), own(end));
    Some(CreateAs {
        table: crate::ddl::relation_name(relation),
        written: written(relation),
        columns: Vec::new(),
        if_not_exists: false,
        with_data: true,
        query: span,
        instead: Some(query),
    })
}

/// The name, quoted.
fn written(relation: &pg_query::protobuf::RangeVar) -> String {
    match relation.schemaname.as_str() {
        "" => double_quoted(&relation.relname),
        schema => format!("{}.{}", double_quoted(schema), double_quoted(&relation.relname)),
    }
}

/// The query in front of WITH [NO] DATA.
fn without_data(piece: Piece<'_>, span: Span) -> Span {
    let tokens: Vec<Token> = tokens(piece, span).collect();
    let is = |from_end: usize, word: &str| {
        let at = tokens.len().checked_sub(from_end);
        at.is_some_and(|at| tokens[at].is_word(piece.text, word))
    };
    let left = match () {
        () if is(1, "data") && is(2, "no") && is(3, "with") => tokens.len() - 3,
        () if is(1, "data") && is(2, "with") => tokens.len() - 2,
        () => return span,
    };
    Span { end: tokens.get(left.wrapping_sub(1)).map_or(span.start, |token| token.end as u32), ..span }
}

/// The tag of a statement that changes the catalog.
fn definition(statement: &node::Node) -> Option<&'static str> {
    use node::Node as N;
    Some(match statement {
        N::CreateStmt(_) => "CREATE TABLE",
        N::CreateTableAsStmt(create) => match create.objtype() {
            ObjectType::ObjectMatview => "CREATE MATERIALIZED VIEW",
            _ => "SELECT",
        },
        N::CreateSchemaStmt(_) => "CREATE SCHEMA",
        N::CreateSeqStmt(_) => "CREATE SEQUENCE",
        N::CreateDomainStmt(_) => "CREATE DOMAIN",
        N::CreateEnumStmt(_) => "CREATE TYPE",
        N::CreateFunctionStmt(create) if create.is_procedure => "CREATE PROCEDURE",
        N::CreateFunctionStmt(_) => "CREATE FUNCTION",
        N::CreateTrigStmt(_) => "CREATE TRIGGER",
        N::CreateExtensionStmt(_) => "CREATE EXTENSION",
        N::AlterTableStmt(alter) => alter_tag(alter.objtype()),
        N::AlterSeqStmt(_) => "ALTER SEQUENCE",
        N::AlterDomainStmt(_) => "ALTER DOMAIN",
        N::AlterEnumStmt(_) => "ALTER TYPE",
        N::AlterFunctionStmt(alter) => alter_tag(alter.objtype()),
        N::AlterOwnerStmt(alter) => alter_tag(alter.object_type()),
        N::AlterObjectSchemaStmt(alter) => alter_tag(alter.object_type()),
        N::IndexStmt(_) => "CREATE INDEX",
        N::ViewStmt(_) => "CREATE VIEW",
        N::RenameStmt(rename) => alter_tag(match rename.rename_type() {
            ObjectType::ObjectColumn | ObjectType::ObjectTabconstraint => rename.relation_type(),
            other => other,
        }),
        N::DropStmt(drop) => drop_tag(drop.remove_type()),
        N::TruncateStmt(_) => "TRUNCATE TABLE",
        N::CommentStmt(_) => "COMMENT",
        N::GrantStmt(grant) if grant.is_grant => "GRANT",
        N::GrantStmt(_) => "REVOKE",
        _ => return None,
    })
}

fn alter_tag(object: ObjectType) -> &'static str {
    match object {
        ObjectType::ObjectView => "ALTER VIEW",
        ObjectType::ObjectMatview => "ALTER MATERIALIZED VIEW",
        ObjectType::ObjectIndex => "ALTER INDEX",
        ObjectType::ObjectSequence => "ALTER SEQUENCE",
        ObjectType::ObjectType => "ALTER TYPE",
        ObjectType::ObjectDomain => "ALTER DOMAIN",
        ObjectType::ObjectFunction => "ALTER FUNCTION",
        ObjectType::ObjectProcedure => "ALTER PROCEDURE",
        ObjectType::ObjectRoutine => "ALTER ROUTINE",
        ObjectType::ObjectSchema => "ALTER SCHEMA",
        ObjectType::ObjectTrigger => "ALTER TRIGGER",
        _ => "ALTER TABLE",
    }
}

fn drop_tag(object: ObjectType) -> &'static str {
    match object {
        ObjectType::ObjectView => "DROP VIEW",
        ObjectType::ObjectMatview => "DROP MATERIALIZED VIEW",
        ObjectType::ObjectIndex => "DROP INDEX",
        ObjectType::ObjectSequence => "DROP SEQUENCE",
        ObjectType::ObjectType => "DROP TYPE",
        ObjectType::ObjectDomain => "DROP DOMAIN",
        ObjectType::ObjectFunction => "DROP FUNCTION",
        ObjectType::ObjectProcedure => "DROP PROCEDURE",
        ObjectType::ObjectRoutine => "DROP ROUTINE",
        ObjectType::ObjectSchema => "DROP SCHEMA",
        ObjectType::ObjectTrigger => "DROP TRIGGER",
        ObjectType::ObjectExtension => "DROP EXTENSION",
        _ => "DROP TABLE",
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
    fn signals_are_told_apart_from_their_query() {
        let signal = |column, kind, is_unnamed| Signal { column, kind, is_unnamed };
        check(
            "SELECT pg_cancel_backend(7)",
            &[Command::Signal {
                signals: vec![signal(0, SignalKind::Cancel, true)],
                query: "SELECT                  (7)".into(),
            }],
        );
        check(
            "SELECT 1; SELECT pid, pg_catalog.pg_terminate_backend (pid) AS ended FROM pg_stat_activity",
            &[
                Command::Run,
                Command::Signal {
                    signals: vec![signal(1, SignalKind::Terminate, false)],
                    query: "SELECT pid,                                 (pid) AS ended FROM pg_stat_activity"
                        .into(),
                },
            ],
        );
        check("SELECT *, pg_cancel_backend(pid) FROM pg_stat_activity", &[Command::Run]);
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
            "DISCARD ALL; DISCARD SEQUENCES; DISCARD PLANS; DEALLOCATE p; DEALLOCATE ALL",
            &[
                Command::Discard { all: true, sequences: true },
                Command::Discard { all: false, sequences: true },
                Command::Discard { all: false, sequences: false },
                Command::Deallocate(Some("p".into())),
                Command::Deallocate(None),
            ],
        );
    }

    #[test]
    fn prepared_statements_and_cursors() {
        let one = |text: &str| {
            let said = statements(text).unwrap().remove(0);
            let of = |span: Span| text[span.start as usize..span.end as usize].to_owned();
            match said.what {
                Command::Prepare { name, types, body } => format!("{name} {types:?} {}", of(body)),
                Command::Execute { name, arguments } => format!("{name} {}", of(arguments)),
                Command::Declare { name, scroll, hold, binary, query } => {
                    format!("{name} {scroll:?} {hold} {binary} {}", of(query))
                }
                other => format!("{other:?}"),
            }
        };
        let check = |text: &str, expected: &str| assert_eq!(one(text), expected, "{text}");
        check("PREPARE p AS SELECT $1 as a", "p [] SELECT $1 as a");
        check(
            "prepare \"P\" (int, unknown, numeric(5,2)) as /* the */ VALUES (1)",
            "P [Int4, Unknown, Numeric(Some((5, 2)))] VALUES (1)",
        );
        check("EXECUTE p", "p ");
        check("EXECUTE p (1, f(2), ')')", "p 1, f(2), ')'");
        check("DECLARE c CURSOR FOR SELECT 1 FOR UPDATE", "c None false false SELECT 1 FOR UPDATE");
        check("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1", "c Some(false) true false SELECT 1");
        check("DECLARE c BINARY SCROLL CURSOR FOR SELECT 1", "c Some(true) false true SELECT 1");
        let fetch = |way: Way, moves: bool| Command::Fetch { name: "c".to_owned(), way, moves };
        check_fetch("FETCH c", fetch(Way::By(1), false));
        check_fetch("FETCH 5 FROM c", fetch(Way::By(5), false));
        check_fetch("FETCH ALL IN c", fetch(Way::By(i64::MAX), false));
        check_fetch("FETCH BACKWARD 2 FROM c", fetch(Way::By(-2), false));
        check_fetch("FETCH PRIOR FROM c", fetch(Way::By(-1), false));
        check_fetch("FETCH FIRST FROM c", fetch(Way::To(1), false));
        check_fetch("FETCH LAST FROM c", fetch(Way::To(-1), false));
        check_fetch("MOVE RELATIVE -3 FROM c", fetch(Way::Over(-3), true));
        check("CLOSE c", "CloseCursor(Some(\"c\"))");
        check("CLOSE ALL", "CloseCursor(None)");
    }

    fn check_fetch(text: &str, expected: Command) {
        check(text, &[expected]);
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
            &["CREATE TABLE", "DROP VIEW", "TRUNCATE TABLE", "COMMENT"].map(Command::Define),
        );
        check(
            "COPY t (a, \"B\") FROM STDIN (FORMAT csv, FORCE_NULL (a), HEADER, DELIMITER ';'); VACUUM t; ANALYZE; CHECKPOINT",
            &[
                Command::Copy(Copy {
                    what: Copied::Table { name: "t".into(), columns: vec!["a".into(), "B".into()] },
                    is_from: true,
                    options: vec![
                        ("format".into(), CopyOption::Text("csv".into())),
                        ("force_null".into(), CopyOption::Names(vec!["a".into()])),
                        ("header".into(), CopyOption::Bare),
                        ("delimiter".into(), CopyOption::Text(";".into())),
                    ],
                }),
                Command::Nothing("VACUUM"),
                Command::Nothing("ANALYZE"),
                Command::Nothing("CHECKPOINT"),
            ],
        );
        check(
            "LISTEN x; LOCK TABLE t; LOCK a, s.b IN SHARE ROW EXCLUSIVE MODE NOWAIT",
            &[
                Command::Unsupported("LISTEN X".into()),
                Command::Lock(Lock {
                    tables: vec!["t".into()],
                    mode: LockMode::AccessExclusive,
                    nowait: false,
                }),
                Command::Lock(Lock {
                    tables: vec!["a".into(), "s.b".into()],
                    mode: LockMode::Exclusive,
                    nowait: true,
                }),
            ],
        );
        let Command::CreateAs(create) = statements("select a into table s.t from x").unwrap().remove(0).what
        else {
            panic!("it makes a table")
        };
        assert_eq!(create.instead.as_deref(), Some("select a                from x"));
        check("SELECT 1 INTO TEMP t", &[Command::Run]);
        check(
            "create assertion a check (1 < 2); select 1; DROP ASSERTION a",
            &[Command::Define("CREATE ASSERTION"), Command::Run, Command::Define("DROP ASSERTION")],
        );
        let said = statements("/* before */ select 'é' ; commit ").unwrap();
        let places: Vec<(u32, u32)> = said.iter().map(|one| (one.span.start, one.span.end)).collect();
        assert_eq!(places, [(13, 24), (27, 33)]);
        assert_eq!(statements("selec 1").unwrap_err().state, SqlState::SYNTAX_ERROR);
    }
}
