//! Which files of a directory are an application, and in which order they are read.
//!
//! Told by names alone: a plain `schema.sql` with its companions, Rails' `structure.sql`, or a directory of
//! migrations as sqlx, Flyway, Atlas, Prisma, Diesel, goose, dbmate, golang-migrate or people with numbers write
//! them. Migrations are read one after the other, so that they fold into their final schema. Files of queries
//! and transactions come last.

use std::collections::BTreeMap;

/// Files next to the schema, read after it in this order.
const COMPANIONS: [&str; 3] = ["procedures.sql", "invariants.sql", "transactions.sql"];
const SCHEMAS: [&str; 4] = ["schema.sql", "structure.sql", "db/structure.sql", "db/schema.sql"];
/// Folders that hold migrations even if there is more than one with numbered files.
const MIGRATIONS: [&str; 4] = ["migrations", "migration", "migrate", "versions"];

/// Why no application was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// There is neither a schema nor a migration.
    Nothing,
    /// More than one folder could be the migrations: which?
    Ambiguous(Vec<String>),
}

/// The files to read, in order, of all files below a directory (relative, with `/`).
pub fn choose(paths: &[String]) -> Result<Vec<String>, LayoutError> {
    let has = |path: &str| paths.iter().any(|other| other == path);
    let mut chosen: Vec<String> = Vec::new();
    match SCHEMAS.iter().find(|schema| has(schema)) {
        Some(schema) => chosen.push((*schema).to_owned()),
        None => chosen.extend(migrations(paths)?),
    }
    chosen.extend(COMPANIONS.iter().filter(|name| has(name)).map(|name| (*name).to_owned()));
    let mut queries: Vec<&String> = paths.iter().filter(|path| is_query_file(path)).collect();
    queries.sort();
    for path in queries {
        if !chosen.contains(path) {
            chosen.push(path.clone());
        }
    }
    Ok(chosen)
}

/// sqlc's and others' folders of queries, and sqlx' cache.
fn is_query_file(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or("");
    let in_folder = |names: &[&str]| parts.iter().any(|part| names.contains(part));
    match file.rsplit_once('.') {
        Some((stem, "json")) => parts.last() == Some(&".sqlx") && stem.starts_with("query-"),
        Some((stem, "sql")) => {
            in_folder(&["queries", "query", "transactions"])
                || matches!(stem, "query" | "queries" | "transactions")
        }
        _ => false,
    }
}

fn migrations(paths: &[String]) -> Result<Vec<String>, LayoutError> {
    let mut folders: BTreeMap<&str, Vec<(Version, &str)>> = BTreeMap::new();
    for path in paths.iter().filter(|path| !is_query_file(path)) {
        if let Some((folder, version)) = migration(path) {
            folders.entry(folder).or_default().push((version, path));
        }
    }
    let named = |folder: &str| MIGRATIONS.contains(&folder.rsplit('/').next().unwrap_or(""));
    let candidates: Vec<&str> = match folders.len() {
        0 => return Err(LayoutError::Nothing),
        1 => folders.keys().copied().collect(),
        _ if folders.contains_key("") => vec![""],
        _ => folders.keys().copied().filter(|folder| named(folder)).collect(),
    };
    let [folder] = candidates.as_slice() else {
        return Err(LayoutError::Ambiguous(folders.keys().map(|folder| (*folder).to_owned()).collect()));
    };
    let mut files = folders.remove(folder).unwrap_or_default();
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path.to_owned()).collect())
}

/// When a migration runs: by its version, and Flyway's repeatable ones at the end, by their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Numbered(Vec<u64>),
    Repeatable(String),
}

/// The folder of the migrations, and this one's version. `None` for other files, and for those that undo.
fn migration(path: &str) -> Option<(&str, Version)> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.strip_suffix(".sql")?;
    // Prisma and Diesel: a folder for each, with the version in its name.
    if matches!(stem, "migration" | "up") {
        let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
        return Some((above, Version::Numbered(digits(name)?)));
    }
    if stem.ends_with(".down") || stem == "down" || stem.ends_with("_down") {
        return None;
    }
    if let Some(description) = stem.strip_prefix("R__") {
        return Some((folder, Version::Repeatable(description.to_owned())));
    }
    let flyway = stem.strip_prefix(['V', 'v', 'B']).and_then(|rest| rest.split_once("__"));
    if let Some((version, _)) = flyway {
        let parts: Option<Vec<u64>> = version.split(['.', '_']).map(|part| part.parse().ok()).collect();
        return Some((folder, Version::Numbered(parts?)));
    }
    Some((folder, Version::Numbered(digits(stem)?)))
}

/// `0001_init` is 1; `2024-01-31-120000_x` is 2024, 1, 31, 120000.
fn digits(name: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut rest = name;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        numbers.push(number);
        let after =
            rest[end..].strip_prefix('-').filter(|after| after.starts_with(|c: char| c.is_ascii_digit()));
        match after {
            Some(after) => rest = after,
            None => return Some(numbers),
        }
    }
}
