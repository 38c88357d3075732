//! Which column of a table says the partition of its rows, so that rows can move to another server: as the analysis finds it, or as
//! `placement.toml` of the application says.

use std::path::Path;

use serde::Deserialize;
use weir_conveyor_net::operation::PlacedTable;
use weir_conveyor_plan::{LocalRows, LocalTable};

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
        let relation = relation(schema, table);
        if tables.iter().any(|other| other.relation == relation) {
            return Err(format!("table `{name}` is named twice: give it one column"));
        }
        tables.push(PlacedTable { relation, column, is_by_hand });
    }
    Ok(tables)
}

fn relation(schema: &str, name: &str) -> String {
    let [schema, name] = [schema, name].map(|part| part.replace('"', "\"\""));
    format!("\"{schema}\".\"{name}\"")
}

fn relation_of(table: &LocalTable) -> String {
    relation(&table.schema, &table.name)
}

/// The tables of an analysed application.
///
/// # Errors
/// The rows of one of them may be anywhere: in words, why.
pub fn inferred(tables: &[LocalTable]) -> Result<Vec<PlacedTable>, String> {
    let placed = |table: &LocalTable| {
        let column = match &table.rows {
            LocalRows::Slot(column) => Some(column.clone()),
            LocalRows::Anywhere => None,
            LocalRows::Unknown(why) => {
                return Err(format!(
                    "nothing says which rows of table {} belong to which slot: {why}",
                    table.name
                ));
            }
        };
        Ok(PlacedTable { relation: relation_of(table), column, is_by_hand: false })
    };
    tables.iter().map(placed).collect()
}

/// Compares what a file says with what the analysis finds.
///
/// # Errors
/// They differ: rows of a table would be lost from sight when they move.
pub fn check(named: &[PlacedTable], tables: &[LocalTable]) -> Result<(), String> {
    for table in tables {
        let relation = relation_of(table);
        let Some(placed) = named.iter().find(|placed| placed.relation == relation) else {
            return Err(format!(
                "{FILE}: table {} is missing, and commutative or local transactions write it: name it",
                table.name
            ));
        };
        let (said, right) = (
            placed.column.as_deref(),
            match &table.rows {
                LocalRows::Slot(column) => Some(column.as_str()),
                LocalRows::Anywhere => None,
                LocalRows::Unknown(_) => continue,
            },
        );
        if said != right {
            let words = |column: Option<&str>| {
                column.map_or_else(|| "no column".to_owned(), |name| format!("column {name}"))
            };
            return Err(format!(
                "{FILE}: table {} is placed by {}, but its writers are routed by {}",
                table.name,
                words(said),
                words(right)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, rows: LocalRows) -> LocalTable {
        LocalTable { schema: "public".into(), name: name.into(), rows }
    }

    #[test]
    fn the_analysis_places_tables_and_checks_a_file() {
        let cart = table("cart", LocalRows::Slot("key".into()));
        let log = table("log", LocalRows::Anywhere);
        let odd = table("odd", LocalRows::Unknown("odd writes rows".into()));
        let placed = inferred(&[cart.clone(), log.clone()]).unwrap();
        let columns: Vec<_> = placed.iter().map(|table| table.column.as_deref()).collect();
        assert_eq!(columns, [Some("key"), None]);
        let all = [cart, log, odd];
        assert!(inferred(&all).unwrap_err().contains("table odd belong to which slot: odd writes"));
        let file = |text: &str| check(&parse(text, false).unwrap(), &all);
        let right = "[[table]]\nname = \"cart\"\ncolumn = \"key\"\n[[table]]\nname = \"log\"\n";
        assert!(file(right).unwrap_err().contains("table odd is missing"));
        let odd = "[[table]]\nname = \"odd\"\ncolumn = \"id\"\n";
        assert_eq!(file(&format!("{right}{odd}")), Ok(()));
        let wrong = file(&format!("{}{odd}", right.replace("key", "line"))).unwrap_err();
        assert!(
            wrong.contains("cart is placed by column line, but its writers are routed by column key"),
            "{wrong}"
        );
    }

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
