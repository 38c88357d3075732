//! `placement.toml` of an application: which column of a table says the partition of its rows, so that rows can move to another server.

use std::path::Path;

use serde::Deserialize;
use weir_conveyor_net::operation::PlacedTable;

/// The file.
pub const FILE: &str = "placement.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Placement {
    #[serde(default)]
    table: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    column: Option<String>,
}

/// The tables that commutative or local operations write, as the folder of an application names them. None: it has no such file.
///
/// # Errors
/// In words: what is wrong, where, and what would be right.
pub fn placement_of(folder: &Path, is_by_hand: bool) -> Result<Option<Vec<PlacedTable>>, String> {
    let file = folder.join(FILE);
    if !file.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    parse(&text, is_by_hand).map(Some).map_err(|error| format!("{}: {error}", file.display()))
}

fn parse(text: &str, is_by_hand: bool) -> Result<Vec<PlacedTable>, String> {
    let placement: Placement = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut tables: Vec<PlacedTable> = Vec::new();
    for Named { name, column } in placement.table {
        let (schema, table) = name.split_once('.').unwrap_or(("public", &name));
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let relation = format!("{}.{}", quoted(schema), quoted(table));
        if tables.iter().any(|other| other.relation == relation) {
            return Err(format!("table `{name}` is named twice: give it one column"));
        }
        tables.push(PlacedTable { relation, column, is_by_hand });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_placed_by_a_column_or_by_none() {
        let text = "[[table]]\nname = \"cart\"\ncolumn = \"key\"\n[[table]]\nname = \"audit.log\"\n";
        let tables = parse(text, true).unwrap();
        let named: Vec<_> = tables.iter().map(|table| (&*table.relation, table.column.as_deref())).collect();
        assert_eq!(named, [("\"public\".\"cart\"", Some("key")), ("\"audit\".\"log\"", None)]);
        let twice = parse(&format!("{text}[[table]]\nname = \"public.cart\"\n"), true).unwrap_err();
        assert!(twice.contains("`public.cart` is named twice"), "{twice}");
        assert!(
            parse("[[table]]\nname = \"a\"\nkey = \"b\"\n", true)
                .unwrap_err()
                .contains("unknown field `key`")
        );
    }
}
