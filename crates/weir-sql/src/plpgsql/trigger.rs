//! A trigger function, bound for the table of one trigger: NEW and OLD have that table's columns.

use pg_query::protobuf::CreateFunctionStmt;
use weir_types::{SqlState, SqlType};

use super::bind::{Body, Options, Surroundings, opaque_body};
use super::{parser, structure};
use crate::binder::{Binder, expr_strings};
use crate::bound::{Expr, ExprKind, Procedure, ProcedureKind, Step, StepKind, VariableId};
use crate::catalog::{Table, Trigger, TriggerEvents, TriggerTiming};
use crate::ddl::{PendingRoutine, PendingTrigger};
use crate::parse::Piece;
use crate::routine::Signature;
use crate::source::{Diagnostic, Span};

/// Bits of PostgreSQL's `CreateTrigStmt`.
const BEFORE: i32 = 1 << 1;
const INSERT: i32 = 1 << 2;
const DELETE: i32 = 1 << 3;
const UPDATE: i32 = 1 << 4;
const TRUNCATE: i32 = 1 << 5;
const INSTEAD: i32 = 1 << 6;

/// Variables of every trigger function.
const FACTS: [(&str, SqlType); 9] = [
    ("tg_name", SqlType::Text),
    ("tg_when", SqlType::Text),
    ("tg_level", SqlType::Text),
    ("tg_op", SqlType::Text),
    ("tg_relid", SqlType::Int8),
    ("tg_relname", SqlType::Text),
    ("tg_table_name", SqlType::Text),
    ("tg_table_schema", SqlType::Text),
    ("tg_nargs", SqlType::Int4),
];

/// Binds a trigger with its function, which may be missing because it was not understood.
pub(crate) fn bind_trigger(
    surroundings: Surroundings<'_>,
    piece: Piece<'_>,
    pending: &PendingTrigger,
    function: Option<(Piece<'_>, &PendingRoutine)>,
) -> Result<Trigger, Diagnostic> {
    let create = &pending.create;
    let table = surroundings.catalog.table(pending.table);
    let name = expr_strings(&create.funcname).join(".");
    let Some((text, routine)) = function else {
        let message = format!("function {name}() does not exist");
        return Err(Diagnostic::new(SqlState::UNDEFINED_FUNCTION, pending.span, message));
    };
    let signature = Signature {
        name: create.trigname.clone(),
        kind: ProcedureKind::Function { returns: SqlType::Void },
        parameters: Vec::new(),
        span: pending.span,
    };
    let (mut body, parameters, found) = Body::new(surroundings, &signature, text, false);
    body.trigger = true;
    let new = record(&mut body, "new", table);
    let old = record(&mut body, "old", table);
    for (fact, ty) in FACTS {
        body.scopes.add_variable(fact, ty);
    }
    body.scopes.add_variable("tg_argv", SqlType::array_of(SqlType::Text));
    let condition = match &create.when_clause {
        Some(node) => {
            let bound = Binder::new(&body.context(), piece).bind_condition(node, "WHEN");
            crate::notes::tolerate(surroundings.notes, bound)?
        }
        None => None,
    };
    let steps = match steps(&mut body, text, &routine.create, routine.span) {
        Ok(steps) => steps,
        Err(error) => opaque_body(surroundings, text, routine.span, error)?,
    };
    let procedure = Procedure {
        name: create.trigname.clone(),
        ..body.into_procedure(&signature, (parameters, found), steps, routine.span)
    };
    Ok(Trigger {
        name: create.trigname.clone(),
        table: pending.table,
        timing: match create.timing {
            timing if timing & INSTEAD != 0 => TriggerTiming::InsteadOf,
            timing if timing & BEFORE != 0 => TriggerTiming::Before,
            _ => TriggerTiming::After,
        },
        events: events(create.events, table, &expr_strings(&create.columns), pending.span)?,
        each_row: create.row,
        condition,
        body: procedure,
        new,
        old,
        span: pending.span,
    })
}

fn record(body: &mut Body<'_>, name: &str, table: &Table) -> Vec<VariableId> {
    let columns = table.columns.iter().map(|column| (column.name.clone(), column.ty.clone())).collect();
    let record = body.scopes.add_record(name, Some(columns));
    body.scopes.records[record].fields.iter().flatten().map(|(_, id)| *id).collect()
}

fn events(bits: i32, table: &Table, of: &[&str], span: Span) -> Result<TriggerEvents, Diagnostic> {
    Ok(TriggerEvents {
        insert: bits & INSERT != 0,
        delete: bits & DELETE != 0,
        update: bits & UPDATE != 0,
        truncate: bits & TRUNCATE != 0,
        update_of: of.iter().map(|name| table.column_named(name, span)).collect::<Result<_, _>>()?,
    })
}

fn steps(
    body: &mut Body<'_>,
    piece: Piece<'_>,
    create: &CreateFunctionStmt,
    span: Span,
) -> Result<Vec<Step>, Diagnostic> {
    let options = Options::read(piece, create, span, body.notes)?;
    if options.language != "plpgsql" {
        return Err(Diagnostic::unsupported(
            options.language_at,
            format!("a trigger function in LANGUAGE {}", options.language),
            "write the body in LANGUAGE plpgsql",
        ));
    }
    let text = options.body(piece, span)?;
    let block: structure::Block =
        parser::parse_with(text.file, text.offset, text.text, body.notes.is_some())?;
    body.whole_body(&block)
}

impl Body<'_> {
    /// `RETURN NEW`, `RETURN OLD`, or a RETURN that skips the row.
    pub(super) fn trigger_result(&self, value: Option<Span>, span: Span) -> StepKind {
        use crate::binder::Variables;
        let written = value.map(|value| self.piece(value).text.trim().to_ascii_lowercase());
        let fields = written.and_then(|record| self.scopes.fields(&record));
        let row = fields.map(|fields| Expr {
            kind: ExprKind::Row(fields.into_iter().map(|(_, id, _)| self.read(id, span)).collect()),
            ty: SqlType::Record,
            span,
        });
        StepKind::Return { value: row }
    }
}
