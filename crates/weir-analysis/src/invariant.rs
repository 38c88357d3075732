//! Invariants of every visible state: constraints, keys, indexes, views and assertions, each with a stable name and the place of its
//! declaration.

use std::collections::BTreeSet;

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{Catalog, ColumnIndex, ForeignKey, SequenceId, Table, TableId};
use weir_sql::{Application, Span};
use weir_types::SqlType;

/// Index into [`crate::Analysis::invariants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct InvariantId(pub u32);

#[derive(Clone, Debug)]
pub struct Invariant {
    /// Stable from run to run: the constraint's or assertion's name, `table.column not null` for NOT NULL.
    pub name: String,
    pub kind: InvariantKind,
    /// `None` for assertions and views, which may read many.
    pub table: Option<TableId>,
    pub columns: Vec<ColumnIndex>,
    /// As people write it.
    pub text: String,
    pub span: Span,
}

/// With the position in the catalog of what declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvariantKind {
    NotNull,
    /// Index into the table's checks.
    Check(usize),
    /// The CHECK of a column's domain: index into the table's checks.
    Domain(usize),
    /// The values of a column are among the labels of its enumeration.
    Enumeration,
    PrimaryKey,
    /// Index into the table's unique keys.
    Unique(usize),
    /// A unique `CREATE INDEX`: index into the table's indexes.
    UniqueIndex(usize),
    /// Index into the table's exclusions.
    Exclude(usize),
    /// Index into the table's foreign keys.
    ForeignKey(usize),
    Sequence(SequenceId),
    /// Index into the table's indexes.
    Index(usize),
    /// A materialized view: index into the catalog's views.
    View(usize),
    /// Index into the application's assertions.
    Assertion(usize),
}

impl InvariantKind {
    /// The word for it in `weir analyze --format json`.
    pub fn name(self) -> &'static str {
        match self {
            InvariantKind::NotNull => "not_null",
            InvariantKind::Check(_) => "check",
            InvariantKind::Domain(_) | InvariantKind::Enumeration => "domain",
            InvariantKind::Exclude(_) => "exclude",
            InvariantKind::PrimaryKey => "primary_key",
            InvariantKind::Unique(_) | InvariantKind::UniqueIndex(_) => "unique",
            InvariantKind::ForeignKey(_) => "foreign_key",
            InvariantKind::Sequence(_) => "sequence",
            InvariantKind::Index(_) => "index",
            InvariantKind::View(_) => "view",
            InvariantKind::Assertion(_) => "assertion",
        }
    }
}

/// Which invariant has which id: table by table, then views, sequences and assertions. To number them needs none of them.
#[derive(Debug)]
pub struct Numbering {
    /// By table: the id of its first invariant. The last one is the first that is no table's.
    first: Vec<u32>,
}

impl Numbering {
    pub fn new(catalog: &Catalog) -> Numbering {
        let mut next = 0;
        let mut first = vec![0];
        for table in &catalog.tables {
            next += before_foreign_keys(table) + (table.foreign_keys.len() + table.indexes.len()) as u32;
            first.push(next);
        }
        Numbering { first }
    }

    /// The invariants of the table.
    pub fn of_table(&self, table: TableId) -> impl Iterator<Item = InvariantId> + use<> {
        let at = table.0 as usize;
        (self.first[at]..self.first[at + 1]).map(InvariantId)
    }

    /// `index` among the table's foreign keys.
    pub fn of_foreign_key(&self, table: &Table, index: usize) -> InvariantId {
        InvariantId(self.first[table.id.0 as usize] + before_foreign_keys(table) + index as u32)
    }

    /// The place of an invariant that is no table's among [`others`].
    pub fn of_other(&self, place: usize) -> InvariantId {
        InvariantId(self.first[self.first.len() - 1] + place as u32)
    }

    /// Whether the invariant is a CHECK of the table, or of a domain of one of its columns.
    pub fn is_check(&self, table: &Table, id: InvariantId) -> bool {
        let (of, place) = self.place(id);
        let first = before_checks(table) as usize;
        of == Some(table.id) && (first..first + table.checks.len()).contains(&place)
    }

    /// The table of the invariant, if it is one's, and its place among the table's or among [`others`].
    pub fn place(&self, id: InvariantId) -> (Option<TableId>, usize) {
        let at = self.first.partition_point(|first| *first <= id.0) - 1;
        let table = (at + 1 < self.first.len()).then_some(TableId(at as u32));
        (table, (id.0 - self.first[at]) as usize)
    }
}

/// Number of the table's invariants that [`of_table`] gives before those of foreign keys.
fn before_foreign_keys(table: &Table) -> u32 {
    let keys = usize::from(table.primary_key.is_some()) + table.unique_keys.len();
    before_checks(table) + (table.checks.len() + keys + table.exclusions.len()) as u32
}

/// Number of the table's invariants that [`of_table`] gives before its CHECKs.
fn before_checks(table: &Table) -> u32 {
    let of_columns = table
        .columns
        .iter()
        .map(|column| u32::from(column.not_null) + u32::from(matches!(column.ty, SqlType::Enum(_))));
    of_columns.sum()
}

/// Every invariant that the application declares, in the order of [`Numbering`].
pub fn invariants(app: &Application) -> Vec<Invariant> {
    let mut list: Vec<Invariant> = app.catalog.tables.iter().flat_map(|table| of_table(app, table)).collect();
    list.extend(others(app));
    list
}

/// The invariants that are no table's: of views, sequences and assertions.
pub fn others(app: &Application) -> Vec<Invariant> {
    let mut list = Vec::new();
    for (index, view) in app.catalog.views.iter().enumerate() {
        if view.materialized {
            list.push(Invariant {
                name: view.name.clone(),
                kind: InvariantKind::View(index),
                table: None,
                columns: Vec::new(),
                text: format!("MATERIALIZED VIEW {}", view.name),
                span: view.span,
            });
        }
    }
    for sequence in &app.catalog.sequences {
        list.push(Invariant {
            name: sequence.name.clone(),
            kind: InvariantKind::Sequence(sequence.id),
            table: sequence.owner.map(|(table, _)| table),
            columns: sequence.owner.map(|(_, column)| column).into_iter().collect(),
            text: format!("{} gives each number once", sequence.name),
            span: sequence.span,
        });
    }
    for (index, assertion) in app.assertions.iter().enumerate() {
        list.push(Invariant {
            name: assertion.name.clone(),
            kind: InvariantKind::Assertion(index),
            table: None,
            columns: Vec::new(),
            text: assertion.text.clone(),
            span: assertion.span,
        });
    }
    list
}

pub fn of_table(app: &Application, table: &Table) -> Vec<Invariant> {
    let mut list = Vec::new();
    let mut add = |name: String, kind, columns: Vec<ColumnIndex>, text: String, span| {
        list.push(Invariant { name, kind, table: Some(table.id), columns, text, span });
    };
    for (index, column) in table.columns.iter().enumerate() {
        if column.not_null {
            let name = format!("{}.{} not null", table.name, column.name);
            let text = format!("{} NOT NULL", column.name);
            let span = column.not_null_span.unwrap_or(column.span);
            add(name, InvariantKind::NotNull, vec![index], text, span);
        }
        if let SqlType::Enum(of) = &column.ty {
            let name = format!("{}.{} {}", table.name, column.name, of.name);
            let text = format!("{} IN ({})", column.name, of.labels.join(", "));
            add(name, InvariantKind::Enumeration, vec![index], text, column.span);
        }
    }
    for (index, check) in table.checks.iter().enumerate() {
        let columns = columns_of_all([&check.expr]);
        let text = app.sources.text(check.span).to_string();
        let kind = match check.domain {
            Some(_) => InvariantKind::Domain(index),
            None => InvariantKind::Check(index),
        };
        add(check.name.clone(), kind, columns, text, check.span);
    }
    if let Some(key) = &table.primary_key {
        let text = format!("PRIMARY KEY {}", column_list(table, &key.columns));
        add(key.name.clone(), InvariantKind::PrimaryKey, key.columns.clone(), text, key.span);
    }
    for (index, key) in table.unique_keys.iter().enumerate() {
        let text = format!("UNIQUE {}", column_list(table, &key.columns));
        add(key.name.clone(), InvariantKind::Unique(index), key.columns.clone(), text, key.span);
    }
    for (index, exclusion) in table.exclusions.iter().enumerate() {
        let exprs = exclusion.elements.iter().map(|(expr, _)| expr).chain(&exclusion.predicate);
        let text = app.sources.text(exclusion.span).to_string();
        let columns = columns_of_all(exprs);
        add(exclusion.name.clone(), InvariantKind::Exclude(index), columns, text, exclusion.span);
    }
    for (index, key) in table.foreign_keys.iter().enumerate() {
        let text = foreign_key_text(&app.catalog, table, key);
        add(key.name.clone(), InvariantKind::ForeignKey(index), key.columns.clone(), text, key.span);
    }
    for (index, item) in table.indexes.iter().enumerate() {
        let mut columns = Vec::new();
        for key in &item.keys {
            for column in columns_of_all([&key.expr]) {
                if !columns.contains(&column) {
                    columns.push(column);
                }
            }
        }
        let unique = if item.unique { "UNIQUE " } else { "" };
        // An index that is not a plain list of columns is shown as it was written.
        let plain = item.written.is_none()
            && item.predicate.is_none()
            && item.keys.iter().all(|key| matches!(key.expr.kind, ExprKind::Column { .. }));
        let text = match plain {
            true => format!("{unique}INDEX {} {}", item.name, column_list(table, &columns)),
            false => app.sources.text(item.span).to_string(),
        };
        let kind = if item.unique { InvariantKind::UniqueIndex(index) } else { InvariantKind::Index(index) };
        add(item.name.clone(), kind, columns, text, item.span);
    }
    list
}

/// In order, each once.
pub fn columns_of_all<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<ColumnIndex> {
    let mut columns = BTreeSet::new();
    for expr in exprs {
        weir_sql::walk::columns(expr, &mut |_, column| {
            columns.insert(column);
        });
    }
    columns.into_iter().collect()
}

fn foreign_key_text(catalog: &Catalog, table: &Table, key: &ForeignKey) -> String {
    let parent = catalog.table(key.parent);
    format!(
        "FOREIGN KEY {} REFERENCES {} {}",
        column_list(table, &key.columns),
        parent.name,
        column_list(parent, &key.parent_columns)
    )
}

/// `(a, b)`.
pub fn column_list(table: &Table, columns: &[ColumnIndex]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
    format!("({})", names.join(", "))
}
