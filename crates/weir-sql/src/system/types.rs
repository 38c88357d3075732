//! Types: those of every database, and the schema's enumerations and domains.

use weir_types::binary::type_number;
use weir_types::function::quote_identifier;
use weir_types::{SqlType, Value};

use super::deparse::Deparser;
use super::{Rows, split, text};
use crate::catalog::{Column, Domain, UserType};

/// Type, PostgreSQL's name, length, category.
const BUILT_IN: [(SqlType, &str, i64, &str); 19] = [
    (SqlType::Bool, "bool", 1, "B"),
    (SqlType::Bytea, "bytea", -1, "U"),
    (SqlType::Int8, "int8", 8, "N"),
    (SqlType::Int2, "int2", 2, "N"),
    (SqlType::Int4, "int4", 4, "N"),
    (SqlType::Text, "text", -1, "S"),
    (SqlType::Float4, "float4", 4, "N"),
    (SqlType::Float8, "float8", 8, "N"),
    (SqlType::Char(0), "bpchar", -1, "S"),
    (SqlType::Varchar(None), "varchar", -1, "S"),
    (SqlType::Date, "date", 4, "D"),
    (SqlType::Timestamp, "timestamp", 8, "D"),
    (SqlType::Timestamptz, "timestamptz", 8, "D"),
    (SqlType::Interval, "interval", 16, "T"),
    (SqlType::Numeric(None), "numeric", -1, "N"),
    (SqlType::Uuid, "uuid", 16, "U"),
    (SqlType::Jsonb, "jsonb", -1, "U"),
    (SqlType::Void, "void", 4, "P"),
    (SqlType::Record, "record", -1, "P"),
];

/// What `atttypmod` is for the type.
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
    let of_enum = matches!(ty, SqlType::Enum(_));
    let found = BUILT_IN.iter().find(|(one, ..)| type_number(one) == type_number(ty) && !of_enum);
    match found {
        Some((SqlType::Numeric(_), _, length, _)) => (*length, "m"),
        Some((.., length, _)) => (*length, if *length < 0 { "x" } else { "p" }),
        None if of_enum => (4, "p"),
        None => (-1, "x"),
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

/// Of types that the schema makes, of arrays, and of the rest.
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

struct Type<'a> {
    number: i64,
    array: i64,
    name: &'a str,
    shown: String,
    namespace: i64,
    length: i64,
    kind: &'a str,
    category: &'a str,
    base: (i64, i64),
    not_null: bool,
}

impl Rows<'_> {
    pub(super) fn types(&mut self) {
        for (ty, name, length, category) in &BUILT_IN {
            let number = i64::from(type_number(ty));
            let array = i64::from(type_number(&SqlType::array_of(ty.clone())));
            let kind = if *category == "P" { "p" } else { "b" };
            let shown = ty.to_string();
            let (namespace, base, not_null) = (11, (0, -1), false);
            self.one_type(&Type {
                number,
                array,
                name,
                shown,
                namespace,
                length: *length,
                kind,
                category,
                base,
                not_null,
            });
        }
        for (full, of) in &self.app.catalog.types {
            let (schema, name) = split(full);
            let namespace = self.numbers.namespace(schema);
            let (number, array) = (self.numbers.of("type", full), self.numbers.of("array", full));
            let shown = match schema {
                "public" => quote_identifier(name),
                _ => format!("{}.{}", quote_identifier(schema), quote_identifier(name)),
            };
            let (kind, category, length, base, not_null) = match of {
                UserType::Enum(labels) => {
                    for (at, label) in labels.labels.iter().enumerate() {
                        let own = self.numbers.of("label", &format!("{full}.{label}"));
                        let order = Value::Float4(at as f32 + 1.0);
                        let given = [
                            ("enumtypid", Value::Int(number)),
                            ("enumsortorder", order),
                            ("enumlabel", text(label)),
                        ];
                        self.add("pg_enum", &[&[("oid", Value::Int(own))], &given[..]].concat());
                    }
                    ("e", "E", 4, (0, -1), false)
                }
                UserType::Domain(domain) => {
                    self.domain_checks(number, namespace, domain);
                    let base = match domain.below.last() {
                        Some(below) => (self.numbers.of("type", below), -1),
                        None => (self.numbers.of_type(&domain.base), modifier(&domain.base)),
                    };
                    ("d", "U", stored(&domain.base).0, base, domain.not_null.is_some())
                }
                UserType::Opaque => ("b", "U", -1, (0, -1), false),
            };
            self.one_type(&Type {
                number,
                array,
                name,
                shown,
                namespace,
                length,
                kind,
                category,
                base,
                not_null,
            });
        }
    }

    fn one_type(&mut self, ty: &Type<'_>) {
        let common = [("typnamespace", Value::Int(ty.namespace))];
        let collation = if ty.category == "S" { 100 } else { 0 };
        let storage = match ty.name {
            "numeric" => "m",
            "void" | "record" => "p",
            _ if ty.length < 0 => "x",
            _ => "p",
        };
        let own = [
            ("oid", Value::Int(ty.number)),
            ("typname", text(ty.name)),
            ("typlen", Value::Int(ty.length)),
            ("typbyval", Value::Bool((1..=8).contains(&ty.length))),
            ("typtype", text(ty.kind)),
            ("typcategory", text(ty.category)),
            ("typarray", Value::Int(ty.array)),
            ("typbasetype", Value::Int(ty.base.0)),
            ("typtypmod", Value::Int(ty.base.1)),
            ("typnotnull", Value::Bool(ty.not_null)),
            ("typcollation", Value::Int(collation)),
            ("typstorage", text(storage)),
            ("typinput", text(&format!("{}in", ty.name))),
            ("typoutput", text(&format!("{}out", ty.name))),
        ];
        self.add("pg_type", &[&common[..], &own].concat());
        self.type_name(ty.number, &ty.shown, "", ty.number);
        if ty.array == 0 {
            return;
        }
        let own = [
            ("oid", Value::Int(ty.array)),
            ("typname", text(&format!("_{}", ty.name))),
            ("typcategory", text("A")),
            ("typelem", Value::Int(ty.number)),
            ("typcollation", Value::Int(collation)),
            ("typstorage", text("x")),
            ("typinput", text("array_in")),
            ("typoutput", text("array_out")),
        ];
        self.add("pg_type", &[&common[..], &own].concat());
        self.type_name(ty.array, &ty.shown, "[]", ty.number);
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
