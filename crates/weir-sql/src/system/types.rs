//! Types: those of every database, and the schema's enumerations and domains.

use weir_types::binary::type_number;
use weir_types::{SqlType, Value};

use super::{Rows, split, text};
use crate::catalog::UserType;

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
                "public" => super::deparse::quoted(name),
                _ => format!("{}.{}", super::deparse::quoted(schema), super::deparse::quoted(name)),
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
                    let base = (self.numbers.of_type(&domain.base), modifier(&domain.base));
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
            ("typinput", text("array_in")),
            ("typoutput", text("array_out")),
        ];
        self.add("pg_type", &[&common[..], &own].concat());
        self.type_name(ty.array, &ty.shown, "[]", ty.number);
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
