//! Types that only PostgreSQL's catalogs have, as clients see them: `oid`, `name`, `"char"`, vectors, and arrays of these.
//!
//! Values of the engine never have such a type: a number of an object is a bigint, a name is a text. What differs is the number
//! of the type that a client is told, and how values look to it.

use std::net::IpAddr;

use crate::binary::{self, parse_binary, type_of_number, write_binary};
use crate::{SqlError, SqlState, SqlType, Value};

/// A type by its number in `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogType(pub u32);

/// Names, numbers, numbers of their arrays, and lengths (`typlen`).
const KNOWN: [(&str, u32, u32, i16); 19] = [
    ("char", 18, 1002, 1),
    ("name", 19, 1003, 64),
    ("int2vector", 22, 1006, -1),
    ("regproc", 24, 1008, 4),
    ("oid", 26, 1028, 4),
    ("xid", 28, 1011, 4),
    ("cid", 29, 1012, 4),
    ("oidvector", 30, 1013, -1),
    ("pg_node_tree", 194, 0, -1),
    ("inet", 869, 1041, -1),
    ("aclitem", 1033, 1034, 12),
    ("regprocedure", 2202, 2207, 4),
    ("regclass", 2205, 2210, 4),
    ("regtype", 2206, 2211, 4),
    ("cstring", 2275, 1263, -2),
    ("anyarray", 2277, 0, -1),
    ("pg_lsn", 3220, 3221, 8),
    ("regnamespace", 4089, 4090, 4),
    ("regrole", 4096, 4097, 4),
];

const INT2VECTOR: u32 = 22;
const OIDVECTOR: u32 = 30;

impl CatalogType {
    pub const NAME: CatalogType = CatalogType(19);
    pub const OID: CatalogType = CatalogType(26);
    pub const REGTYPE: CatalogType = CatalogType(2206);

    /// Catalog type of a name that only catalogs use. The domains of `information_schema` are reported as their base types.
    pub fn of_name(name: &str) -> Option<CatalogType> {
        let number = match name {
            "sql_identifier" => Some(19),
            "character_data" | "yes_or_no" => Some(1043),
            "cardinal_number" => Some(23),
            _ => KNOWN.iter().find(|known| known.0 == name).map(|known| known.1),
        };
        number.map(CatalogType)
    }

    /// The array of it, where PostgreSQL has one.
    pub fn array(self) -> Option<CatalogType> {
        let known = KNOWN.iter().find(|known| known.1 == self.0).map(|known| known.2);
        let plain = || Some(binary::type_number(&SqlType::array_of(type_of_number(self.0)?)));
        known.or_else(plain).filter(|number| *number != 0).map(CatalogType)
    }

    /// The type of what is in it, if it is an array or a vector.
    pub fn element(self) -> Option<CatalogType> {
        let number = match (self.0, type_of_number(self.0)) {
            (INT2VECTOR, _) => 21,
            (OIDVECTOR, _) => 26,
            (_, Some(SqlType::Array(element))) => binary::type_number(&element),
            (number, _) => KNOWN.iter().find(|known| known.2 == number && number != 0)?.1,
        };
        Some(CatalogType(number))
    }

    /// `pg_type.typlen`; none: it is no type of catalogs alone.
    pub fn length(self) -> Option<i16> {
        if self.element().is_some() {
            return Some(-1);
        }
        KNOWN.iter().find(|known| known.1 == self.0).map(|known| known.3)
    }

    fn is_vector(self) -> bool {
        matches!(self.0, INT2VECTOR | OIDVECTOR)
    }

    /// Values of `ty` can be told as it.
    pub fn fits(self, ty: &SqlType) -> bool {
        match (ty, self.element()) {
            (SqlType::Array(own), Some(element)) => element.fits(own),
            (SqlType::Array(_), None) => self.0 == 2277,
            (SqlType::Int2 | SqlType::Int4 | SqlType::Int8, None) => {
                matches!(self.0, 20 | 21 | 23 | 24 | 26 | 28 | 29) || self.is_of_objects()
            }
            (SqlType::Text | SqlType::Varchar(_), None) => {
                !matches!(self.0, 26 | 28 | 29) && (self.length().is_some() || matches!(self.0, 25 | 1043))
            }
            _ => false,
        }
    }

    /// `regclass` and its like: numbers that are shown as names.
    fn is_of_objects(self) -> bool {
        matches!(self.0, 24 | 2202 | 2205 | 2206 | 4089 | 4096)
    }

    /// The value as text, where that is not the text of its own type.
    pub fn text(self, value: &Value) -> Option<String> {
        let Value::Array(array) = value else { return None };
        let number = |value: &Value| match value {
            Value::Int(int) => int.to_string(),
            _ => "0".to_owned(),
        };
        self.is_vector().then(|| array.values.iter().map(number).collect::<Vec<_>>().join(" "))
    }

    /// Appends the value, which is of `ty`, behind its length. NULL has length −1.
    ///
    /// # Errors
    /// Its binary format is not known here (0A000).
    pub fn write_field(self, value: &Value, ty: &SqlType, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let start = out.len();
        out.extend((-1_i32).to_be_bytes());
        if !value.is_null() {
            self.write(value, ty, out)?;
            let length = (out.len() - start - 4) as i32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    fn write(self, value: &Value, ty: &SqlType, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match (value, self.0) {
            (Value::Int(int), 21) => out.extend((*int as i16).to_be_bytes()),
            (Value::Int(int), 20) => out.extend(int.to_be_bytes()),
            (Value::Int(int), _) => out.extend((*int as u32).to_be_bytes()),
            (Value::Text(text), 869) => {
                write_address(text).map(|bytes| out.extend(bytes)).ok_or_else(|| self.unknown())?
            }
            (Value::Text(text), _) if self.is_of_objects() => {
                let number = if &**text == "-" { Some(0) } else { text.parse::<u32>().ok() };
                out.extend(number.ok_or_else(|| self.unknown())?.to_be_bytes());
            }
            (Value::Text(_), 1033 | 3220 | 2277) => return Err(self.unknown()),
            (Value::Array(array), _) => {
                let (element, own) = match (self.element(), ty) {
                    (Some(element), SqlType::Array(own)) => (element, &**own),
                    _ => return Err(self.unknown()),
                };
                self.write_array(&array.values, (element, own), out)?;
            }
            _ => write_binary(value, ty, out)?,
        }
        Ok(())
    }

    fn write_array(
        self,
        values: &[Value],
        (element, own): (CatalogType, &SqlType),
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        // A vector has a dimension without elements, too, and is counted from 0.
        let (has_dimension, first) = (self.is_vector() || !values.is_empty(), i32::from(!self.is_vector()));
        out.extend(i32::from(has_dimension).to_be_bytes());
        out.extend(i32::from(values.iter().any(Value::is_null)).to_be_bytes());
        out.extend(element.0.to_be_bytes());
        if has_dimension {
            out.extend((values.len() as i32).to_be_bytes());
            out.extend(first.to_be_bytes());
        }
        values.iter().try_for_each(|value| element.write_field(value, own, out))
    }

    /// Reads a parameter that its client knows as of this type, and the engine as of `ty`.
    ///
    /// # Errors
    /// As [`parse_binary`].
    pub fn parse(self, bytes: &[u8], ty: &SqlType) -> Result<Value, SqlError> {
        let unsigned = |value: Value| match value {
            Value::Int(int) => Value::Int(i64::from(int as u32)),
            other => other,
        };
        match (self.0, ty) {
            (26 | 28 | 29, SqlType::Int8) => parse_binary(bytes, &SqlType::Int4).map(unsigned),
            (1028, SqlType::Array(own)) => match parse_binary(bytes, &SqlType::array_of(SqlType::Int4))? {
                Value::Array(array) => {
                    let values = array.values.iter().cloned().map(unsigned).collect();
                    Ok(Value::array((**own).clone(), values))
                }
                other => Ok(other),
            },
            _ => parse_binary(bytes, ty),
        }
    }

    fn unknown(self) -> SqlError {
        let message = format!("the binary format of this value of the type {} is not supported", self.0);
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("ask for the text format")
    }
}

/// `inet`: the family, the bits of the network, that it is no network, and the bytes of the address.
fn write_address(text: &str) -> Option<Vec<u8>> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let (family, bytes) = match address.parse().ok()? {
        IpAddr::V4(address) => (2, address.octets().to_vec()),
        IpAddr::V6(address) => (3, address.octets().to_vec()),
    };
    let bits = match bits {
        Some(bits) => bits.parse().ok()?,
        None => bytes.len() as u8 * 8,
    };
    Some([&[family, bits, 0, bytes.len() as u8][..], &bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(of: CatalogType, value: &Value, ty: &SqlType) -> Vec<u8> {
        let mut out = Vec::new();
        of.write_field(value, ty, &mut out).unwrap();
        out
    }

    #[test]
    fn numbers_of_objects_have_four_bytes_and_come_back() {
        let largest = Value::Int(4_294_967_295);
        let bytes = written(CatalogType::OID, &largest, &SqlType::Int8);
        assert_eq!(bytes, [0, 0, 0, 4, 255, 255, 255, 255]);
        assert_eq!(CatalogType::OID.parse(&bytes[4..], &SqlType::Int8).unwrap(), largest);
        let ty = SqlType::array_of(SqlType::Int8);
        let several = Value::array(SqlType::Int8, vec![Value::Int(1), largest, Value::Int(0)]);
        let array = CatalogType::OID.array().unwrap();
        let bytes = written(array, &several, &ty);
        assert_eq!(array.parse(&bytes[4..], &ty).unwrap(), several);
    }

    #[test]
    fn a_vector_is_counted_from_zero() {
        let ty = SqlType::array_of(SqlType::Int8);
        let vector = CatalogType::of_name("int2vector").unwrap();
        let value = Value::array(SqlType::Int8, vec![Value::Int(2), Value::Int(1)]);
        assert_eq!(vector.text(&value).unwrap(), "2 1");
        let bytes = written(vector, &value, &ty);
        assert_eq!(
            bytes[4..],
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 2, 0, 1]
        );
    }
}
