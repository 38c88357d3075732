//! Tables, views, sequences, indexes and constraints, with their columns.

use std::collections::BTreeMap;

use weir_types::function::{double_quoted, quote_identifier};
use weir_types::{SqlType, Value};

use super::deparse::Deparser;
use super::types::{aligned, collation, modifier, operator_class, stored};
use super::{Rows, split, tables, templates, text};
use crate::bound::{Expr, ExprKind};
use crate::catalog::{
    ColumnIndex, Deferral, ForeignKeyAction, Index, IndexKey, Sequence, SequenceId, Table, UniqueKey, View,
};
use crate::lexer::Lexer;

/// `pg_class` in `pg_depend`, `pg_attrdef` and `pg_rewrite`.
const CLASS: i64 = 1259;
/// The number of pg_constraint.
const CONSTRAINTS: i64 = 2606;
const ATTRDEF: i64 = 2604;
const REWRITE: i64 = 2618;

/// Parts of `weir_definitions`: pg_get_ruledef of a rule, and that a view can be written to.
const RULE: i64 = 4;
const UPDATABLE: i64 = 5;

fn attributes(columns: &[ColumnIndex]) -> Value {
    Value::array(SqlType::Int2, columns.iter().map(|column| Value::Int(*column as i64 + 1)).collect())
}

/// The name of a key without its table's schema, which one that is not given begins with.
fn own_name<'n>(table: &str, name: &'n str) -> &'n str {
    let schema = split(table).0;
    name.strip_prefix(schema).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name)
}

/// Another object of the same schema.
fn beside(table: &str, name: &str) -> String {
    match table.split_once('.') {
        Some((schema, _)) => format!("{schema}.{}", own_name(table, name)),
        None => name.to_owned(),
    }
}

/// With its schema, as SQL wants it.
fn full(name: &str) -> String {
    let (schema, name) = split(name);
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// As it is shown where `public` is in the search path.
fn short(name: &str) -> String {
    match split(name) {
        ("public", name) => quote_identifier(name),
        _ => full(name),
    }
}

/// An index, or what a key implies.
struct Indexed<'a> {
    name: &'a str,
    keys: Vec<IndexKey>,
    is_unique: bool,
    is_primary: bool,
    nulls_not_distinct: bool,
    predicate: Option<&'a Expr>,
    comment: Option<&'a str>,
}

impl<'a> Indexed<'a> {
    fn of_key(table: &Table, key: &'a UniqueKey, is_primary: bool) -> Indexed<'a> {
        let part = |column: &ColumnIndex| IndexKey {
            expr: table.read(*column, key.span),
            descending: false,
            nulls_first: false,
        };
        let keys = key.columns.iter().map(part).collect();
        let nulls_not_distinct = key.nulls_not_distinct;
        let (predicate, comment) = (None, None);
        let name = own_name(&table.name, &key.name);
        Indexed { name, keys, is_unique: true, is_primary, nulls_not_distinct, predicate, comment }
    }

    fn of_index(index: &'a Index) -> Indexed<'a> {
        Indexed {
            name: &index.name,
            keys: index.written_keys().to_vec(),
            is_unique: index.unique,
            is_primary: false,
            nulls_not_distinct: index.nulls_not_distinct,
            predicate: index.written_predicate(),
            comment: index.comment.as_deref(),
        }
    }
}

/// Of a default that is its next value.
fn sequence_of(default: &Expr) -> Option<SequenceId> {
    match &default.kind {
        ExprKind::NextValue(sequence) => Some(*sequence),
        ExprKind::Cast { operand, .. } => sequence_of(operand),
        _ => None,
    }
}

fn action(action: ForeignKeyAction) -> (&'static str, &'static str) {
    match action {
        ForeignKeyAction::NoAction => ("a", ""),
        ForeignKeyAction::Restrict => ("r", "RESTRICT"),
        ForeignKeyAction::Cascade => ("c", "CASCADE"),
        ForeignKeyAction::SetNull => ("n", "SET NULL"),
        ForeignKeyAction::SetDefault => ("d", "SET DEFAULT"),
    }
}

impl Rows<'_> {
    pub(super) fn definition(&mut self, number: i64, part: i64, plain: &str, pretty: &str) {
        let given = [
            ("oid", Value::Int(number)),
            ("part", Value::Int(part)),
            ("plain", text(plain)),
            ("pretty", text(pretty)),
        ];
        self.add("weir_definitions", &given);
    }

    pub(super) fn relations(&mut self) {
        let app = self.app;
        for table in app.catalog.tables.iter().chain(&tables().tables) {
            self.table(table);
        }
        for view in &app.catalog.views {
            self.view(view);
        }
        for sequence in &app.catalog.sequences {
            self.sequence(sequence);
        }
        for name in templates::views().keys() {
            self.class(name, "v", &[]);
        }
    }

    /// Of a relation, or of its column of that number.
    fn comment(&mut self, relation: i64, column: i64, comment: Option<&str>) {
        let Some(comment) = comment else { return };
        let given = [
            ("objoid", Value::Int(relation)),
            ("classoid", Value::Int(CLASS)),
            ("objsubid", Value::Int(column)),
            ("description", text(comment)),
        ];
        self.add("pg_description", &given);
    }

    /// Both by the table that they are in and their number there.
    fn depends(&mut self, (class, object): (i64, i64), (of_class, of): (i64, i64), kind: &str) {
        let given = [
            ("classid", Value::Int(class)),
            ("objid", Value::Int(object)),
            ("refclassid", Value::Int(of_class)),
            ("refobjid", Value::Int(of)),
            ("deptype", text(kind)),
        ];
        self.add("pg_depend", &given);
    }

    /// Gives its number.
    fn class(&mut self, name: &str, kind: &str, more: &[(&str, Value)]) -> i64 {
        let number = self.numbers.relation(name);
        let (schema, own) = split(name);
        let namespace = self.numbers.namespace(schema);
        let given = [
            ("oid", Value::Int(number)),
            ("relname", text(own)),
            ("relnamespace", Value::Int(namespace)),
            ("relkind", text(kind)),
            ("relfilenode", Value::Int(if kind == "v" { 0 } else { number })),
        ];
        self.add("pg_class", &[&given[..], more].concat());
        number
    }

    fn attribute(&mut self, relation: i64, (at, name): (usize, &str), ty: &SqlType, more: &[(&str, Value)]) {
        let (length, storage) = stored(ty);
        let (by_value, align) = aligned(ty);
        let given = [
            ("attbyval", Value::Bool(by_value)),
            ("attalign", text(align)),
            ("attrelid", Value::Int(relation)),
            ("attname", text(name)),
            ("attnum", Value::Int(at as i64 + 1)),
            ("atttypid", Value::Int(self.numbers.of_type(ty))),
            ("atttypmod", Value::Int(modifier(ty))),
            ("attlen", Value::Int(length)),
            ("attstorage", text(storage)),
            ("attndims", Value::Int(i64::from(matches!(ty, SqlType::Array(_))))),
            ("attcollation", Value::Int(collation(ty))),
        ];
        self.add("pg_attribute", &[&given[..], more].concat());
    }

    fn table(&mut self, table: &Table) {
        let app = self.app;
        let own: Vec<Indexed<'_>> = table
            .primary_key
            .iter()
            .map(|key| Indexed::of_key(table, key, true))
            .chain(table.unique_keys.iter().map(|key| Indexed::of_key(table, key, false)))
            .chain(table.indexes.iter().map(Indexed::of_index))
            .collect();
        let is_users = !table.name.starts_with("pg_catalog.");
        let has_triggers = is_users && app.catalog.triggers.iter().any(|trigger| trigger.table == table.id);
        // PostgreSQL keeps foreign keys by triggers at both ends, and clients look for keys where there are some.
        let refers = |other: &Table| other.foreign_keys.iter().any(|key| key.parent == table.id);
        let has_triggers = has_triggers
            || !table.foreign_keys.is_empty()
            || is_users && app.catalog.tables.iter().any(refers);
        let more = [
            ("relam", Value::Int(2)),
            ("relnatts", Value::Int(table.columns.len() as i64)),
            ("relhasindex", Value::Bool(!own.is_empty())),
            (
                "relchecks",
                Value::Int(table.checks.iter().filter(|check| check.domain.is_none()).count() as i64),
            ),
            ("relhastriggers", Value::Bool(has_triggers)),
            ("relrowsecurity", Value::Bool(table.row_security.0)),
            ("relforcerowsecurity", Value::Bool(table.row_security.1)),
        ];
        let relation = self.class(&table.name, "r", &more);
        self.comment(relation, 0, table.comment.as_deref());
        self.columns(table, relation, is_users);
        for index in &own {
            self.index(table, relation, index);
        }
        self.keys(table, relation);
        self.checks(table, relation);
        if is_users {
            self.foreign_keys(table, relation);
        }
    }

    fn columns(&mut self, table: &Table, relation: i64, is_users: bool) {
        let deparser = Deparser { app: self.app, columns: &table.columns, pretty: false };
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden) {
            let sequence = column.default.as_ref().filter(|_| is_users).and_then(sequence_of);
            let identity = match (column.generated_always, column.is_identity) {
                (true, _) => "a",
                (false, true) => "d",
                _ => "",
            };
            let default = match &column.generated {
                Some(expr) => Some(deparser.expr(expr)),
                None => column
                    .default
                    .as_ref()
                    .filter(|_| identity.is_empty() && is_users)
                    .map(|expr| deparser.default(expr)),
            };
            let more = [
                ("attnotnull", Value::Bool(column.not_null)),
                ("atthasdef", Value::Bool(default.is_some())),
                ("attidentity", text(identity)),
                ("attgenerated", text(if column.generated.is_some() { "s" } else { "" })),
            ];
            let of_domain = column.domain.as_ref().map(|name| {
                [("atttypid", Value::Int(self.numbers.of("type", name))), ("atttypmod", Value::Int(-1))]
            });
            let of_time = column.time_modifier.map(|modifier| [("atttypmod", Value::Int(modifier.into()))]);
            let of_time = of_time.as_ref().map_or(&[][..], |of| &of[..]);
            let more = [&more[..], of_domain.as_ref().map_or(&[], |of| &of[..]), of_time].concat();
            self.attribute(relation, (at, &column.name), &column.ty, &more);
            self.comment(relation, at as i64 + 1, column.comment.as_deref());
            if let Some(default) = default {
                let number = self.numbers.of("default", &format!("{}.{}", table.name, column.name));
                let given = [
                    ("adrelid", Value::Int(relation)),
                    ("adnum", Value::Int(at as i64 + 1)),
                    ("adbin", text(&default)),
                ];
                self.add("pg_attrdef", &[&[("oid", Value::Int(number))], &given[..]].concat());
                if let Some(sequence) = sequence {
                    let of = self.numbers.relation(&self.app.catalog.sequence(sequence).name);
                    self.depends((ATTRDEF, number), (CLASS, of), "n");
                }
            }
        }
    }

    fn index(&mut self, table: &Table, relation: i64, index: &Indexed<'_>) {
        let app = self.app;
        let name = beside(&table.name, index.name);
        let count = Value::Int(index.keys.len() as i64);
        // It has a page, and no statistics.
        let more = [
            ("relam", Value::Int(403)),
            ("relnatts", count.clone()),
            ("reltuples", Value::Float4(0.0)),
            ("relpages", Value::Int(1)),
        ];
        let number = self.class(&name, "i", &more);
        self.comment(number, 0, index.comment);
        let deparser = |pretty| Deparser { app, columns: &table.columns, pretty };
        let (plain, pretty) = (deparser(false), deparser(true));
        let mut columns = Vec::new();
        for (at, key) in index.keys.iter().enumerate() {
            let name = match key.expr.kind {
                ExprKind::Column { column, .. } => table.columns[column].name.clone(),
                ExprKind::Function { function, .. } => function.name.to_string(),
                _ => "expr".to_owned(),
            };
            self.attribute(number, (at, &name), &key.expr.ty, &[]);
            let order = match (key.descending, key.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            let is_plain = matches!(key.expr.kind, ExprKind::Column { .. } | ExprKind::Function { .. });
            let shown = plain.expr(&key.expr);
            let one = match is_plain || shown.starts_with('(') {
                true => shown,
                false => format!("({shown})"),
            };
            self.definition(number, at as i64 + 1, &one, &one);
            columns.push(format!("{one}{order}"));
        }
        let unique = if index.is_unique { "UNIQUE " } else { "" };
        let nulls = if index.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
        let head = format!("CREATE {unique}INDEX {} ON", quote_identifier(index.name));
        let tail = |deparser: &Deparser<'_>| {
            let predicate = index.predicate.map(|expr| format!(" WHERE {}", deparser.expr(expr)));
            format!("USING btree ({}){nulls}{}", columns.join(", "), predicate.unwrap_or_default())
        };
        let whole = format!("{head} {} {}", full(&table.name), tail(&plain));
        let shown = format!("{head} {} {}", short(&table.name), tail(&pretty));
        let predicate = index.predicate.map_or(Value::Null, |expr| text(&plain.expr(expr)));
        self.definition(number, 0, &whole, &shown);
        let part = |key: &IndexKey| match key.expr.kind {
            ExprKind::Column { column, .. } => Value::Int(column as i64 + 1),
            _ => Value::Int(0),
        };
        let option = |key: &IndexKey| Value::Int(i64::from(key.descending) + 2 * i64::from(key.nulls_first));
        let class = |key: &IndexKey| Value::Int(operator_class(&key.expr.ty));
        let collation_of = |key: &IndexKey| Value::Int(collation(&key.expr.ty));
        let given = [
            ("indexrelid", Value::Int(number)),
            ("indrelid", Value::Int(relation)),
            ("indnatts", count.clone()),
            ("indnkeyatts", count),
            ("indisunique", Value::Bool(index.is_unique)),
            ("indisprimary", Value::Bool(index.is_primary)),
            ("indnullsnotdistinct", Value::Bool(index.nulls_not_distinct)),
            ("indkey", Value::array(SqlType::Int8, index.keys.iter().map(part).collect())),
            ("indclass", Value::array(SqlType::Int8, index.keys.iter().map(class).collect())),
            ("indcollation", Value::array(SqlType::Int8, index.keys.iter().map(collation_of).collect())),
            ("indoption", Value::array(SqlType::Int8, index.keys.iter().map(option).collect())),
            ("indpred", predicate),
        ];
        self.add("pg_index", &given);
    }

    /// Gives its number.
    fn constraint(
        &mut self,
        table: &Table,
        name: &str,
        relation: i64,
        kind: &str,
        more: &[(&str, Value)],
    ) -> i64 {
        let number = self.numbers.of("constraint", &format!("{}.{name}", table.name));
        let namespace = self.numbers.namespace(split(&table.name).0);
        let given = [
            ("oid", Value::Int(number)),
            ("conname", text(own_name(&table.name, name))),
            ("connamespace", Value::Int(namespace)),
            ("contype", text(kind)),
            ("conrelid", Value::Int(relation)),
        ];
        self.add("pg_constraint", &[&given[..], more].concat());
        number
    }

    fn keys(&mut self, table: &Table, relation: i64) {
        let all = table.primary_key.iter().map(|key| (key, "p", "PRIMARY KEY"));
        for (key, kind, word) in all.chain(table.unique_keys.iter().map(|key| (key, "u", "UNIQUE"))) {
            let index = self.numbers.relation(&beside(&table.name, &key.name));
            let more = [
                ("conindid", Value::Int(index)),
                ("conkey", attributes(&key.columns)),
                ("connoinherit", Value::Bool(true)),
            ];
            let number = self.constraint(table, &key.name, relation, kind, &more);
            let nulls = if key.nulls_not_distinct { " NULLS NOT DISTINCT" } else { "" };
            let shown = format!("{word}{nulls} ({})", names(table, &key.columns));
            self.definition(number, 0, &shown, &shown);
        }
    }

    fn checks(&mut self, table: &Table, relation: i64) {
        for check in table.checks.iter().filter(|check| check.domain.is_none()) {
            let mut columns = Vec::new();
            crate::walk::each_expr(&check.expr, &mut |expr| {
                if let ExprKind::Column { column, .. } = expr.kind
                    && !columns.contains(&column)
                {
                    columns.push(column);
                }
            });
            let number =
                self.constraint(table, &check.name, relation, "c", &[("conkey", attributes(&columns))]);
            let shown = |pretty| {
                let deparser = Deparser { app: self.app, columns: &table.columns, pretty };
                format!("CHECK ({})", deparser.expr(&check.expr))
            };
            let (plain, pretty) = (shown(false), shown(true));
            self.definition(number, 0, &plain, &pretty);
        }
    }

    /// PostgreSQL has none: constraints of a kind of their own, of the table whose comment says them, or of none.
    pub(super) fn assertions(&mut self) {
        let app = self.app;
        let mut carried = BTreeMap::<i64, String>::new();
        for assertion in &app.assertions {
            let number = self.numbers.of("assertion", &assertion.name);
            let by_comment = |table: &&Table| Some(table.span) == assertion.comment_on;
            let table = app.catalog.tables.iter().find(by_comment);
            let relation = table.map_or(0, |table| self.numbers.relation(&table.name));
            let given = [
                ("oid", Value::Int(number)),
                ("conname", text(&assertion.name)),
                ("contype", text("a")),
                ("conrelid", Value::Int(relation)),
            ];
            self.add("pg_constraint", &given);
            let shown = format!("CHECK ({})", assertion.text);
            self.definition(number, 0, &shown, &shown);
            if let (None, Some(key)) = (table, self.key_beside(&assertion.text)) {
                let said = format!("assert {} check ({})", double_quoted(&assertion.name), assertion.text);
                let comment = carried.entry(key);
                comment
                    .and_modify(|text| text.push_str(&format!("; {said}")))
                    .or_insert(format!("weir: {said}"));
            }
        }
        for (key, comment) in carried {
            let given = [
                ("objoid", Value::Int(key)),
                ("classoid", Value::Int(CONSTRAINTS)),
                ("objsubid", Value::Int(0)),
                ("description", text(&comment)),
            ];
            self.add("pg_description", &given);
        }
    }

    /// The primary key of a table that the assertion speaks of, or of any. Its comment says the assertion, for pg_dump, which writes it
    /// behind all rows.
    fn key_beside(&mut self, assertion: &str) -> Option<i64> {
        let app = self.app;
        let tables = || app.catalog.tables.iter().filter(|table| table.primary_key.is_some());
        let speaks_of = |table: &&Table| assertion.contains(split(&table.name).1);
        let table = tables().find(speaks_of).or_else(|| tables().next())?;
        let key = table.primary_key.as_ref()?;
        Some(self.numbers.of("constraint", &format!("{}.{}", table.name, key.name)))
    }

    fn foreign_keys(&mut self, table: &Table, relation: i64) {
        let app = self.app;
        for key in &table.foreign_keys {
            let parent = app.catalog.table(key.parent);
            let referred = self.numbers.relation(&parent.name);
            let same = |one: &&UniqueKey| one.columns == key.parent_columns;
            let unique = parent.primary_key.iter().chain(&parent.unique_keys).find(same);
            let index = unique.map_or(0, |unique| self.numbers.relation(&beside(&parent.name, &unique.name)));
            let (deletes, updates) = (action(key.on_delete), action(key.on_update));
            let more = [
                ("conindid", Value::Int(index)),
                ("confrelid", Value::Int(referred)),
                ("confupdtype", text(updates.0)),
                ("confdeltype", text(deletes.0)),
                ("confmatchtype", text("s")),
                ("condeferrable", Value::Bool(key.deferral != Deferral::Never)),
                ("condeferred", Value::Bool(key.deferral == Deferral::Deferred)),
                ("connoinherit", Value::Bool(true)),
                ("conkey", attributes(&key.columns)),
                ("confkey", attributes(&key.parent_columns)),
            ];
            let number = self.constraint(table, &key.name, relation, "f", &more);
            let clause = |word: &str, (_, action): (&str, &str)| match action {
                "" => String::new(),
                action => format!(" ON {word} {action}"),
            };
            let shown = format!(
                "FOREIGN KEY ({}) REFERENCES {}({}){}{}{}",
                names(table, &key.columns),
                short(&parent.name),
                names(parent, &key.parent_columns),
                clause("UPDATE", updates),
                clause("DELETE", deletes),
                match key.deferral {
                    Deferral::Never => "",
                    Deferral::Immediate => " DEFERRABLE",
                    Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
                },
            );
            self.definition(number, 0, &shown, &shown);
        }
    }

    fn view(&mut self, view: &View) {
        let kind = if view.materialized { "m" } else { "v" };
        let columns = &view.query.columns;
        let more = [("relnatts", Value::Int(columns.len() as i64)), ("relhasrules", Value::Bool(true))];
        let relation = self.class(&view.name, kind, &more);
        self.comment(relation, 0, view.comment.as_deref());
        for (at, column) in columns.iter().enumerate() {
            self.attribute(relation, (at, &column.name), &column.ty, &[]);
        }
        // The text behind the first AS of its statement.
        let statement = self.app.sources.text(view.span);
        let body = Lexer::new(statement, 0)
            .find(|token| token.is_word(statement, "as"))
            .map_or(0, |token| token.end);
        let written = statement.get(body..).unwrap_or(statement).trim().trim_end_matches(';');
        let shown = format!(" {written};");
        self.definition(relation, 0, &shown, &shown);
        if view.target.is_some() {
            self.definition(relation, UPDATABLE, "", "");
        }
        let rule = self.numbers.of("rule", &view.name);
        let ruled =
            format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {} DO INSTEAD {shown}", full(&view.name));
        self.definition(rule, RULE, &ruled, &ruled);
        let given =
            [("oid", Value::Int(rule)), ("rulename", text("_RETURN")), ("ev_class", Value::Int(relation))];
        self.add("pg_rewrite", &given);
        self.depends((REWRITE, rule), (CLASS, relation), "i");
        // On what its text names.
        let words: Vec<String> = Lexer::new(written, 0).filter_map(|token| token.name(written)).collect();
        let catalog = &self.app.catalog;
        let tables = catalog.tables.iter().map(|table| &table.name);
        let named = |name: &&String| **name != view.name && words.iter().any(|word| word == split(name).1);
        let named: Vec<&String> =
            tables.chain(catalog.views.iter().map(|view| &view.name)).filter(named).collect();
        for name in named {
            let of = self.numbers.relation(name);
            self.depends((REWRITE, rule), (CLASS, of), "n");
        }
    }

    fn sequence(&mut self, sequence: &Sequence) {
        let relation = self.class(&sequence.name, "S", &[("relnatts", Value::Int(3))]);
        self.comment(relation, 0, sequence.comment.as_deref());
        let owner = sequence.owner.map(|(table, column)| (self.app.catalog.table(table), column));
        let ty = self.numbers.of_type(&sequence.ty);
        let given = [
            ("seqrelid", Value::Int(relation)),
            ("seqtypid", Value::Int(ty)),
            ("seqstart", Value::Int(sequence.declared_start)),
            ("seqincrement", Value::Int(sequence.increment)),
            ("seqmax", Value::Int(sequence.maximum)),
            ("seqmin", Value::Int(sequence.minimum)),
            ("seqcycle", Value::Bool(sequence.cycle)),
        ];
        self.add("pg_sequence", &given);
        if let Some((table, column)) = owner {
            let referred = self.numbers.relation(&table.name);
            let identity = table.columns[column].is_identity;
            let given = [
                ("classid", Value::Int(CLASS)),
                ("objid", Value::Int(relation)),
                ("refclassid", Value::Int(CLASS)),
                ("refobjid", Value::Int(referred)),
                ("refobjsubid", Value::Int(column as i64 + 1)),
                ("deptype", text(if identity { "i" } else { "a" })),
            ];
            self.add("pg_depend", &given);
        }
    }
}

fn names(table: &Table, columns: &[ColumnIndex]) -> String {
    columns.iter().map(|column| quote_identifier(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
}
