//! A row as bytes: what has a fixed width lies at a fixed place, what varies lies behind it.
//!
//! ```text
//! order timestamp (8) | null bits | fixed-width columns | ends of the variable columns (4 each) | their bytes
//! ```
//!
//! Packed rows keep memory near the raw size of the data, and a column is read without its neighbours.

use std::sync::Arc;

use arcstr::ArcStr;
use weir_sql::catalog::ColumnIndex;
use weir_types::datetime::SessionZone;
use weir_types::interrupt::uninterrupted;
use weir_types::numeric::Numeric;
use weir_types::text::{parse_text, to_text};
use weir_types::value::Interval;
use weir_types::{SqlType, Value};

use super::key::{KeyBytes, push_key};
use super::schema::IndexColumn;

/// A packed row.
pub type Packed = Box<[u8]>;

/// Bytes at some places of a row. Exchanged with the row's own it is what undoes itself.
#[derive(Clone, Debug)]
pub struct Patch {
    count: usize,
    length: usize,
    /// Offset and length of each place.
    places: [(u16, u8); PATCH_PLACES],
    bytes: [u8; PATCH_BYTES],
}

const PATCH_PLACES: usize = 8;
const PATCH_BYTES: usize = 64;

impl Patch {
    fn new() -> Patch {
        Patch { count: 0, length: 0, places: [(0, 0); PATCH_PLACES], bytes: [0; PATCH_BYTES] }
    }

    /// Every patch begins with the row's timestamp.
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.bytes[..8].copy_from_slice(&timestamp.to_le_bytes());
    }

    /// Puts the bytes into the row and keeps those that were there.
    pub fn exchange(&mut self, row: &mut [u8]) {
        fn swap<const N: usize>(row: &mut [u8], bytes: &mut [u8]) {
            if let (Some(row), Some(bytes)) = (row.first_chunk_mut::<N>(), bytes.first_chunk_mut::<N>()) {
                std::mem::swap(row, bytes);
            }
        }
        let mut at = 0;
        for &(offset, length) in &self.places[..self.count] {
            let length = usize::from(length);
            let (row, bytes) = (&mut row[usize::from(offset)..], &mut self.bytes[at..]);
            match length {
                8 => swap::<8>(row, bytes),
                4 => swap::<4>(row, bytes),
                _ => row[..length].swap_with_slice(&mut bytes[..length]),
            }
            at += length;
        }
    }

    /// Room for one more place; `None` if the patch is full.
    fn push(&mut self, offset: usize, length: usize) -> Option<&mut [u8]> {
        let at = self.length;
        let bytes = self.bytes.get_mut(at..at + length)?;
        *self.places.get_mut(self.count)? = (u16::try_from(offset).ok()?, length as u8);
        self.count += 1;
        self.length += length;
        Some(bytes)
    }
}

#[derive(Clone, Debug)]
pub struct Layout {
    fields: Vec<Field>,
    nulls_at: usize,
    ends_at: usize,
    /// Where the bytes of the variable columns begin.
    tail_at: usize,
}

#[derive(Clone, Debug)]
enum Field {
    Fixed { offset: usize, kind: Fixed },
    Variable { ordinal: usize, kind: Variable },
}

#[derive(Clone, Copy, Debug)]
enum Fixed {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Date,
    Timestamp,
    /// `numeric(p, s)` with p ≤ 18: the mantissa at scale s; `i64::MIN` is NaN.
    Decimal {
        scale: u8,
    },
    Uuid,
    Interval,
}

#[derive(Clone, Debug)]
enum Variable {
    Text,
    Bytea,
    /// Anything else by its text form, which PostgreSQL guarantees to read back as the same value.
    Other(SqlType),
}

impl Fixed {
    fn of(ty: &SqlType) -> Option<Fixed> {
        Some(match ty {
            SqlType::Bool => Fixed::Bool,
            SqlType::Int2 => Fixed::Int2,
            SqlType::Int4 => Fixed::Int4,
            SqlType::Int8 => Fixed::Int8,
            SqlType::Float4 => Fixed::Float4,
            SqlType::Float8 => Fixed::Float8,
            SqlType::Date => Fixed::Date,
            SqlType::Timestamp | SqlType::Timestamptz => Fixed::Timestamp,
            SqlType::Numeric(Some((precision, scale))) if *precision <= 18 && (0..=18).contains(scale) => {
                Fixed::Decimal { scale: *scale as u8 }
            }
            SqlType::Uuid => Fixed::Uuid,
            SqlType::Interval => Fixed::Interval,
            _ => return None,
        })
    }

    fn width(self) -> usize {
        match self {
            Fixed::Bool => 1,
            Fixed::Int2 => 2,
            Fixed::Int4 | Fixed::Float4 | Fixed::Date => 4,
            Fixed::Int8 | Fixed::Float8 | Fixed::Timestamp | Fixed::Decimal { .. } => 8,
            Fixed::Uuid | Fixed::Interval => 16,
        }
    }
}

impl Layout {
    pub fn new(types: &[SqlType]) -> Layout {
        let nulls_at = 8;
        let mut offset = nulls_at + types.len().div_ceil(8);
        let mut variables = 0;
        let mut fields = Vec::with_capacity(types.len());
        for ty in types {
            fields.push(match Fixed::of(ty) {
                Some(kind) => {
                    let field = Field::Fixed { offset, kind };
                    offset += kind.width();
                    field
                }
                None => {
                    let kind = match ty {
                        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => Variable::Text,
                        SqlType::Bytea => Variable::Bytea,
                        other => Variable::Other(other.clone()),
                    };
                    variables += 1;
                    Field::Variable { ordinal: variables - 1, kind }
                }
            });
        }
        Layout { fields, nulls_at, ends_at: offset, tail_at: offset + 4 * variables }
    }

    /// Packs one value per column, each already of its column's type.
    pub fn pack(&self, timestamp: u64, values: &[Value]) -> Packed {
        assert_eq!(values.len(), self.fields.len(), "one value per column");
        let tail: usize =
            self.fields.iter().zip(values).map(|(field, value)| Self::tail_hint(field, value)).sum();
        let mut row = Vec::with_capacity(self.tail_at + tail);
        row.resize(self.tail_at, 0);
        row[..8].copy_from_slice(&timestamp.to_le_bytes());
        for (column, (field, value)) in self.fields.iter().zip(values).enumerate() {
            if value.is_null() {
                row[self.nulls_at + column / 8] |= 1 << (column % 8);
            }
            match field {
                Field::Fixed { offset, kind } => Self::write_fixed(&mut row, *offset, *kind, value),
                Field::Variable { ordinal, kind } => {
                    Self::append(&mut row, kind, value);
                    let end = (row.len() - self.tail_at) as u32;
                    let at = self.ends_at + 4 * ordinal;
                    row[at..at + 4].copy_from_slice(&end.to_le_bytes());
                }
            }
        }
        row.into_boxed_slice()
    }

    /// Bytes of the values alone: fixed widths and the bytes of what varies.
    pub fn raw_bytes(&self, row: &[u8]) -> usize {
        let fixed = |field: &Field| match field {
            Field::Fixed { kind, .. } => kind.width(),
            Field::Variable { .. } => 0,
        };
        self.fields.iter().map(fixed).sum::<usize>() + row.len() - self.tail_at
    }

    fn tail_hint(field: &Field, value: &Value) -> usize {
        match (field, value) {
            (Field::Variable { .. }, Value::Text(text)) => text.len(),
            (Field::Variable { .. }, Value::Bytea(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    pub fn timestamp(row: &[u8]) -> u64 {
        u64::from_le_bytes(row[..8].try_into().expect("8 bytes"))
    }

    pub fn set_timestamp(row: &mut [u8], timestamp: u64) {
        row[..8].copy_from_slice(&timestamp.to_le_bytes());
    }

    pub fn is_null(&self, row: &[u8], column: ColumnIndex) -> bool {
        row[self.nulls_at + column / 8] & (1 << (column % 8)) != 0
    }

    pub fn read(&self, row: &[u8], column: ColumnIndex) -> Value {
        if self.is_null(row, column) {
            return Value::Null;
        }
        match &self.fields[column] {
            Field::Fixed { offset, kind } => Self::read_fixed(row, *offset, *kind),
            Field::Variable { ordinal, kind } => {
                let bytes = self.variable(row, *ordinal);
                match kind {
                    Variable::Text => Value::Text(ArcStr::from(stored_text(bytes))),
                    Variable::Bytea => Value::Bytea(Arc::new(bytes.to_vec())),
                    Variable::Other(ty) => uninterrupted(|| parse_text(stored_text(bytes), ty))
                        .expect("storage wrote this text itself"),
                }
            }
        }
    }

    /// Appends a column of an index key; the frequent kinds without a value in between.
    pub fn push_key(&self, key: &mut KeyBytes, row: &[u8], column: ColumnIndex, schema: &IndexColumn) {
        if !schema.nullable && !schema.descending {
            match &self.fields[column] {
                Field::Fixed { offset, kind: Fixed::Int4 } => {
                    let bytes = row[*offset..*offset + 4].try_into().expect("4 bytes");
                    return key.push_array((u32::from_le_bytes(bytes) ^ (1 << 31)).to_be_bytes());
                }
                Field::Fixed { offset, kind: Fixed::Int8 } => {
                    let bytes = row[*offset..*offset + 8].try_into().expect("8 bytes");
                    return key.push_array((u64::from_le_bytes(bytes) ^ (1 << 63)).to_be_bytes());
                }
                _ => {}
            }
        }
        push_key(key, &self.read(row, column), schema);
    }

    fn variable<'a>(&self, row: &'a [u8], ordinal: usize) -> &'a [u8] {
        let end = |ordinal: usize| {
            let at = self.ends_at + 4 * ordinal;
            u32::from_le_bytes(row[at..at + 4].try_into().expect("4 bytes")) as usize
        };
        let start = if ordinal == 0 { 0 } else { end(ordinal - 1) };
        &row[self.tail_at + start..self.tail_at + end(ordinal)]
    }

    /// The changes as a patch, if all of them are of fixed width and they are not many.
    pub fn patch(&self, row: &[u8], timestamp: u64, changes: &[(ColumnIndex, Value)]) -> Option<Patch> {
        let mut patch = Patch::new();
        patch.push(0, 8)?.copy_from_slice(&timestamp.to_le_bytes());
        let mut nulls_change = false;
        for (column, value) in changes {
            let (offset, kind) = match (&self.fields[*column], value) {
                (Field::Fixed { offset, kind }, _) => (*offset, *kind),
                // A text that is written back as it was.
                (Field::Variable { ordinal, kind: Variable::Text }, Value::Text(text))
                    if !self.is_null(row, *column) && self.variable(row, *ordinal) == text.as_bytes() =>
                {
                    continue;
                }
                _ => return None,
            };
            Self::write_fixed(patch.push(offset, kind.width())?, 0, kind, value);
            nulls_change |= value.is_null() != self.is_null(row, *column);
        }
        if nulls_change {
            let nulls = patch.push(self.nulls_at, self.fields.len().div_ceil(8))?;
            nulls.copy_from_slice(&row[self.nulls_at..self.nulls_at + nulls.len()]);
            for (column, value) in changes {
                let bit = 1 << (column % 8);
                let byte = &mut nulls[column / 8];
                *byte = if value.is_null() { *byte | bit } else { *byte & !bit };
            }
        }
        Some(patch)
    }

    /// The row with some columns changed. Only fixed-width changes are a plain copy and patch.
    pub fn changed(&self, row: &[u8], timestamp: u64, changes: &[(ColumnIndex, Value)]) -> Packed {
        if let Some(mut patch) = self.patch(row, timestamp, changes) {
            let mut row: Packed = row.into();
            patch.exchange(&mut row);
            return row;
        }
        // A variable column changes: its neighbours' bytes are copied as they are.
        let changed =
            |column: ColumnIndex| changes.iter().find(|(of, _)| *of == column).map(|(_, value)| value);
        let grown: usize =
            changes.iter().map(|(column, value)| Self::tail_hint(&self.fields[*column], value)).sum();
        let mut new = Vec::with_capacity(row.len() + grown);
        new.extend_from_slice(&row[..self.tail_at]);
        Self::set_timestamp(&mut new, timestamp);
        for (column, field) in self.fields.iter().enumerate() {
            let value = changed(column);
            if let Some(value) = value {
                let bit = 1 << (column % 8);
                let nulls = &mut new[self.nulls_at + column / 8];
                *nulls = if value.is_null() { *nulls | bit } else { *nulls & !bit };
            }
            match (field, value) {
                (Field::Fixed { .. }, None) => {}
                (Field::Fixed { offset, kind }, Some(value)) => {
                    Self::write_fixed(&mut new, *offset, *kind, value)
                }
                (Field::Variable { ordinal, kind }, value) => {
                    match value {
                        Some(value) => Self::append(&mut new, kind, value),
                        None => new.extend_from_slice(self.variable(row, *ordinal)),
                    }
                    let end = (new.len() - self.tail_at) as u32;
                    let at = self.ends_at + 4 * ordinal;
                    new[at..at + 4].copy_from_slice(&end.to_le_bytes());
                }
            }
        }
        new.into_boxed_slice()
    }

    fn write_fixed(row: &mut [u8], offset: usize, kind: Fixed, value: &Value) {
        let slot = &mut row[offset..offset + kind.width()];
        match (kind, value) {
            (_, Value::Null) => slot.fill(0),
            (Fixed::Bool, Value::Bool(value)) => slot[0] = u8::from(*value),
            (Fixed::Int2, Value::Int(value)) => slot.copy_from_slice(&(*value as i16).to_le_bytes()),
            (Fixed::Int4, Value::Int(value)) => slot.copy_from_slice(&(*value as i32).to_le_bytes()),
            (Fixed::Int8, Value::Int(value)) => slot.copy_from_slice(&value.to_le_bytes()),
            (Fixed::Float4, Value::Float4(value)) => slot.copy_from_slice(&value.to_le_bytes()),
            (Fixed::Float8, Value::Float8(value)) => slot.copy_from_slice(&value.to_le_bytes()),
            (Fixed::Date, Value::Date(value)) => slot.copy_from_slice(&value.to_le_bytes()),
            (Fixed::Timestamp, Value::Timestamp(value)) => slot.copy_from_slice(&value.to_le_bytes()),
            (Fixed::Decimal { scale }, Value::Numeric(value)) => {
                slot.copy_from_slice(&decimal_mantissa(value, scale).to_le_bytes());
            }
            (Fixed::Uuid, Value::Uuid(value)) => slot.copy_from_slice(&value[..]),
            (Fixed::Interval, Value::Interval(value)) => {
                slot[..4].copy_from_slice(&value.months.to_le_bytes());
                slot[4..8].copy_from_slice(&value.days.to_le_bytes());
                slot[8..].copy_from_slice(&value.microseconds.to_le_bytes());
            }
            (kind, value) => panic!("a {kind:?} column was given {value:?}: the binder missed a cast"),
        }
    }

    fn read_fixed(row: &[u8], offset: usize, kind: Fixed) -> Value {
        fn at<const N: usize>(row: &[u8], offset: usize) -> [u8; N] {
            row[offset..offset + N].try_into().expect("the layout fits the row")
        }
        match kind {
            Fixed::Bool => Value::Bool(row[offset] != 0),
            Fixed::Int2 => Value::Int(i64::from(i16::from_le_bytes(at(row, offset)))),
            Fixed::Int4 => Value::Int(i64::from(i32::from_le_bytes(at(row, offset)))),
            Fixed::Int8 => Value::Int(i64::from_le_bytes(at(row, offset))),
            Fixed::Float4 => Value::Float4(f32::from_le_bytes(at(row, offset))),
            Fixed::Float8 => Value::Float8(f64::from_le_bytes(at(row, offset))),
            Fixed::Date => Value::Date(i32::from_le_bytes(at(row, offset))),
            Fixed::Timestamp => Value::Timestamp(i64::from_le_bytes(at(row, offset))),
            Fixed::Decimal { scale } => match i64::from_le_bytes(at(row, offset)) {
                i64::MIN => Value::Numeric(Numeric::nan()),
                mantissa => Value::Numeric(Numeric::Small { scale, mantissa }),
            },
            Fixed::Uuid => Value::Uuid(Arc::new(at(row, offset))),
            Fixed::Interval => Value::Interval(Arc::new(Interval {
                months: i32::from_le_bytes(at(row, offset)),
                days: i32::from_le_bytes(at(row, offset + 4)),
                microseconds: i64::from_le_bytes(at(row, offset + 8)),
            })),
        }
    }

    fn append(row: &mut Vec<u8>, kind: &Variable, value: &Value) {
        match (kind, value) {
            (_, Value::Null) => {}
            (Variable::Text, Value::Text(text)) => row.extend_from_slice(text.as_bytes()),
            (Variable::Bytea, Value::Bytea(bytes)) => row.extend_from_slice(bytes),
            (Variable::Other(ty), value) => {
                let _zone = SessionZone::UTC.enter();
                row.extend_from_slice(to_text(value, ty).as_bytes());
            }
            (kind, value) => panic!("a {kind:?} column was given {value:?}: the binder missed a cast"),
        }
    }
}

fn stored_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("storage wrote this text itself")
}

/// The value is of a numeric(p ≤ 18, s) type, so its mantissa at scale s fits.
fn decimal_mantissa(value: &Numeric, scale: u8) -> i64 {
    match value {
        Numeric::Small { scale: own, mantissa } if *own == scale => *mantissa,
        other if other.is_nan() => i64::MIN,
        other => match other.apply_modifier(18, i16::from(scale)) {
            Ok(Numeric::Small { scale: own, mantissa }) if own == scale => mantissa,
            unfit => panic!("the binder missed a cast to numeric(18,{scale}): {unfit:?}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use weir_types::interrupt::{Budget, Interrupts, check};

    use super::*;

    /// Reading a stored value cannot fail, and its caller holds the storage: a statement that is to end does so at its next check.
    #[test]
    fn a_stored_value_is_read_by_a_statement_that_is_to_end() {
        let numbers = (1..=1_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let types = [SqlType::Jsonb, SqlType::array_of(SqlType::Int4)];
        let values = [format!("[{numbers}]"), format!("{{{numbers}}}")];
        let values: Vec<Value> =
            values.iter().zip(&types).map(|(text, ty)| parse_text(text, ty).unwrap()).collect();
        let layout = Layout::new(&types);
        let row = layout.pack(7, &values);
        let watch = Arc::new(Interrupts::default());
        let _watch = watch.watch_within((1, 1, 0), Some(Budget(0)));
        let read: Vec<Value> = (0..types.len()).map(|column| layout.read(&row, column)).collect();
        assert_eq!(read, values);
        assert!(check().is_err(), "its checks have been counted");
    }

    /// A changed row is the row that packing the new values gives, and a patch undoes itself.
    #[test]
    fn a_patch_is_a_pack_of_the_new_values() {
        let types = [
            SqlType::Int4,
            SqlType::Text,
            SqlType::Numeric(Some((12, 2))),
            SqlType::Varchar(Some(9)),
            SqlType::Bool,
        ];
        let layout = Layout::new(&types);
        let parse = |text: &str, ty: &SqlType| match text {
            "-" => Value::Null,
            text => parse_text(text, ty).expect(text),
        };
        let row = |texts: [&str; 5]| -> Vec<Value> {
            texts.iter().zip(&types).map(|(text, ty)| parse(text, ty)).collect()
        };
        let before = row(["1", "one", "1.50", "x", "t"]);
        for after in [
            ["2", "one", "1.50", "x", "t"],
            ["1", "a longer one", "1.50", "x", "t"],
            ["1", "", "-", "yy", "f"],
            ["-", "-", "-2.00", "-", "-"],
            ["1", "one", "1.50", "x", "t"],
        ] {
            let after = row(after);
            let changes: Vec<(ColumnIndex, Value)> = after
                .iter()
                .enumerate()
                .filter(|(column, value)| **value != before[*column])
                .map(|(column, value)| (column, value.clone()))
                .collect();
            let patched = layout.changed(&layout.pack(7, &before), 8, &changes);
            let read: Vec<Value> = (0..types.len()).map(|column| layout.read(&patched, column)).collect();
            assert_eq!(read, after);
            assert_eq!(Layout::timestamp(&patched), 8);
            let original = layout.pack(7, &before);
            if let Some(mut patch) = layout.patch(&original, 8, &changes) {
                let mut row = original.clone();
                patch.exchange(&mut row);
                assert_eq!(row, patched);
                patch.exchange(&mut row);
                assert_eq!(row, original);
            }
        }
    }
}
