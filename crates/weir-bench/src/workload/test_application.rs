//! For tests: enough of an application for a workload, read from the shape in which the examples are
//! written (one column or parameter a line). The real road is `weir-sql`'s loader.

use weir_sql::bound::{Parameter, ParameterMode, Procedure, ProcedureKind, VariableId};
use weir_sql::catalog::{Column, ForeignKey, ForeignKeyAction, Table, TableId};
use weir_sql::{Application, Catalog, Sources, Span};
use weir_types::SqlType;

pub(crate) fn application(schema: &str, procedures: &str) -> Application {
    let mut catalog = Catalog::default();
    for line in schema.lines() {
        if let Some(name) = line.strip_prefix("CREATE TABLE ") {
            catalog.tables.push(table(catalog.tables.len(), name.trim_end_matches(" (")));
        } else if let (Some(rest), Some(last)) =
            (line.strip_prefix("    "), catalog.tables.len().checked_sub(1))
        {
            if let Some((_, parent)) = rest.split_once("REFERENCES ") {
                let parent = parent.split_whitespace().next().unwrap_or_default();
                let parent = catalog.table_by_name(parent).expect("the parent stands above").id;
                catalog.tables[last].foreign_keys.push(foreign_key(parent));
            } else if let Some(column) = column(rest) {
                catalog.tables[last].columns.push(column);
            }
        }
    }
    let mut list: Vec<Procedure> = Vec::new();
    let mut in_head = false;
    for line in procedures.lines() {
        let mut line = line.trim_end_matches(',');
        if let Some(rest) = line.strip_prefix("CREATE PROCEDURE ") {
            let (name, parameters) = rest.split_once('(').expect("a procedure has parentheses");
            list.push(procedure(name));
            in_head = true;
            line = parameters;
        }
        in_head &= !line.starts_with("LANGUAGE");
        if let (true, Some(procedure)) = (in_head, list.last_mut()) {
            procedure.parameters.extend(line.trim_end_matches(')').split(", ").filter_map(parameter));
        }
    }
    Application { sources: Sources::default(), catalog, procedures: list, assertions: Vec::new() }
}

fn table(position: usize, name: &str) -> Table {
    Table {
        id: TableId(position as u32),
        name: name.to_string(),
        columns: Vec::new(),
        primary_key: None,
        unique_keys: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        indexes: Vec::new(),
        partition_by: None,
        replicated: false,
        span: Span::default(),
    }
}

fn foreign_key(parent: TableId) -> ForeignKey {
    ForeignKey {
        name: String::new(),
        columns: Vec::new(),
        parent,
        parent_columns: Vec::new(),
        on_delete: ForeignKeyAction::Restrict,
        on_update: ForeignKeyAction::Restrict,
        span: Span::default(),
    }
}

fn procedure(name: &str) -> Procedure {
    Procedure {
        name: name.to_string(),
        kind: ProcedureKind::Procedure,
        parameters: Vec::new(),
        variables: Vec::new(),
        found: VariableId(0),
        body: Vec::new(),
        serializable: false,
        span: Span::default(),
    }
}

fn column(line: &str) -> Option<Column> {
    let (name, rest) = line.split_once(' ')?;
    Some(Column {
        name: name.to_string(),
        ty: ty(rest.trim())?,
        not_null: rest.contains("NOT NULL"),
        not_null_span: None,
        default: None,
        generated_always: false,
        span: Span::default(),
    })
}

fn parameter(text: &str) -> Option<Parameter> {
    let mut words = text.split_whitespace();
    let mode = match words.next()? {
        "IN" => ParameterMode::In,
        "OUT" => ParameterMode::Out,
        "INOUT" => ParameterMode::InOut,
        _ => return None,
    };
    let name = words.next()?.to_string();
    let ty = ty(words.next()?)?;
    Some(Parameter { name, ty, mode, default: None, variable: VariableId(0) })
}

fn ty(text: &str) -> Option<SqlType> {
    let name: String = text.chars().take_while(|c| !matches!(c, ' ' | ',')).collect();
    let name = if text.starts_with("numeric(") { text.split(')').next()?.to_string() } else { name };
    if let Some(element) = text.split([' ', ',']).next()?.strip_suffix("[]") {
        return Some(SqlType::Array(Box::new(ty(element)?)));
    }
    let (base, modifiers) = name.split_once('(').unwrap_or((&name, ""));
    let mut modifiers = modifiers.trim_end_matches(')').split(',').map_while(|n| n.parse::<u32>().ok());
    Some(match base {
        "integer" => SqlType::Int4,
        "bigint" => SqlType::Int8,
        "text" => SqlType::Text,
        "timestamp" => SqlType::Timestamp,
        "date" => SqlType::Date,
        "boolean" => SqlType::Bool,
        "varchar" => SqlType::Varchar(modifiers.next()),
        "char" => SqlType::Char(modifiers.next()?),
        "numeric" => SqlType::Numeric(
            modifiers.next().map(|precision| (precision as u16, modifiers.next().unwrap_or(0) as i16)),
        ),
        _ => return None,
    })
}
