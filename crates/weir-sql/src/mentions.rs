//! Possible effects of a text that is not understood, inferred from its words.
//!
//! Every table whose name stands in it may be read, and written if a word of it writes; every routine
//! whose name stands in it may be called; EXECUTE may do anything to any table. This errs on the side of
//! more: a comment is no word, but a column named like a table is taken for the table.

use std::collections::{BTreeMap, BTreeSet};

use crate::bound::OpaqueStep;
use crate::catalog::{Catalog, SequenceId, TableId};
use crate::lexer::{Lexer, Token, TokenKind};
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

/// The names behind INSERT INTO, MERGE INTO, DELETE FROM, UPDATE, TRUNCATE and COPY.
pub(crate) fn targets(text: &str) -> BTreeSet<String> {
    let tokens: Vec<Token> = Lexer::new(text, 0).collect();
    let word = |at: usize| tokens.get(at).and_then(|token| token.name(text)).unwrap_or_default();
    let mut targets = BTreeSet::new();
    for at in 0..tokens.len() {
        let before = if at == 0 { String::new() } else { word(at - 1) };
        let is_target = match (before.as_str(), word(at).as_str()) {
            ("insert" | "merge", "into") | ("delete", "from") => true,
            // FOR UPDATE, FOR NO KEY UPDATE, DO UPDATE, ON UPDATE, INSERT OR UPDATE.
            (before, "update") => !["for", "key", "do", "on", "or", "before", "after"].contains(&before),
            (_, "truncate" | "copy") => true,
            _ => false,
        };
        let mut next = at + 1;
        while ["only", "table"].contains(&word(next).as_str()) {
            next += 1;
        }
        let is_name = !["", "set", "of", "into", "from", "or"].contains(&word(next).as_str());
        if is_target && is_name {
            targets.insert(match tokens.get(next + 1).is_some_and(|token| token.is(b'.')) {
                true => format!("{}.{}", word(next), word(next + 2)),
                false => word(next),
            });
        }
    }
    targets
}

/// Meaning of every name of a table, view, partition or routine.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    tables: BTreeMap<String, BTreeSet<TableId>>,
    /// Text of each routine; overloaded ones together.
    routines: BTreeMap<String, BTreeSet<String>>,
    sequences: BTreeMap<String, SequenceId>,
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
        mentions.sequences =
            catalog.sequences.iter().map(|sequence| (sequence.name.clone(), sequence.id)).collect();
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

    /// Possible effects of the text, including the routines that it names.
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
            unseen: self.unseen(text),
            resets: self.resets(&all),
        }
    }

    /// Every table that the text names, and no other.
    pub fn tables_of(&self, text: &str) -> BTreeSet<TableId> {
        self.tables_named(&names_of(text))
    }

    /// Targets of the text's writes that are not in the catalog.
    fn unseen(&self, text: &str) -> Vec<String> {
        let known = |name: &String| {
            let last = name.rsplit('.').next().unwrap_or_default();
            self.tables.contains_key(name) || self.tables.contains_key(last)
        };
        targets(text).into_iter().filter(|name| !known(name)).collect()
    }

    /// Sequences that the text names if it sets one; all, if it determines them dynamically.
    fn resets(&self, names: &BTreeSet<String>) -> Vec<SequenceId> {
        if !["setval", "restart"].iter().any(|word| names.contains(*word)) {
            return Vec::new();
        }
        let named: Vec<SequenceId> =
            names.iter().filter_map(|name| self.sequences.get(name)).copied().collect();
        match named.is_empty() {
            true => self.sequences.values().copied().collect(),
            false => named,
        }
    }
}
