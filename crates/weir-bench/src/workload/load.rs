//! `[load.<table>]`: nested loops over ranges and over the rows of other tables, a row in the innermost.
//!
//! A loop over a table's rows generates them again, from the same numbers; nothing is kept. So the
//! population of any size takes no memory here.

use weir_sql::catalog::{Table, TableId};
use weir_sql::{Catalog, Diagnostic};
use weir_types::{SqlError, SqlState, Value};

use super::code::{Context, Kind, Scalar, mix};
use super::compile::{Assignment, Compiler, Purity, Scope, Slot, Typed, error, want_int};
use super::convert::Conversion;
use super::file::Section;
use super::syntax::{LoopSyntax, parse_loop};
use super::{Output, expression, section_entry};

#[derive(Clone, Debug)]
pub(crate) struct TableLoad {
    pub table: TableId,
    name: String,
    /// From the outermost loop to the table's own row.
    stages: Vec<Stage>,
    /// In the order of the table's columns.
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
enum Stage {
    Range { slot: usize, low: Scalar, high: Scalar },
    Row(Row),
}

#[derive(Clone, Debug)]
struct Row {
    /// Tells the random numbers of one table from those of another.
    stream: u64,
    /// The row's number in its table, from 1.
    number: usize,
    assignments: Vec<Assignment>,
}

#[derive(Clone, Debug)]
enum Column {
    Generated(Output),
    Constant(Value),
}

struct LoadCompiler<'a> {
    file: u32,
    sections: &'a [Section],
    compiler: &'a mut Compiler,
    diagnostics: &'a mut Vec<Diagnostic>,
}

/// Enclosing loops of a section.
#[derive(Default)]
struct Nest {
    stages: Vec<Stage>,
    scope: Scope,
}

pub(crate) fn compile(
    file: u32,
    sections: &[Section],
    catalog: &Catalog,
    scope: &Scope,
    compiler: &mut Compiler,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<TableLoad> {
    let mut loader = LoadCompiler { file, sections, compiler, diagnostics };
    let mut loads = Vec::new();
    for (position, section) in sections.iter().enumerate() {
        let Some(table) = catalog.table_by_name(&section.name) else {
            let names: Vec<&str> = catalog.tables.iter().map(|table| table.name.as_str()).collect();
            let message = format!("there is no table {}", section.name);
            let diagnostic = error(SqlState::UNDEFINED_TABLE, section.name_span, message)
                .with_hint(format!("the tables are {}", names.join(", ")));
            loader.diagnostics.push(diagnostic);
            continue;
        };
        // A section that stands above has reported what is wrong with it; its copies keep quiet.
        let before = loader.diagnostics.len();
        let mut nest = Nest { stages: Vec::new(), scope: scope.clone() };
        let outputs = loader.section(position, &mut nest);
        if loader.diagnostics.len() == before {
            let columns = loader.columns(table, section, outputs);
            loads.push(TableLoad {
                table: table.id,
                name: section.name.clone(),
                stages: nest.stages,
                columns,
            });
        }
    }
    let mut seen = Vec::new();
    diagnostics.retain(|diagnostic| {
        let first = !seen.contains(diagnostic);
        seen.push(diagnostic.clone());
        first
    });
    loads
}

impl LoadCompiler<'_> {
    /// Compiles the loops and values of a section into the nest; answers where each value stands.
    fn section(&mut self, position: usize, nest: &mut Nest) -> Vec<(String, Slot, Kind)> {
        let sections = self.sections;
        let section = &sections[position];
        for item in &section.loops {
            match parse_loop(&item.text, self.file, item.offset) {
                Err(diagnostic) => self.diagnostics.push(diagnostic),
                Ok(LoopSyntax::Rows { table, span }) => {
                    match sections[..position].iter().position(|above| above.name == table) {
                        Some(above) => {
                            self.section(above, nest);
                        }
                        None => {
                            let message = format!("there is no [load.{table}] above this section");
                            let hint = "a loop is over 1..n or over a table whose section stands above";
                            let diagnostic = error(SqlState::UNDEFINED_TABLE, span, message).with_hint(hint);
                            self.diagnostics.push(diagnostic);
                        }
                    }
                }
                Ok(LoopSyntax::Range { name, low, high }) => {
                    let mut bound = |expr| -> Result<Scalar, Diagnostic> {
                        let typed = self.compiler.compile(expr, &nest.scope)?;
                        if typed.purity == Purity::Random {
                            let message = "a loop's end may not be random";
                            return Err(error(SqlState::INVALID_PARAMETER_VALUE, expr.span, message)
                                .with_hint("make it a column or local of the row above"));
                        }
                        want_int(typed, expr.span)
                    };
                    match (bound(&low), bound(&high)) {
                        (Ok(low), Ok(high)) => {
                            let slot = self.compiler.scalar_slot();
                            nest.stages.push(Stage::Range { slot, low, high });
                            nest.scope.define(name, Typed::in_slot(&Slot::Scalar(slot), Kind::Int));
                        }
                        (low, high) => self.diagnostics.extend(low.err().into_iter().chain(high.err())),
                    }
                }
            }
        }
        self.row(section, nest)
    }

    fn row(&mut self, section: &Section, nest: &mut Nest) -> Vec<(String, Slot, Kind)> {
        let number = self.compiler.scalar_slot();
        nest.scope.define("row", Typed::in_slot(&Slot::Scalar(number), Kind::Int));
        let mut assignments = Vec::new();
        let mut values = Vec::new();
        for entry in &section.entries {
            match expression(self.file, entry, &nest.scope, self.compiler) {
                Ok((typed, _)) => {
                    let kind = typed.kind.clone();
                    let (assignment, name) = self.compiler.assign(typed);
                    values.push((entry.name.clone(), assignment.slot.clone(), kind));
                    assignments.push(assignment);
                    nest.scope.define(format!("{}.{}", section.name, entry.name), name.clone());
                    nest.scope.define(&entry.name, name);
                }
                Err(diagnostic) => self.diagnostics.push(diagnostic),
            }
        }
        let stream = section.name.bytes().fold(0, |stream, byte| mix(stream, u64::from(byte)));
        nest.stages.push(Stage::Row(Row { stream, number, assignments }));
        values
    }

    fn columns(
        &mut self,
        table: &Table,
        section: &Section,
        values: Vec<(String, Slot, Kind)>,
    ) -> Vec<Column> {
        for entry in &section.entries {
            if !entry.name.starts_with('_') && table.column_by_name(&entry.name).is_none() {
                let message = format!("table {} has no column {}", table.name, entry.name);
                let hint = "a name that begins with _ is a local of the section";
                let diagnostic = error(SqlState::UNDEFINED_COLUMN, entry.name_span, message).with_hint(hint);
                self.diagnostics.push(diagnostic);
            }
        }
        let mut columns = Vec::new();
        for column in &table.columns {
            let generated = values.iter().find(|(name, ..)| *name == column.name);
            let Some((name, slot, kind)) = generated else {
                match default_of(column) {
                    Some(value) => columns.push(Column::Constant(value)),
                    None => {
                        let message =
                            format!("[load.{}] has no generator for column {}", table.name, column.name);
                        let hint = "it is NOT NULL and has no constant default";
                        let state = SqlState::NOT_NULL_VIOLATION;
                        self.diagnostics.push(error(state, section.name_span, message).with_hint(hint));
                    }
                }
                continue;
            };
            let span = section_entry(section, name).map_or(section.name_span, |entry| entry.name_span);
            match Conversion::new(kind, &column.ty, span) {
                Ok(conversion) => columns.push(Column::Generated(Output {
                    name: format!("{}.{}", table.name, column.name),
                    kind: kind.clone(),
                    slot: slot.clone(),
                    conversion,
                })),
                Err(diagnostic) => self.diagnostics.push(diagnostic),
            }
        }
        columns
    }
}

/// Value of a column without a generator: its default if that is a literal, else NULL if allowed.
pub(super) fn default_of(column: &weir_sql::catalog::Column) -> Option<Value> {
    if column.generated.is_some() {
        // Computed when the row is loaded.
        return Some(Value::Null);
    }
    let mut default = column.default.as_ref();
    while let Some(expr) = default {
        match &expr.kind {
            weir_sql::bound::ExprKind::Literal(value) => return Some(value.clone()),
            _ => default = None,
        }
    }
    (column.default.is_none() && !column.not_null).then_some(Value::Null)
}

type Sink<'a> = &'a mut dyn FnMut(Vec<Value>) -> Result<(), SqlError>;

struct Run<'a, 'b> {
    load: &'a TableLoad,
    context: Context,
    /// The rows so far of each stage.
    numbers: Vec<u64>,
    sink: Option<Sink<'b>>,
}

impl TableLoad {
    /// Generates all rows, or only counts them where there is no sink.
    pub fn run(&self, context: Context, sink: Option<Sink<'_>>) -> Result<u64, SqlError> {
        let mut run = Run { load: self, context, numbers: vec![0; self.stages.len()], sink };
        run.stage(0)?;
        Ok(run.numbers.last().copied().unwrap_or(0))
    }
}

impl Run<'_, '_> {
    fn stage(&mut self, position: usize) -> Result<(), SqlError> {
        let load = self.load;
        let last = position + 1 == load.stages.len();
        match &load.stages[position] {
            Stage::Range { slot, low, high } => {
                let low = low.evaluate(&mut self.context);
                let high = high.evaluate(&mut self.context);
                self.check()?;
                // A count need not visit the rows of the innermost loop.
                if self.sink.is_none() && position + 2 == load.stages.len() {
                    self.numbers[position + 1] += (i128::from(high) - i128::from(low) + 1).max(0) as u64;
                    return Ok(());
                }
                for value in low..=high {
                    self.context.scalars[*slot] = value;
                    self.stage(position + 1)?;
                }
                Ok(())
            }
            Stage::Row(row) => {
                self.numbers[position] += 1;
                if last && self.sink.is_none() {
                    return Ok(());
                }
                self.context.reseed(mix(row.stream, self.numbers[position]));
                self.context.scalars[row.number] = self.numbers[position] as i64;
                for assignment in &row.assignments {
                    assignment.run(&mut self.context);
                }
                if last { self.emit() } else { self.stage(position + 1) }
            }
        }
    }

    fn emit(&mut self) -> Result<(), SqlError> {
        let mut values = Vec::with_capacity(self.load.columns.len());
        for column in &self.load.columns {
            values.push(match column {
                Column::Generated(output) => output.read(&mut self.context),
                Column::Constant(value) => value.clone(),
            });
        }
        self.check()?;
        match &mut self.sink {
            Some(sink) => sink(values),
            None => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), SqlError> {
        match self.context.error.take() {
            None => Ok(()),
            Some(message) => {
                let message = format!("workload: [load.{}]: {message}", self.load.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        }
    }
}
