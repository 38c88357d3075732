//! Bound procedures: parameters, variables and the steps of a body.

use weir_types::{Severity, SqlState, SqlType};

use super::{Expr, Query, Statement, VariableId};
use crate::catalog::{SequenceId, TableId};
use crate::source::Span;

#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    pub kind: ProcedureKind,
    /// In declaration order; each is a variable too.
    pub parameters: Vec<Parameter>,
    /// Parameters first, then everything that is declared or implied, inner blocks included.
    pub variables: Vec<Variable>,
    /// The `FOUND` variable.
    pub found: VariableId,
    pub body: Vec<Step>,
    /// `SET default_transaction_isolation = 'serializable'` on the procedure.
    pub serializable: bool,
    /// Generated, to stand for what any application does with a table.
    pub synthesised: bool,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ProcedureKind {
    Procedure,
    /// `Void` and OUT-parameter functions included.
    Function {
        returns: SqlType,
    },
    SetReturningFunction {
        columns: Vec<(String, SqlType)>,
    },
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub ty: SqlType,
    pub mode: ParameterMode,
    pub default: Option<Expr>,
    pub variable: VariableId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    In,
    Out,
    InOut,
}

/// A RECORD or %ROWTYPE variable has become one variable per field, named `r.field`.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub ty: SqlType,
    /// DECLARE … NOT NULL: assigning NULL is 22004.
    pub not_null: bool,
    pub constant: bool,
}

/// One PL/pgSQL statement.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: StepKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StepKind {
    /// Already cast to the variable's type. DECLARE's initial values are such steps at the block's start.
    Assign {
        variable: VariableId,
        value: Expr,
    },
    /// `a[i] := value`.
    AssignElement {
        variable: VariableId,
        index: Expr,
        value: Expr,
    },
    /// SELECT … INTO, PERFORM (a query without `into`), and DML.
    Sql {
        statement: Box<Statement>,
        into: Option<Into>,
    },
    If {
        branches: Vec<(Expr, Vec<Step>)>,
        otherwise: Vec<Step>,
    },
    /// Bounds are of type integer; the variable is implicit.
    ForRange {
        variable: VariableId,
        from: Expr,
        to: Expr,
        by: Option<Expr>,
        reverse: bool,
        label: LoopLabel,
        body: Vec<Step>,
    },
    ForQuery {
        targets: Vec<IntoTarget>,
        query: Box<Query>,
        label: LoopLabel,
        body: Vec<Step>,
    },
    ForEach {
        variable: VariableId,
        array: Expr,
        label: LoopLabel,
        body: Vec<Step>,
    },
    While {
        condition: Expr,
        label: LoopLabel,
        body: Vec<Step>,
    },
    Loop {
        label: LoopLabel,
        body: Vec<Step>,
    },
    /// A labelled or plain BEGIN … END block, without its declarations.
    Block {
        label: LoopLabel,
        body: Vec<Step>,
    },
    /// Leaves the loop or block with that label.
    Exit {
        label: LoopLabel,
        when: Option<Expr>,
    },
    Continue {
        label: LoopLabel,
        when: Option<Expr>,
    },
    Raise(Raise),
    /// Ends a procedure, or a function whose result (if any) is in `value`.
    Return {
        value: Option<Expr>,
    },
    ReturnNext {
        values: Vec<Expr>,
    },
    ReturnQuery {
        query: Box<Query>,
    },
    /// `GET DIAGNOSTICS variable = ROW_COUNT`.
    GetRowCount {
        variable: VariableId,
    },
    /// CALL of another procedure; OUT arguments are assigned to the targets.
    Call {
        procedure: usize,
        args: Vec<Expr>,
        targets: Vec<IntoTarget>,
    },
    Assert {
        condition: Expr,
        message: Option<Expr>,
    },
    Null,
    /// A statement that could not be bound; only in an application that is analysed, never in one that runs.
    Opaque(OpaqueStep),
}

/// Possible effects of a statement that is not understood: everything that its text may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpaqueStep {
    /// Tables whose every row and column it may read.
    pub reads: Vec<TableId>,
    /// Tables in which it may insert, update and delete anything.
    pub writes: Vec<TableId>,
    /// Variables that may have any value behind it.
    pub assigns: Vec<VariableId>,
    /// It may end the procedure, or leave the loop around it.
    pub leaves: bool,
    /// Unknown names that it writes to: their dependents are unknown.
    pub unseen: Vec<String>,
    /// Sequences that it may set, so that they may repeat a number.
    pub resets: Vec<SequenceId>,
}

/// Unique within the procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopLabel(pub u32);

#[derive(Clone, Debug)]
pub struct Into {
    pub targets: Vec<IntoTarget>,
    pub strict: bool,
}

/// The i-th output goes to the i-th target, cast to the variable's type (an assignment cast).
#[derive(Clone, Debug)]
pub struct IntoTarget {
    pub variable: VariableId,
}

#[derive(Clone, Debug)]
pub struct Raise {
    /// Only `Exception` ends the transaction.
    pub level: RaiseLevel,
    /// The format with its `%`, and the arguments cast to text.
    pub format: String,
    pub args: Vec<Expr>,
    pub state: SqlState,
    pub message: Option<Expr>,
    pub detail: Option<Expr>,
    pub hint: Option<Expr>,
}

impl Raise {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(&self.message).chain(&self.detail).chain(&self.hint)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

impl RaiseLevel {
    /// None: what it raises is an error.
    pub fn severity(self) -> Option<Severity> {
        match self {
            RaiseLevel::Debug => Some(Severity::Debug),
            RaiseLevel::Log => Some(Severity::Log),
            RaiseLevel::Info => Some(Severity::Info),
            RaiseLevel::Notice => Some(Severity::Notice),
            RaiseLevel::Warning => Some(Severity::Warning),
            RaiseLevel::Exception => None,
        }
    }
}
