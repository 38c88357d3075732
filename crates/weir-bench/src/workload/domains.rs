//! A workload for an application that has none, from the domains of its columns.
//!
//! It is written as the text of a `workload.toml`, so that a user can keep it and change it. A hundred rows a
//! table: row k has k in its key columns, refers to row k by a foreign key inside its key and to any
//! row by another one, and has random values elsewhere. A parameter takes values of the column that its procedure
//! compares it with, or writes it to.

use std::collections::BTreeMap;

use weir_sql::Application;
use weir_sql::bound::{
    Expr, ExprKind, FromItem, InsertSource, Parameter, ParameterMode, Procedure, Query, QueryBody,
    RelationId, Statement, Step, StepKind, VariableId,
};
use weir_sql::catalog::{Catalog, Column, ColumnIndex, Table, TableId};
use weir_sql::walk::{each_expr, each_expr_of_query, subquery};
use weir_types::SqlType;

use super::Workload;
use super::load::default_of;

/// Columns that a variable is compared with, and written to.
#[derive(Default)]
struct Uses {
    compared: BTreeMap<VariableId, (TableId, ColumnIndex)>,
    written: BTreeMap<VariableId, (TableId, ColumnIndex)>,
}

impl Workload {
    /// The text of a workload for an application without `workload.toml`. Columns of types that have no
    /// generator (bytea, jsonb, interval) are left to their defaults, which must be constants.
    pub fn default_text(application: &Application) -> String {
        let catalog = &application.catalog;
        let tables: Vec<TableId> = catalog.tables.iter().map(|table| table.id).collect();
        Workload::made(application, &super::load_order(catalog, &tables))
    }

    /// Default workload with calls only, for tables that begin empty.
    pub fn default_text_without_rows(application: &Application) -> String {
        Workload::made(application, &[])
    }

    fn made(application: &Application, tables: &[TableId]) -> String {
        let mut text = String::from("# Made from the columns' domains. Change it as you like.\n\n");
        text.push_str("[set]\nrows = 100\n");
        let catalog = &application.catalog;
        for id in tables {
            text.push_str(&load_section(catalog.table(*id)));
        }
        for procedure in &application.procedures {
            text.push_str(&parameters_section(catalog, procedure));
        }
        text
    }
}

fn load_section(table: &Table) -> String {
    let mut text = format!("\n[load.{}]\nfor = [\"n in 1..rows\"]\n", key(&table.name));
    for position in 0..table.foreign_keys.len() {
        text.push_str(&format!("_parent_{position} = \"uniform(1, rows)\"\n"));
    }
    for (position, column) in table.columns.iter().enumerate() {
        let foreign_key = table.foreign_keys.iter().position(|key| key.columns.contains(&position));
        let generator = if is_key(table, position) {
            numbered("n", column)
        } else if let Some(key) = foreign_key {
            numbered(&format!("_parent_{key}"), column)
        } else if default_of(column).is_some_and(|default| !default.is_null()) {
            None
        } else {
            random(&column.ty)
        };
        if let Some(generator) = generator {
            text.push_str(&format!("{} = \"{generator}\"\n", key(&column.name)));
        }
    }
    text
}

/// A name as TOML writes keys: quoted if it is not a plain word.
fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

fn is_key(table: &Table, column: ColumnIndex) -> bool {
    let unique_indexes = table.indexes.iter().filter(|index| index.unique).flat_map(|index| &index.keys);
    let mut indexed = unique_indexes
        .map(|key| matches!(key.expr.kind, ExprKind::Column { column: indexed, .. } if indexed == column));
    table.primary_key.iter().chain(&table.unique_keys).any(|key| key.columns.contains(&column))
        || indexed.any(|is_indexed| is_indexed)
}

/// The value of a key column in the row of that number: the same wherever the row is referred to.
fn numbered(number: &str, column: &Column) -> Option<String> {
    Some(match &column.ty {
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => format!("concat({number})"),
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => {
            format!("time('2000-01-01') + seconds(86_400 * ({number}))")
        }
        SqlType::Bool => format!("({number}) % 2 = 0"),
        ty if ty.is_number() || *ty == SqlType::Uuid => number.to_string(),
        _ => return None,
    })
}

fn random(ty: &SqlType) -> Option<String> {
    Some(match ty {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Uuid => "uniform(1, 100)".to_string(),
        SqlType::Numeric(Some((precision, scale))) if (1..=8).contains(scale) => {
            let whole = i32::from(*precision) - i32::from(*scale);
            let high = 10i64.pow(whole.clamp(0, 2) as u32) - 1;
            // From 1 on, as integers: prices and amounts are mostly above zero.
            let low = high.min(1);
            let digits = |digit: &str| digit.repeat(*scale as usize);
            format!("uniform({low}.{}, {high}.{})", digits("0"), digits("9"))
        }
        SqlType::Numeric(Some((1, _))) => "uniform(0, 9)".to_string(),
        SqlType::Numeric(_) | SqlType::Float4 | SqlType::Float8 => "uniform(1, 99)".to_string(),
        SqlType::Text | SqlType::Varchar(None) => "text(4, 16)".to_string(),
        SqlType::Varchar(Some(n)) => format!("text({}, {})", (*n).min(4), (*n).min(16)),
        SqlType::Char(n) => format!("text({n})"),
        SqlType::Bool => "chance(0.5)".to_string(),
        SqlType::Date | SqlType::Timestamp | SqlType::Timestamptz => {
            "time('2026-01-01') + seconds(uniform(0, 31_535_999))".to_string()
        }
        SqlType::Enum(of) => {
            // Labels that the workload's own quoting does not carry are left to those who write a workload.
            let plain = |label: &&String| !label.contains(['\'', '"', '\\']);
            let labels: Vec<String> =
                of.labels.iter().filter(plain).map(|label| format!("'{label}'")).collect();
            match labels.is_empty() {
                true => return None,
                false => format!("pick({})", labels.join(", ")),
            }
        }
        SqlType::Array(element) => format!("array(uniform(1, 5), {})", random(element)?),
        _ => return None,
    })
}

fn parameters_section(catalog: &Catalog, procedure: &Procedure) -> String {
    let mut uses = Uses::default();
    uses.of_steps(&procedure.body);
    let inputs: Vec<&Parameter> =
        procedure.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::Out).collect();
    if inputs.is_empty() {
        return String::new();
    }
    let mut text = format!("\n[parameters.{}]\n", key(&procedure.name));
    for parameter in inputs {
        let generator = parameter_domain(catalog, &uses, parameter).unwrap_or_else(|| "null".to_string());
        text.push_str(&format!("{} = \"{generator}\"\n", key(&parameter.name)));
    }
    text
}

fn parameter_domain(catalog: &Catalog, uses: &Uses, parameter: &Parameter) -> Option<String> {
    let column = |(table, position): &(TableId, ColumnIndex)| {
        let table = catalog.table(*table);
        (table, *position, &table.columns[*position])
    };
    if let Some((table, position, column)) = uses.written.get(&parameter.variable).map(column) {
        let refers = table.foreign_keys.iter().any(|key| key.columns.contains(&position));
        if refers {
            return numbered("uniform(1, rows)", column);
        }
        if is_key(table, position) {
            return numbered("rows + 1 + unique", column);
        }
    }
    if let Some((table, position, column)) = uses.compared.get(&parameter.variable).map(column) {
        let refers = table.foreign_keys.iter().any(|key| key.columns.contains(&position));
        if refers || is_key(table, position) {
            return numbered("uniform(1, rows)", column);
        }
    }
    random(&parameter.ty)
}

impl Uses {
    fn of_steps(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.kind {
                StepKind::Sql { statement, .. } => self.of_statement(statement),
                StepKind::If { branches, otherwise } => {
                    branches.iter().for_each(|(_, steps)| self.of_steps(steps));
                    self.of_steps(otherwise);
                }
                StepKind::ForQuery { query, body, .. } => {
                    self.of_query(query);
                    self.of_steps(body);
                }
                StepKind::ReturnQuery { query } => self.of_query(query),
                StepKind::ForRange { body, .. }
                | StepKind::ForEach { body, .. }
                | StepKind::While { body, .. }
                | StepKind::Loop { body, .. }
                | StepKind::Block { body, .. } => self.of_steps(body),
                _ => {}
            }
        }
    }

    fn of_statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Query(query) => self.of_query(query),
            Statement::Insert(insert) => match &insert.source {
                InsertSource::Values(rows) => {
                    for (column, value) in rows.iter().flat_map(|row| insert.columns.iter().zip(row)) {
                        if let Some(variable) = variable(value) {
                            self.written.entry(variable).or_insert((insert.table, *column));
                        }
                    }
                }
                InsertSource::Query(query) => self.of_query(query),
            },
            Statement::Update(update) => {
                for (column, value) in &update.assignments {
                    if let Some(variable) = variable(value) {
                        self.written.entry(variable).or_insert((update.table, *column));
                    }
                }
                let tables = BTreeMap::from([(update.relation, update.table)]);
                update.filter.iter().for_each(|filter| self.of_filter(filter, &tables));
            }
            Statement::Delete(delete) => {
                let tables = BTreeMap::from([(delete.relation, delete.table)]);
                delete.filter.iter().for_each(|filter| self.of_filter(filter, &tables));
            }
        }
    }

    fn of_query(&mut self, query: &Query) {
        let mut tables = BTreeMap::new();
        tables_of(query, &mut tables);
        each_expr_of_query(query, &mut |expr| self.of_comparison(expr, &tables));
    }

    fn of_filter(&mut self, filter: &Expr, tables: &BTreeMap<RelationId, TableId>) {
        let mut tables = tables.clone();
        each_expr(filter, &mut |expr| {
            if let Some(query) = subquery(expr) {
                tables_of(query, &mut tables);
            }
        });
        each_expr(filter, &mut |expr| self.of_comparison(expr, &tables));
    }

    fn of_comparison(&mut self, expr: &Expr, tables: &BTreeMap<RelationId, TableId>) {
        let ExprKind::Binary { op: weir_sql::bound::BinaryOp::Equal, left, right } = &expr.kind else {
            return;
        };
        for (column, other) in [(left, right), (right, left)] {
            if let (ExprKind::Column { relation, column }, Some(variable)) =
                (&without_casts(column).kind, variable(other))
                && let Some(table) = tables.get(relation)
            {
                self.compared.entry(variable).or_insert((*table, *column));
            }
        }
    }
}

fn without_casts(mut expr: &Expr) -> &Expr {
    while let ExprKind::Cast { operand, .. } = &expr.kind {
        expr = operand;
    }
    expr
}

fn variable(expr: &Expr) -> Option<VariableId> {
    match &without_casts(expr).kind {
        ExprKind::Variable(variable) => Some(*variable),
        _ => None,
    }
}

/// The tables behind the relations of a query and of its subqueries.
fn tables_of(query: &Query, tables: &mut BTreeMap<RelationId, TableId>) {
    if let QueryBody::Select(select) = &query.body {
        select.from.iter().for_each(|item| tables_of_item(item, tables));
    }
    each_expr_of_query(query, &mut |expr| {
        if let Some(QueryBody::Select(select)) = subquery(expr).map(|query| &query.body) {
            select.from.iter().for_each(|item| tables_of_item(item, tables));
        }
    });
}

fn tables_of_item(item: &FromItem, tables: &mut BTreeMap<RelationId, TableId>) {
    match item {
        FromItem::Table { relation, table, .. } => {
            tables.insert(*relation, *table);
        }
        FromItem::Subquery { query, .. } => tables_of(query, tables),
        FromItem::Join { left, right, .. } => {
            tables_of_item(left, tables);
            tables_of_item(right, tables);
        }
        _ => {}
    }
}
