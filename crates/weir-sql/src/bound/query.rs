//! Bound queries: what they read, join, lock and give.

use serde::{Deserialize, Serialize};
use weir_types::{CatalogType, SqlType};

use super::{Expr, ExprKind, RelationId, SortOrder};
use crate::catalog::TableId;
use crate::source::Span;
use crate::walk;

#[derive(Clone, Debug)]
pub struct Query {
    pub ctes: Vec<Cte>,
    pub body: QueryBody,
    /// Over the body's outputs, hidden ones included.
    pub order_by: Vec<OrderBy>,
    pub limit: Option<Expr>,
    pub offset: Option<Expr>,
    /// `FETCH FIRST … WITH TIES`: whatever sorts like the last row comes, too.
    pub with_ties: bool,
    /// `FOR UPDATE` and weaker: whose rows are held.
    pub locks: Vec<RowLock>,
    /// Result columns of the query. The body may have further, hidden outputs after them, for ORDER BY.
    pub columns: Vec<OutputColumn>,
    pub span: Span,
}

/// The rows of one table in FROM are held until the transaction ends, as if they were written.
#[derive(Clone, Copy, Debug)]
pub struct RowLock {
    pub relation: RelationId,
    pub table: TableId,
    pub strength: LockStrength,
    pub wait: LockWait,
}

/// PostgreSQL's row-level lock modes, the weakest first. Of several clauses the strongest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockStrength {
    /// The row and its keys stay. Checks of foreign keys hold their parents so.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// An UPDATE that leaves the row's keys as they are.
    NoKeyUpdate,
    /// A DELETE, or an UPDATE of a key.
    Update,
}

impl LockStrength {
    /// Two transactions cannot hold a row so at a time.
    pub fn conflicts_with(self, other: LockStrength) -> bool {
        use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
        match (self.min(other), self.max(other)) {
            (_, Update) => true,
            (KeyShare, _) => false,
            (Share, other) => other == NoKeyUpdate,
            (NoKeyUpdate, _) => true,
            (Update, _) => unreachable!("the greater one is Update, too"),
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        }
    }
}

/// Action on a row locked by another transaction. If several clauses apply to a row, the greatest in this order wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockWait {
    Block,
    /// `SKIP LOCKED`.
    Skip,
    /// `NOWAIT`.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    pub name: String,
    pub ty: SqlType,
    /// Type reported to clients instead of `ty`, for a column of the system catalog.
    pub catalog: Option<CatalogType>,
}

impl OutputColumn {
    pub fn new(name: String, ty: SqlType) -> OutputColumn {
        OutputColumn { name, ty, catalog: None }
    }

    pub fn told_as(self, catalog: Option<CatalogType>) -> OutputColumn {
        OutputColumn { catalog, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct OrderBy {
    /// Index of one of the body's outputs.
    pub output: usize,
    pub order: SortOrder,
}

/// `WITH name AS (…)`, referred to by [`FromItem::Cte`] by its position.
#[derive(Clone, Debug)]
pub struct Cte {
    pub name: String,
    pub query: Query,
    /// The query is a UNION whose right side refers to the CTE itself: to the rows that came last.
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub enum QueryBody {
    Select(Box<Select>),
    SetOperation { op: SetOperator, all: bool, left: Box<Query>, right: Box<Query> },
    Values(Vec<Vec<Expr>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub struct Select {
    pub distinct: Distinct,
    pub outputs: Vec<Expr>,
    /// Comma-separated items; none for `SELECT 1`.
    pub from: Vec<FromItem>,
    pub filter: Option<Expr>,
    pub group_by: Vec<Expr>,
    pub having: Option<Expr>,
    /// There is a GROUP BY, a HAVING or an aggregate in the outputs.
    pub aggregates: bool,
}

impl Select {
    /// `SELECT outputs FROM from WHERE filter`.
    pub fn plain(outputs: Vec<Expr>, from: Vec<FromItem>, filter: Option<Expr>) -> Select {
        Select {
            distinct: Distinct::All,
            outputs,
            from,
            filter,
            group_by: Vec::new(),
            having: None,
            aggregates: false,
        }
    }
}

impl Query {
    /// That SELECT and nothing else.
    pub fn of_select(select: Select, columns: Vec<OutputColumn>, span: Span) -> Query {
        Query {
            ctes: Vec::new(),
            body: QueryBody::Select(Box::new(select)),
            order_by: Vec::new(),
            limit: None,
            offset: None,
            with_ties: false,
            locks: Vec::new(),
            columns,
            span,
        }
    }

    /// It gives values of sequences, which it does not give again.
    pub fn takes_values(&self) -> bool {
        let mut takes = false;
        walk::each_expr_of_query(self, &mut |expr| takes |= matches!(expr.kind, ExprKind::NextValue(_)));
        takes
    }

    /// Returns whether it has effects in addition to its rows.
    pub fn has_effects(&self) -> bool {
        self.takes_values() || !self.held_tables().is_empty()
    }

    /// The tables whose rows it holds, or a query within it.
    pub fn held_tables(&self) -> Vec<TableId> {
        let mut held = Vec::new();
        walk::each_part(walk::Part::Query(self), &mut |part| {
            if let walk::Part::Query(query) = part {
                held.extend(query.locks.iter().map(|lock| lock.table));
            }
        });
        held
    }
}

#[derive(Clone, Debug)]
pub enum Distinct {
    All,
    Rows,
    /// `DISTINCT ON`: indexes of outputs.
    On(Vec<usize>),
}

#[derive(Clone, Debug)]
pub enum FromItem {
    Table {
        relation: RelationId,
        table: TableId,
        alias: String,
        span: Span,
    },
    /// A derived table or a view.
    Subquery {
        relation: RelationId,
        query: Box<Query>,
        lateral: bool,
    },
    /// A CTE of this query or of one around it, by its level outwards (0 is this query) and position.
    Cte {
        relation: RelationId,
        level: usize,
        index: usize,
    },
    Function {
        relation: RelationId,
        /// Side by side, as `ROWS FROM` has them: those that have given all theirs give NULL.
        calls: Vec<TableCall>,
        with_ordinality: bool,
        columns: Vec<OutputColumn>,
    },
    Values {
        relation: RelationId,
        rows: Vec<Vec<Expr>>,
        columns: Vec<OutputColumn>,
    },
    /// USING and NATURAL have become ON; their merged columns are the left side's (or `coalesce`).
    Join {
        kind: JoinKind,
        left: Box<FromItem>,
        right: Box<FromItem>,
        on: Option<Expr>,
    },
}

/// One function in FROM.
#[derive(Clone, Debug)]
pub struct TableCall {
    pub function: TableFunction,
    pub args: Vec<Expr>,
    /// Number of columns that it gives.
    pub width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFunction {
    GenerateSeries,
    Unnest,
    /// The argument is the result of an ordinary function, which forms one row.
    Scalar,
    GenerateSubscripts,
    JsonbArrayElements,
    JsonbArrayElementsText,
    JsonbEach,
    JsonbEachText,
    JsonbObjectKeys,
    RegexpMatches,
    RegexpSplitToTable,
    StringToTable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}
