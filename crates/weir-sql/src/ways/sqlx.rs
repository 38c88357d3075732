//! `.sqlx/query-….json`: one query each, with the types of its parameters.

use serde_json::Value;
use weir_types::{SqlState, SqlType};

use super::queries::{Block, DeclaredType};
use crate::source::{Diagnostic, Sources, Span};
use crate::type_name;

/// The query of a cache file becomes a source of its own, so that places in it can be shown.
///
/// # Errors
/// 42601 where the file is no such JSON; 0A000 for the query of another database.
pub(crate) fn block(sources: &mut Sources, file: u32) -> Result<Block, Diagnostic> {
    let source = &sources.files[file as usize];
    let start = Span { file, start: 0, end: source.text.len().min(1) as u32 };
    let wrong = |message: String| {
        Diagnostic::new(SqlState::SYNTAX_ERROR, start, message)
            .with_hint("a JSON file is read as one of sqlx' query cache: cargo sqlx prepare writes them")
    };
    let json: Value = serde_json::from_str(&source.text).map_err(|error| wrong(error.to_string()))?;
    let Some(query) = json.get("query").and_then(Value::as_str) else {
        return Err(wrong("there is no \"query\" in it".to_owned()));
    };
    match json.get("db_name").and_then(Value::as_str) {
        None | Some("PostgreSQL") => {}
        Some(other) => {
            let instead = "only PostgreSQL's dialect is read";
            return Err(Diagnostic::unsupported(start, format!("a query for {other}"), instead));
        }
    }
    let types = json.pointer("/describe/parameters/Left").and_then(Value::as_array);
    let declared = types.into_iter().flatten().enumerate().map(|(index, ty)| {
        let ty = ty.as_str().and_then(sql_type);
        (format!("p{}", index + 1), ty.map_or(DeclaredType::Inferred, DeclaredType::Known))
    });
    let declared = declared.collect();
    let stem = source.name.rsplit(['/', '\\']).next().unwrap_or("").trim_end_matches(".json");
    let hash = stem.strip_prefix("query-").unwrap_or(stem);
    let name = format!("query_{}", hash.chars().take(12).collect::<String>());
    let (query, shown) = (query.to_owned(), format!("{} (query)", source.name));
    let length = query.len();
    let file = sources.add(shown, query);
    let span = Span { file, start: 0, end: length as u32 };
    Ok(Block { name, span, body: span, declared, serializable: false })
}

/// sqlx' names are PostgreSQL's internal ones in upper camel case.
fn sql_type(name: &str) -> Option<SqlType> {
    if let Some(element) = name.strip_suffix("Array").or_else(|| name.strip_suffix("[]")) {
        return sql_type(element).map(SqlType::array_of);
    }
    type_name::internal(&name.to_ascii_lowercase())
}
