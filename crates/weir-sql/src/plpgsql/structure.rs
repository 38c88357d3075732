//! The structure of a PL/pgSQL body: blocks, declarations and statements.
//!
//! Embedded SQL and expressions are places in the source file, not yet parsed: [`super::bind`] hands
//! them to PostgreSQL's grammar, blanking what PL/pgSQL takes for itself (INTO clauses), so that every
//! place found inside them is a place in the file.

use crate::source::{Diagnostic, Span};

/// A name as written, folded to lower case unless it was quoted. `$1` is a name too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// `a`, `a.b` or `a.b.c`; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub names: Vec<Name>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub label: Option<Name>,
    pub declarations: Vec<Declaration>,
    pub body: Vec<Statement>,
    /// Handlers of EXCEPTION; only in analysed texts, and in DO.
    pub handlers: Vec<Handler>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Handler {
    /// The conditions between WHEN and THEN.
    pub when: Span,
    pub body: Vec<Statement>,
}

#[derive(Clone, Debug)]
pub struct Declaration {
    pub name: Name,
    pub kind: DeclarationKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum DeclarationKind {
    Variable {
        constant: bool,
        ty: DeclaredType,
        not_null: bool,
        default: Option<Span>,
    },
    /// `name ALIAS FOR other`.
    Alias(Path),
    /// A cursor, in what is only analysed.
    Refused(Box<Diagnostic>),
}

#[derive(Clone, Debug)]
pub enum DeclaredType {
    /// A type's name (or a table's), for the grammar to parse.
    Named(Span),
    /// `table.column%TYPE` or `variable%TYPE`, perhaps with `[]`.
    SameAs {
        path: Path,
        array: bool,
    },
    /// `table%ROWTYPE`.
    RowOf(Path),
    Record(Span),
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub kind: StatementKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StatementKind {
    Block(Block),
    Assign {
        target: Path,
        /// `[i]`: the place between the brackets.
        index: Option<Span>,
        value: Span,
    },
    /// Any SQL statement; the INTO clause is not part of it.
    Sql {
        into: Option<IntoClause>,
    },
    /// Query of PERFORM; the statement's span includes the keyword.
    Perform,
    Call,
    If {
        branches: Vec<(Span, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        subject: Option<Span>,
        /// With a subject the condition is a list of expressions.
        branches: Vec<(Span, Vec<Statement>)>,
        /// Without ELSE, no match is an error (20000).
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        kind: LoopKind,
        label: Option<Name>,
        body: Vec<Statement>,
    },
    /// EXIT, or CONTINUE.
    Leave {
        resume: bool,
        label: Option<Name>,
        when: Option<Span>,
    },
    Raise(RaiseStatement),
    Return {
        value: Option<Span>,
    },
    ReturnNext {
        value: Option<Span>,
    },
    ReturnQuery {
        query: Span,
    },
    /// `GET DIAGNOSTICS a = ROW_COUNT, …`.
    GetRowCount {
        targets: Vec<Path>,
    },
    Assert {
        condition: Span,
        message: Option<Span>,
    },
    /// A statement that Weir does not have, in what is only analysed.
    Refused(Box<Diagnostic>),
    Null,
}

#[derive(Clone, Debug)]
pub struct IntoClause {
    pub strict: bool,
    pub targets: Vec<Path>,
    /// From INTO to the end of the last target.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum LoopKind {
    /// Over what Weir does not have, in what is only analysed.
    Refused(Box<Diagnostic>),
    Forever,
    While(Span),
    Range {
        variable: Name,
        from: Span,
        to: Span,
        by: Option<Span>,
        reverse: bool,
    },
    Query {
        targets: Vec<Path>,
        query: Span,
    },
    Array {
        target: Path,
        array: Span,
    },
}

#[derive(Clone, Debug)]
pub struct RaiseStatement {
    pub level: crate::bound::RaiseLevel,
    pub what: RaiseWhat,
    pub args: Vec<Span>,
    pub options: Vec<(RaiseOption, Span)>,
}

#[derive(Clone, Debug)]
pub enum RaiseWhat {
    /// The decoded format string and its place.
    Format(String, Span),
    Condition(Name),
    SqlState(String, Span),
    /// Only options.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOption {
    ErrCode,
    Message,
    Detail,
    Hint,
}

impl Path {
    /// As written, quotes aside.
    pub fn dotted(&self) -> String {
        self.names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(".")
    }
}
