//! A statement that writes and that no procedure holds, as a procedure of its own: so all that reads, judges and runs
//! procedures takes it (design.md §4, "the world is never assumed closed").

use weir_types::SqlType;

use crate::bound::{
    BinaryOp, Expr, ExprKind, Insert, InsertSource, Parameter, ParameterMode, Procedure, ProcedureKind,
    Statement, Step, StepKind, Variable, VariableId,
};
use crate::catalog::Catalog;
use crate::source::Span;
use crate::walk::has_subquery;

/// The procedure of the statement. `parameters` are the types of `$1`, `$2` …, its IN parameters; it has one OUT parameter, how many
/// rows were written, and gives the rows of RETURNING. A query has one if it does something ([`Query::has_effects`]); any other: `None`.
///
/// [`Query::has_effects`]: crate::bound::Query::has_effects
pub fn anonymous(catalog: &Catalog, statement: Statement, parameters: &[SqlType]) -> Option<Procedure> {
    let (verb, table) = match &statement {
        Statement::Query(query) if !query.has_effects() => return None,
        Statement::Query(query) => match query.held_tables().first() {
            Some(table) => ("SELECT FOR UPDATE OF", Some(*table)),
            None => ("SELECT nextval", None),
        },
        Statement::Insert(insert) => ("INSERT INTO", Some(insert.table)),
        Statement::Update(update) => ("UPDATE", Some(update.table)),
        Statement::Delete(delete) => ("DELETE FROM", Some(delete.table)),
    };
    let span = statement.span();
    let name = match table {
        Some(table) => format!("{verb} {}", catalog.table(table).name),
        None => verb.to_owned(),
    };
    let mut body = Body { variables: Vec::new(), span };
    let mut declared: Vec<Parameter> = Vec::new();
    let types = parameters.iter().enumerate().map(|(at, ty)| (format!("${}", at + 1), ty, ParameterMode::In));
    for (name, ty, mode) in types.chain([("count".to_owned(), &SqlType::Int8, ParameterMode::Out)]) {
        let variable = body.variable(&name, ty.clone());
        declared.push(Parameter { name, ty: ty.clone(), mode, default: None, variable });
    }
    let count = VariableId(parameters.len() as u32);
    let found = body.variable("found", SqlType::Bool);
    let columns = statement.columns();
    let statements = rows_apart(statement);
    let steps = match statements.len() {
        1 => statements.into_iter().flat_map(|one| body.counted(one, count)).collect(),
        _ => {
            let one = body.variable("rows", SqlType::Int8);
            let mut steps = vec![body.assign(count, body.int8(ExprKind::Literal(0.into())))];
            for statement in statements {
                steps.extend(body.counted(statement, one));
                let [left, right] = [count, one].map(|of| Box::new(body.int8(ExprKind::Variable(of))));
                steps
                    .push(body.assign(count, body.int8(ExprKind::Binary { op: BinaryOp::Add, left, right })));
            }
            steps
        }
    };
    let kind = match columns.is_empty() {
        true => ProcedureKind::Procedure,
        false => ProcedureKind::SetReturningFunction {
            columns: columns.into_iter().map(|column| (column.name, column.ty)).collect(),
        },
    };
    Some(Procedure {
        name,
        kind,
        parameters: declared,
        variables: body.variables,
        found,
        body: steps,
        serializable: false,
        synthesised: false,
        span,
    })
}

/// An INSERT of several rows as one of each: they may live in different places. Not where one of them asks what is in a table: it
/// must not see those before it.
fn rows_apart(statement: Statement) -> Vec<Statement> {
    match statement {
        Statement::Insert(insert) => match &insert.source {
            InsertSource::Values(rows) if rows.len() > 1 && !rows.iter().flatten().any(has_subquery) => {
                let one = |(at, row): (usize, &Vec<Expr>)| {
                    let span = row.first().map_or(insert.span, |value| value.span);
                    let source = InsertSource::Values(vec![row.clone()]);
                    Statement::Insert(Insert { source, continues: at > 0, span, ..insert.clone() })
                };
                rows.iter().enumerate().map(one).collect()
            }
            _ => vec![Statement::Insert(insert)],
        },
        other => vec![other],
    }
}

struct Body {
    variables: Vec<Variable>,
    span: Span,
}

impl Body {
    fn variable(&mut self, name: &str, ty: SqlType) -> VariableId {
        self.variables.push(Variable { name: name.to_owned(), ty, not_null: false, constant: false });
        VariableId(self.variables.len() as u32 - 1)
    }

    fn int8(&self, kind: ExprKind) -> Expr {
        Expr { kind, ty: SqlType::Int8, span: self.span }
    }

    fn assign(&self, variable: VariableId, value: Expr) -> Step {
        Step { kind: StepKind::Assign { variable, value }, span: self.span }
    }

    /// The statement, and how many rows it has written.
    fn counted(&self, statement: Statement, count: VariableId) -> [Step; 2] {
        let span = statement.span();
        let run = StepKind::Sql { statement: Box::new(statement), into: None };
        [Step { kind: run, span }, Step { kind: StepKind::GetRowCount { variable: count }, span }]
    }
}
