//! Types: those of every database, and the schema's enumerations and domains.

use std::sync::OnceLock;

use weir_types::binary::type_number;
use weir_types::function::quote_identifier;
use weir_types::{EnumType, SqlType, Value};

use super::deparse::Deparser;
use super::{Rows, split, text};
use crate::catalog::{Column, Domain, UserType};

/// A line of `types.txt`: a type that every database has.
struct BuiltIn {
    number: i64,
    name: &'static str,
    length: i64,
    by_value: bool,
    kind: &'static str,
    category: &'static str,
    is_preferred: bool,
    element: i64,
    array: i64,
    /// Input, output, receive, send, modifiers in and out.
    functions: [&'static str; 6],
    align: &'static str,
    storage: &'static str,
    collation: i64,
    subscript: &'static str,
    /// Name shown by format_type.
    shown: String,
}

impl BuiltIn {
    fn of_line(line: &'static str) -> BuiltIn {
        let words: Vec<&'static str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("word {at} of a type: {line}"));
        let functions = [words[9], words[10], words[11], words[12], words[13], words[14]];
        BuiltIn {
            number: number(0),
            name: words[1],
            length: number(2),
            by_value: words[3] == "t",
            kind: words[4],
            category: words[5],
            is_preferred: words[6] == "t",
            element: number(7),
            array: number(8),
            functions,
            align: words[15],
            storage: words[16],
            collation: number(17),
            subscript: words[18],
            shown: words[19].replace('_', " ").replace("pg node tree", "pg_node_tree"),
        }
    }
}

fn built_in() -> &'static [BuiltIn] {
    static TYPES: OnceLock<Vec<BuiltIn>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
        lines.map(BuiltIn::of_line).collect()
    })
}

/// Built-in type of values of this type.
fn built_in_of(ty: &SqlType) -> Option<&'static BuiltIn> {
    let number = i64::from(type_number(ty));
    built_in().iter().find(|one| one.number == number)
}

/// Value of `atttypmod` for the type.
pub(super) fn modifier(ty: &SqlType) -> i64 {
    match ty {
        SqlType::Varchar(Some(length)) => i64::from(*length) + 4,
        SqlType::Char(length) if *length > 0 => i64::from(*length) + 4,
        SqlType::Numeric(Some((precision, scale))) => {
            (i64::from(*precision) << 16 | i64::from(*scale) & 0x7ff) + 4
        }
        SqlType::Array(element) => modifier(element),
        _ => -1,
    }
}

/// Its length, −1 where it varies, and how it is stored.
pub(super) fn stored(ty: &SqlType) -> (i64, &'static str) {
    match (ty, built_in_of(ty)) {
        (SqlType::Enum(_), _) => (4, "p"),
        (_, Some(found)) => (found.length, found.storage),
        (_, None) => (-1, "x"),
    }
}

/// Whether it is passed by value, and where it begins in a row.
pub(super) fn aligned(ty: &SqlType) -> (bool, &'static str) {
    match (ty, built_in_of(ty)) {
        (SqlType::Enum(_), _) => (true, "i"),
        (SqlType::Array(element), None) => (false, if aligned(element).1 == "d" { "d" } else { "i" }),
        (_, Some(found)) => (found.by_value, found.align),
        (_, None) => (false, "i"),
    }
}

/// Number, name and type of the operator classes by which ordered indexes compare.
const OPERATOR_CLASSES: [(i64, &str, SqlType); 15] = [
    (1978, "int4_ops", SqlType::Int4),
    (1979, "int2_ops", SqlType::Int2),
    (3122, "date_ops", SqlType::Date),
    (3123, "float8_ops", SqlType::Float8),
    (3124, "int8_ops", SqlType::Int8),
    (3125, "numeric_ops", SqlType::Numeric(None)),
    (3126, "text_ops", SqlType::Text),
    (3127, "timestamptz_ops", SqlType::Timestamptz),
    (3128, "timestamp_ops", SqlType::Timestamp),
    (10003, "bool_ops", SqlType::Bool),
    (10004, "bpchar_ops", SqlType::Char(0)),
    (10006, "bytea_ops", SqlType::Bytea),
    (10012, "float4_ops", SqlType::Float4),
    (10022, "interval_ops", SqlType::Interval),
    (10065, "uuid_ops", SqlType::Uuid),
];

/// First numbers of enum types, of arrays, and of other objects of the schema.
const ENUM_CLASS: i64 = 10069;
const ARRAY_CLASS: i64 = 10000;
const JSONB_CLASS: i64 = 10088;

pub(super) fn operator_class(ty: &SqlType) -> i64 {
    let ty = ty.base();
    let found = OPERATOR_CLASSES.iter().find(|(_, _, one)| type_number(one) == type_number(&ty));
    match (&ty, found) {
        (SqlType::Enum(_), _) => ENUM_CLASS,
        (SqlType::Array(_), _) => ARRAY_CLASS,
        (SqlType::Jsonb, _) => JSONB_CLASS,
        (SqlType::Varchar(_), _) => 3126,
        (_, found) => found.map_or(0, |(number, ..)| *number),
    }
}

pub(super) fn collation(ty: &SqlType) -> i64 {
    if matches!(ty, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_)) { 100 } else { 0 }
}

impl Rows<'_> {
    pub(super) fn types(&mut self) {
        for ty in built_in() {
            self.built_in_type(ty);
        }
        for (full, of) in &self.app.catalog.types {
            self.user_type(full, of);
        }
    }

    fn built_in_type(&mut self, ty: &BuiltIn) {
        let [input, output, receive, send, modifier_in, modifier_out] = ty.functions.map(text);
        let of_both = [
            ("typcollation", Value::Int(ty.collation)),
            ("typmodin", modifier_in),
            ("typmodout", modifier_out),
        ];
        let own = [
            ("oid", Value::Int(ty.number)),
            ("typname", text(ty.name)),
            ("typlen", Value::Int(ty.length)),
            ("typbyval", Value::Bool(ty.by_value)),
            ("typtype", text(ty.kind)),
            ("typcategory", text(ty.category)),
            ("typispreferred", Value::Bool(ty.is_preferred)),
            ("typelem", Value::Int(ty.element)),
            ("typarray", Value::Int(ty.array)),
            ("typinput", input),
            ("typoutput", output),
            ("typreceive", receive),
            ("typsend", send),
            ("typalign", text(ty.align)),
            ("typstorage", text(ty.storage)),
            ("typsubscript", text(ty.subscript)),
        ];
        self.add("pg_type", &[&own[..], &of_both].concat());
        self.type_name(ty.number, &ty.shown, "", ty.number);
        if ty.array != 0 {
            self.array_type((ty.array, ty.number), (ty.name, &ty.shown), (11, ty.align), &of_both);
        }
    }

    fn array_type(
        &mut self,
        (number, element): (i64, i64),
        (name, shown): (&str, &str),
        (namespace, align): (i64, &str),
        more: &[(&str, Value)],
    ) {
        let own = [
            ("oid", Value::Int(number)),
            ("typname", text(&format!("_{name}"))),
            ("typnamespace", Value::Int(namespace)),
            ("typcategory", text("A")),
            ("typelem", Value::Int(element)),
            ("typinput", text("array_in")),
            ("typoutput", text("array_out")),
            ("typreceive", text("array_recv")),
            ("typsend", text("array_send")),
            ("typanalyze", text("array_typanalyze")),
            ("typsubscript", text("array_subscript_handler")),
            ("typalign", text(if align == "d" { "d" } else { "i" })),
            ("typstorage", text("x")),
        ];
        self.add("pg_type", &[&own[..], more].concat());
        self.type_name(number, shown, "[]", element);
    }

    /// An enumeration, a domain, or what is not understood.
    fn user_type(&mut self, full: &str, of: &UserType) {
        let (schema, name) = split(full);
        let namespace = self.numbers.namespace(schema);
        let (number, array) = (self.numbers.of("type", full), self.numbers.of("array", full));
        let shown = match schema {
            "public" => quote_identifier(name),
            _ => format!("{}.{}", quote_identifier(schema), quote_identifier(name)),
        };
        let (more, align) = match of {
            UserType::Enum(labels) => (self.enumeration(number, full, labels), "i"),
            UserType::Domain(domain) => {
                self.domain_checks(number, namespace, domain);
                self.domain(domain)
            }
            UserType::Opaque => (Vec::new(), "i"),
        };
        let own = [
            ("oid", Value::Int(number)),
            ("typname", text(name)),
            ("typnamespace", Value::Int(namespace)),
            ("typarray", Value::Int(array)),
            ("typstorage", text("x")),
        ];
        self.add("pg_type", &[&own[..], &more].concat());
        self.type_name(number, &shown, "", number);
        self.array_type((array, number), (name, &shown), (namespace, align), &[]);
    }

    fn enumeration(&mut self, number: i64, full: &str, of: &EnumType) -> Vec<(&'static str, Value)> {
        for (at, label) in of.labels.iter().enumerate() {
            let own = self.numbers.of("label", &format!("{full}.{label}"));
            let given = [
                ("oid", Value::Int(own)),
                ("enumtypid", Value::Int(number)),
                ("enumsortorder", Value::Float4(at as f32 + 1.0)),
                ("enumlabel", text(label)),
            ];
            self.add("pg_enum", &given);
        }
        vec![
            ("typlen", Value::Int(4)),
            ("typbyval", Value::Bool(true)),
            ("typtype", text("e")),
            ("typcategory", text("E")),
            ("typinput", text("enum_in")),
            ("typoutput", text("enum_out")),
            ("typreceive", text("enum_recv")),
            ("typsend", text("enum_send")),
            ("typstorage", text("p")),
        ]
    }

    /// It is stored as its base is.
    fn domain(&mut self, domain: &Domain) -> (Vec<(&'static str, Value)>, &'static str) {
        let base = built_in_of(&domain.base);
        let (by_value, align) = aligned(&domain.base);
        let (length, storage) = stored(&domain.base);
        let (output, send) = match (base, &domain.base) {
            (Some(base), _) => (base.functions[1], base.functions[3]),
            (None, SqlType::Array(_)) => ("array_out", "array_send"),
            (None, _) => ("enum_out", "enum_send"),
        };
        let category = match (base, &domain.base) {
            (Some(base), _) => base.category,
            (None, SqlType::Array(_)) => "A",
            (None, _) => "E",
        };
        let default = domain
            .default
            .as_ref()
            .map(|default| Deparser { app: self.app, columns: &[], pretty: false }.default(default));
        let below = match domain.below.last() {
            Some(below) => (self.numbers.of("type", below), -1),
            None => (self.numbers.of_type(&domain.base), modifier(&domain.base)),
        };
        let more = vec![
            ("typlen", Value::Int(length)),
            ("typbyval", Value::Bool(by_value)),
            ("typtype", text("d")),
            ("typcategory", text(category)),
            ("typinput", text("domain_in")),
            ("typoutput", text(output)),
            ("typreceive", text("domain_recv")),
            ("typsend", text(send)),
            ("typalign", text(align)),
            ("typstorage", text(storage)),
            ("typbasetype", Value::Int(below.0)),
            ("typtypmod", Value::Int(below.1)),
            ("typnotnull", Value::Bool(domain.not_null.is_some())),
            ("typcollation", Value::Int(collation(&domain.base))),
            ("typdefault", default.as_deref().map_or(Value::Null, text)),
        ];
        (more, align)
    }

    fn domain_checks(&mut self, number: i64, namespace: i64, domain: &Domain) {
        for check in domain
            .checks
            .iter()
            .filter(|check| check.domain.as_ref().is_none_or(|(of, _)| *of == domain.name))
        {
            let own = self.numbers.of("constraint", &format!("{}.{}", domain.name, check.name));
            let given = [
                ("oid", Value::Int(own)),
                ("conname", text(&check.name)),
                ("connamespace", Value::Int(namespace)),
                ("contype", text("c")),
                ("contypid", Value::Int(number)),
            ];
            self.add("pg_constraint", &given);
            let value = [Column::plain("VALUE".to_owned(), domain.base.clone(), check.span)];
            let shown = |pretty| {
                let deparser = Deparser { app: self.app, columns: &value, pretty };
                format!("CHECK ({})", deparser.expr(&check.expr).replace("\"VALUE\"", "VALUE"))
            };
            let (plain, pretty) = (shown(false), shown(true));
            self.definition(own, 0, &plain, &pretty);
        }
    }

    pub(super) fn operator_classes(&mut self) {
        let known = OPERATOR_CLASSES.map(|(number, name, ty)| (number, name, i64::from(type_number(&ty))));
        // anyenum, anyarray
        let others = [
            (ENUM_CLASS, "enum_ops", 3500),
            (ARRAY_CLASS, "array_ops", 2277),
            (JSONB_CLASS, "jsonb_ops", 3802),
        ];
        for (number, name, ty) in known.into_iter().chain(others) {
            let given = [("oid", Value::Int(number)), ("opcname", text(name)), ("opcintype", Value::Int(ty))];
            self.add("pg_opclass", &given);
        }
    }

    fn type_name(&mut self, number: i64, name: &str, suffix: &str, element: i64) {
        let given = [
            ("oid", Value::Int(number)),
            ("name", text(name)),
            ("suffix", text(suffix)),
            ("element", Value::Int(element)),
        ];
        self.add("weir_type_names", &given);
    }
}
