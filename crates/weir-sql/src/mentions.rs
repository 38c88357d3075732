//! What a text that nobody understands may do, told from the words in it.
//!
//! Every table whose name stands in it may be read, and written if a word of it writes; every routine
//! whose name stands in it may be called; EXECUTE may do anything to any table. This errs on the side of
//! more: a comment is no word, but a column named like a table is taken for the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::bound::OpaqueStep;
use crate::catalog::{Catalog, TableId};
use crate::lexer::{Lexer, TokenKind};
use crate::parse::Piece;
use crate::source::Span;
use crate::walk;

/// The names in a stretch of text, folded as SQL folds them.
pub(crate) fn names(piece: Piece<'_>, span: Span) -> BTreeSet<String> {
    names_of(piece.text_of(span))
}

/// With `a.b` besides `a` and `b`; what stands in strings counts too, for they may be EXECUTEd.
pub(crate) fn names_of(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut before: Option<String> = None;
    let mut dotted = false;
    for token in Lexer::new(text, 0) {
        let written = &text[token.start..token.end];
        if token.kind == TokenKind::Text {
            let inner = written.trim_start_matches(['$', 'E', 'e']).trim_matches('\'');
            if inner.len() < written.len() {
                names.extend(names_of(inner));
            }
        }
        let name = token.name(text);
        if let Some(name) = &name {
            if let (Some(schema), true) = (&before, dotted) {
                names.insert(format!("{schema}.{name}"));
            }
            names.insert(name.clone());
        }
        dotted = token.is(b'.');
        if !dotted {
            before = name;
        }
    }
    names
}

/// What every table, view, partition and routine name stands for.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    tables: BTreeMap<String, BTreeSet<TableId>>,
    /// The text of a routine: those of one name together.
    routines: BTreeMap<String, BTreeSet<String>>,
    count: u32,
}

const WRITING: [&str; 7] = ["insert", "update", "delete", "merge", "truncate", "copy", "execute"];

impl Mentions {
    /// `routines`: names with the text of the whole statement that creates them; `views`: of views that are
    /// not in the catalog because they were not understood.
    pub fn new<'t>(
        catalog: &Catalog,
        routines: impl Iterator<Item = (String, &'t str)>,
        views: impl Iterator<Item = (String, &'t str)>,
    ) -> Mentions {
        let mut mentions = Mentions { count: catalog.tables.len() as u32, ..Mentions::default() };
        for table in &catalog.tables {
            mentions.tables.insert(table.name.clone(), BTreeSet::from([table.id]));
        }
        for (partition, table) in &catalog.partitions {
            let tables = mentions.tables.get(table).cloned().unwrap_or_default();
            mentions.tables.insert(partition.clone(), tables);
        }
        for view in &catalog.views {
            let tables = walk::tables(&view.query).into_iter().map(|(_, table)| table).collect();
            mentions.tables.insert(view.name.clone(), tables);
        }
        for (view, text) in views {
            let tables = mentions.tables_named(&names_of(text));
            mentions.tables.insert(view, tables);
        }
        for (routine, text) in routines {
            mentions.routines.entry(routine).or_default().extend(names_of(text));
        }
        mentions
    }

    fn tables_named(&self, names: &BTreeSet<String>) -> BTreeSet<TableId> {
        names.iter().filter_map(|name| self.tables.get(name)).flatten().copied().collect()
    }

    /// What the text may do, the routines that it names included.
    pub fn of(&self, text: &str) -> OpaqueStep {
        let mut all = names_of(text);
        let leaves = ["return", "exit", "continue"].iter().any(|word| all.contains(*word));
        let mut todo: Vec<String> = all.iter().cloned().collect();
        while let Some(name) = todo.pop() {
            for inner in self.routines.get(&name).into_iter().flatten() {
                if all.insert(inner.clone()) {
                    todo.push(inner.clone());
                }
            }
        }
        let tables: Vec<TableId> = match all.contains("execute") {
            true => (0..self.count).map(TableId).collect(),
            false => self.tables_named(&all).into_iter().collect(),
        };
        let writes = WRITING.iter().any(|word| all.contains(*word));
        OpaqueStep {
            writes: if writes { tables.clone() } else { Vec::new() },
            reads: tables,
            assigns: Vec::new(),
            leaves,
        }
    }
}
