//! Numbers (OIDs) of what a schema has: PostgreSQL's for what every database has, and for the rest one that follows from its kind and
//! name, so that every front end gives the same.

use std::collections::BTreeMap;

use weir_types::SqlType;
use weir_types::binary::type_number;

/// The first number that PostgreSQL gives to what users make.
const USERS: i64 = 16384;

/// Of the tables that others refer to by number.
const KNOWN: [(&str, i64); 20] = [
    ("pg_class", 1259),
    ("pg_attribute", 1249),
    ("pg_type", 1247),
    ("pg_proc", 1255),
    ("pg_namespace", 2615),
    ("pg_constraint", 2606),
    ("pg_attrdef", 2604),
    ("pg_index", 2610),
    ("pg_trigger", 2620),
    ("pg_rewrite", 2618),
    ("pg_description", 2609),
    ("pg_depend", 2608),
    ("pg_sequence", 2224),
    ("pg_database", 1262),
    ("pg_authid", 1260),
    ("pg_am", 2601),
    ("pg_opclass", 2616),
    ("pg_operator", 2617),
    ("pg_collation", 3456),
    ("pg_language", 2612),
];

#[derive(Default)]
pub(super) struct Numbers {
    given: BTreeMap<(&'static str, String), i64>,
    taken: BTreeMap<i64, ()>,
}

impl Numbers {
    /// The same for the same kind and name; no two have the same.
    pub(super) fn of(&mut self, kind: &'static str, name: &str) -> i64 {
        if let Some(number) = self.given.get(&(kind, name.to_owned())) {
            return *number;
        }
        // FNV-1a.
        let hash = kind.bytes().chain([0]).chain(name.bytes());
        let hash = hash.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let span = (i64::from(i32::MAX) - USERS) as u64;
        let mut number = USERS + (hash % span) as i64;
        while self.taken.contains_key(&number) {
            number = USERS + (number - USERS + 1) % span as i64;
        }
        self.taken.insert(number, ());
        self.given.insert((kind, name.to_owned()), number);
        number
    }

    pub(super) fn namespace(&mut self, name: &str) -> i64 {
        match name {
            "pg_catalog" => 11,
            "public" => 2200,
            name => self.of("schema", name),
        }
    }

    /// A table, index, sequence or view, by the name that it is known by.
    pub(super) fn relation(&mut self, name: &str) -> i64 {
        let known =
            name.strip_prefix("pg_catalog.").and_then(|name| KNOWN.iter().find(|(one, _)| *one == name));
        known.map_or_else(|| self.of("relation", name), |(_, number)| *number)
    }

    pub(super) fn of_type(&mut self, ty: &SqlType) -> i64 {
        match ty {
            SqlType::Enum(of) => self.of("type", &of.name),
            SqlType::Opaque(name) => self.of("type", name),
            SqlType::Array(element) => match &**element {
                SqlType::Enum(of) => self.of("array", &of.name),
                SqlType::Opaque(name) => self.of("array", name),
                _ => type_number(ty).into(),
            },
            ty => type_number(ty).into(),
        }
    }
}
