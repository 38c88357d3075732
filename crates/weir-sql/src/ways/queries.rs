//! Statements that an application keeps outside of the database, as procedures.
//!
//! A comment begins each: `-- name: GetAuthor :one` (sqlc; also without the annotation) or
//! `-- transaction: transfer(from, to bigint, amount)`, perhaps followed by `serializable`. What stands up to
//! the next such comment is one procedure. Its parameters are `$1`, `:name`, `@name` or `sqlc.arg(name)`,
//! with the types that the statements give them. Each becomes `$n`, padded with blanks, so that every place
//! in the file stays what it was.

use pg_query::protobuf::{Node, TransactionStmt, TransactionStmtKind, node};
use weir_types::{SqlState, SqlType};

use crate::binder::{Binder, Context};
use crate::bound::{
    IntoTarget, Parameter, ParameterMode, Procedure, ProcedureKind, Step, StepKind, Variable, VariableId,
};
use crate::ddl::constant;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::parse::{self, Piece};
use crate::plpgsql::Surroundings;
use crate::routine;
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// One query or transaction of a file.
#[derive(Debug)]
pub(crate) struct Block {
    pub name: String,
    /// Position of the comment that begins it.
    pub span: Span,
    /// Its statements.
    pub body: Span,
    /// Parameters, and what is known of their types.
    pub declared: Vec<(String, DeclaredType)>,
    pub serializable: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum DeclaredType {
    /// The statements are to tell.
    Inferred,
    Known(SqlType),
    /// The place of a type's name in the file.
    Named(Span),
}

/// The blocks of a file, and the text before them, with blanks in the place of the blocks.
pub(crate) fn split(file: u32, text: &str) -> Result<Option<(String, Vec<Block>)>, Diagnostic> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(block) = heading(Piece::new(file, 0, text), start, line)? else { continue };
        if let Some(last) = blocks.last_mut() {
            last.body.end = start as u32;
        }
        blocks.push(block);
    }
    let Some(first) = blocks.first() else { return Ok(None) };
    let mut schema = text.to_owned();
    crate::assertion::blank(&mut schema, first.span.start as usize, text.len());
    Ok(Some((schema, blocks)))
}

/// The block that a line begins, with all of the text behind it as its body.
fn heading(piece: Piece<'_>, start: usize, line: &str) -> Result<Option<Block>, Diagnostic> {
    let trimmed = line.trim();
    let Some(comment) = trimmed.strip_prefix("--").or_else(|| trimmed.strip_prefix("/*")) else {
        return Ok(None);
    };
    let comment = comment.trim_end_matches("*/").trim();
    let place = start + line.find(comment).unwrap_or(0);
    let (transaction, rest) = match (comment.strip_prefix("transaction:"), comment.strip_prefix("name:")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Ok(None),
    };
    let rest_at = place + comment.len() - rest.len();
    let begin = rest.len() - rest.trim_start().len();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let length = rest[begin..].find(|c| !is_name(c)).unwrap_or(rest.len() - begin);
    let span = piece.range(start, start + line.trim_end().len());
    if length == 0 {
        return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, span, "the name of the transaction is missing")
            .with_hint("-- transaction: transfer(from, to, amount)"));
    }
    let name = rest[begin..begin + length].to_owned();
    let tail = &rest[begin + length..];
    let tail_at = rest_at + begin + length;
    let (declared, after) = match (transaction, tail.find('('), tail.rfind(')')) {
        (true, Some(open), Some(close)) if open < close => {
            let inner = Piece::new(piece.file, (tail_at + open + 1) as u32, &tail[open + 1..close]);
            (parameters(inner), &tail[close + 1..])
        }
        _ => (Vec::new(), tail),
    };
    let serializable =
        transaction && after.split_whitespace().any(|word| word.eq_ignore_ascii_case("serializable"));
    let body = piece.range(start + line.len(), piece.text.len());
    Ok(Some(Block { name, span, body, declared, serializable }))
}

/// `from, to bigint, amount numeric(12,2)`.
fn parameters(piece: Piece<'_>) -> Vec<(String, DeclaredType)> {
    let mut declared = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    let text = piece.text;
    let ends = text.char_indices().filter(|&(_, c)| {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    });
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([text.len()]).collect();
    for end in ends {
        let written = text[start..end].trim();
        let at = start + text[start..end].find(written).unwrap_or(0);
        start = end + 1;
        if written.is_empty() {
            continue;
        }
        let bare = written.trim_start_matches([':', '@', '$']);
        let (name, ty) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
        let ty = match ty.trim() {
            "" => DeclaredType::Inferred,
            ty => {
                let end = at + written.len();
                DeclaredType::Named(piece.range(end - ty.len(), end))
            }
        };
        declared.push((name.to_owned(), ty));
    }
    declared
}

fn declared_type(context: &Context<'_>, piece: Piece<'_>) -> Result<SqlType, Diagnostic> {
    let prefix = "NULL::";
    let cast = format!("{prefix}{}", piece.text);
    let moved = Piece::new(piece.file, piece.offset.saturating_sub(prefix.len() as u32), &cast);
    let parsed = parse::parse_expression(moved)?;
    let missing = || Diagnostic::new(SqlState::SYNTAX_ERROR, piece.span(), "a type is missing here");
    let name = crate::plpgsql::cast_type(&parsed).ok_or_else(missing)?;
    type_name::resolve_in(context, moved, name).map(type_name::unmodified)
}

/// The text with `$n` for every parameter, and what they are called.
fn numbered(piece: Piece<'_>, block: &Block) -> Result<(String, Vec<String>), Diagnostic> {
    let text = piece.text;
    let tokens: Vec<Token> = Lexer::new(text, 0).collect();
    let mut names: Vec<String> = block.declared.iter().map(|(name, _)| name.clone()).collect();
    let mut out = text.to_owned();
    let mut brackets = 0usize;
    let mut i = 0;
    while i < tokens.len() {
        let token = tokens[i];
        if token.is(b'[') {
            brackets += 1;
        } else if token.is(b']') {
            brackets = brackets.saturating_sub(1);
        }
        if token.kind == TokenKind::Parameter {
            let number: usize = text[token.start + 1..token.end].parse().unwrap_or(0);
            while names.len() < number.min(1000) {
                names.push(format!("p{}", names.len() + 1));
            }
        }
        let Some((start, end, name, used)) = named(text, &tokens[i..], brackets) else {
            i += 1;
            continue;
        };
        i += used;
        if let Some(columns) = name.strip_prefix("embed ") {
            replace(&mut out, piece, start, end, &format!("{columns}.*"))?;
            continue;
        }
        let number = match names.iter().position(|other| *other == name) {
            Some(known) => known + 1,
            None if !block.declared.is_empty() => {
                let message = format!("{} has no parameter {name}", block.name);
                let hint = format!("its parameters are {}", names.join(", "));
                return Err(Diagnostic::new(SqlState::UNDEFINED_PARAMETER, piece.range(start, end), message)
                    .with_hint(hint));
            }
            None => {
                names.push(name);
                names.len()
            }
        };
        replace(&mut out, piece, start, end, &format!("${number}"))?;
    }
    Ok((out, names))
}

/// A parameter by name at the first of these tokens: its bytes, its name, and how many tokens it takes.
fn named(text: &str, tokens: &[Token], brackets: usize) -> Option<(usize, usize, String, usize)> {
    let token = tokens.first()?;
    let written = &text[token.start..token.end];
    let next = tokens.get(1);
    if let (TokenKind::Operator, Some(word)) = (token.kind, next.filter(|next| next.kind == TokenKind::Word))
    {
        let adjacent = word.start == token.end;
        let colon = written.ends_with(':') && !written.ends_with("::") && brackets == 0;
        let at = matches!(written, "@" | "=@");
        if adjacent && (colon || at) {
            return Some((token.end - 1, word.end, text[word.start..word.end].to_owned(), 2));
        }
    }
    // sqlc.arg(name), sqlc.arg('name')
    let word = |ahead: usize, word: &str| tokens.get(ahead).is_some_and(|token| token.is_word(text, word));
    if word(0, "sqlc") && tokens.get(1)?.is(b'.') && tokens.get(3)?.is(b'(') && tokens.get(5)?.is(b')') {
        let name = text[tokens[4].start..tokens[4].end].trim_matches('\'').to_owned();
        let name = match word(2, "embed") {
            true => format!("embed {name}"),
            false => name,
        };
        return Some((token.start, tokens[5].end, name, 6));
    }
    None
}

fn replace(
    out: &mut String,
    piece: Piece<'_>,
    start: usize,
    end: usize,
    with: &str,
) -> Result<(), Diagnostic> {
    if with.len() > end - start {
        return Err(Diagnostic::unsupported(
            piece.range(start, end),
            "so short a name among so many parameters",
            "give the parameter a longer name",
        ));
    }
    out.replace_range(start..end, &format!("{with:width$}", width = end - start));
    Ok(())
}

/// Binds a block; what cannot be bound of it becomes steps that may do whatever they mention.
pub(crate) fn bind(
    surroundings: Surroundings<'_>,
    source: Piece<'_>,
    block: &Block,
) -> Result<Procedure, Diagnostic> {
    let written = Piece::new(block.body.file, block.body.start, source.text_of(block.body));
    let (text, names) = numbered(written, block)?;
    let piece = Piece::new(written.file, written.offset, &text);
    let mut types = Vec::new();
    for (_, ty) in &block.declared {
        types.push(match ty {
            DeclaredType::Inferred => SqlType::Unknown,
            DeclaredType::Known(ty) => ty.clone(),
            DeclaredType::Named(span) => {
                let written = Piece::new(span.file, span.start, source.text_of(*span));
                declared_type(&surroundings.context(), written)?
            }
        });
    }
    types.resize(names.len(), SqlType::Unknown);
    let statements = parse::parse_statements(piece)?;
    // Twice: what a later statement says of a parameter holds for the earlier ones.
    let mut body = Body {
        surroundings,
        piece,
        types,
        steps: Vec::new(),
        hidden: Vec::new(),
        serializable: block.serializable,
    };
    for last in [false, true] {
        body.steps.clear();
        body.hidden.clear();
        for statement in &statements {
            body.statement(&statement.node, statement.span, last)?;
        }
    }
    if surroundings.notes.is_some() {
        body.types.iter_mut().filter(|ty| **ty == SqlType::Unknown).for_each(|ty| *ty = SqlType::Text);
    }
    if let Some(index) = body.types.iter().position(|ty| *ty == SqlType::Unknown) {
        let message = format!("could not determine data type of parameter {}", names[index]);
        return Err(Diagnostic::new(SqlState::INDETERMINATE_DATATYPE, block.span, message)
            .with_hint(format!("cast it, or declare it: {} bigint", names[index])));
    }
    Ok(body.procedure(block, names))
}

struct Body<'a> {
    surroundings: Surroundings<'a>,
    piece: Piece<'a>,
    /// Types of `$1`, `$2`, …
    types: Vec<SqlType>,
    steps: Vec<Step>,
    /// Variables after the parameters, for the OUT arguments of calls, whose values are not used.
    hidden: Vec<SqlType>,
    serializable: bool,
}

impl Body<'_> {
    fn statement(&mut self, statement: &node::Node, span: Span, last: bool) -> Result<(), Diagnostic> {
        if let node::Node::TransactionStmt(transaction) = statement {
            self.serializable |= asks_serializable(transaction);
            return Ok(());
        }
        let notes = self.surroundings.notes.filter(|_| last);
        let context = Context { infer_parameters: true, ..self.surroundings.context() };
        let mut binder = Binder::new(&context, self.piece).with_parameters(&self.types);
        let bound = match statement {
            node::Node::CallStmt(call) => match &call.funccall {
                Some(call) => routine::bind_call(&mut binder, call).map(|call| self.call(call)),
                None => return Ok(()),
            },
            other => binder
                .bind_statement(other)
                .map(|statement| StepKind::Sql { statement: Box::new(statement), into: None })
                .or_else(|error| self.function_call(&mut binder, other).ok_or(error)),
        };
        // If a statement is refused as a whole, the binder reports its position in this text only.
        let head = self.piece.token((span.start - self.piece.offset) as i32);
        let bound = bound.map_err(|error| match error.span == self.piece.token(0) {
            true => Diagnostic { span: head, ..error },
            false => error,
        });
        match (bound, self.surroundings.mentions) {
            (Ok(kind), _) => {
                self.types = binder.parameters().to_vec();
                self.steps.push(Step { kind, span });
                Ok(())
            }
            (Err(_), Some(_)) if !last => Ok(()),
            (Err(error), Some(mentions)) => {
                if let Some(notes) = notes {
                    notes.leave_out(error);
                }
                let step = mentions.of(self.piece.text_of(span));
                self.steps.push(Step { kind: StepKind::Opaque(step), span });
                Ok(())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// `SELECT f(…)`, in a tolerant reading: the function is followed.
    fn function_call<'n>(&self, binder: &mut Binder<'n>, statement: &'n node::Node) -> Option<StepKind> {
        self.surroundings.notes?;
        let call = routine::bind_call(binder, routine::only_call(statement)?).ok()?;
        Some(StepKind::Call { procedure: call.procedure, args: call.args, targets: Vec::new() })
    }

    fn call(&mut self, call: routine::BoundCall) -> StepKind {
        let signature = &self.surroundings.signatures[call.procedure];
        let mut targets = Vec::new();
        for parameter in signature.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::In) {
            // Behind the parameters, which may still become more while the statements are read.
            targets.push(IntoTarget { variable: VariableId(HIDDEN + self.hidden.len() as u32) });
            self.hidden.push(parameter.ty.clone());
        }
        StepKind::Call { procedure: call.procedure, args: call.args, targets }
    }

    fn procedure(mut self, block: &Block, names: Vec<String>) -> Procedure {
        let variable = |name: &str, ty: &SqlType| Variable {
            name: name.to_owned(),
            ty: ty.clone(),
            not_null: false,
            constant: false,
        };
        self.types.resize(names.len(), SqlType::Text);
        let mut variables: Vec<Variable> =
            names.iter().zip(&self.types).map(|(name, ty)| variable(name, ty)).collect();
        let count = variables.len() as u32;
        variables.extend(self.hidden.iter().map(|ty| variable("out~", ty)));
        variables.push(variable("found", &SqlType::Bool));
        let found = VariableId(variables.len() as u32 - 1);
        for step in &mut self.steps {
            if let StepKind::Call { targets, .. } = &mut step.kind {
                for target in targets {
                    target.variable.0 = target.variable.0 - HIDDEN + count;
                }
            }
        }
        let parameter = |(index, (name, ty)): (usize, (String, SqlType))| Parameter {
            name,
            ty,
            mode: ParameterMode::In,
            default: None,
            variable: VariableId(index as u32),
        };
        Procedure {
            name: block.name.clone(),
            kind: ProcedureKind::Procedure,
            parameters: names.into_iter().zip(self.types).enumerate().map(parameter).collect(),
            variables,
            found,
            body: self.steps,
            serializable: self.serializable,
            synthesised: false,
            span: block.span,
        }
    }
}

/// First number of a variable whose place is not known yet.
const HIDDEN: u32 = 1 << 20;

/// `BEGIN ISOLATION LEVEL SERIALIZABLE`.
pub(crate) fn asks_serializable(transaction: &TransactionStmt) -> bool {
    let begins = matches!(
        TransactionStmtKind::try_from(transaction.kind),
        Ok(TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart)
    );
    begins && transaction.options.iter().any(is_serializable)
}

/// `ISOLATION LEVEL SERIALIZABLE`, among the options of BEGIN or SET TRANSACTION.
pub(crate) fn is_serializable(option: &Node) -> bool {
    match &option.node {
        Some(node::Node::DefElem(option)) if option.defname == "transaction_isolation" => {
            option.arg.as_deref().is_some_and(|arg| constant(arg).eq_ignore_ascii_case("serializable"))
        }
        _ => false,
    }
}
