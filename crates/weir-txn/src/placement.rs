//! Placement of rows: the shard of a row's partition values.
//!
//! The same on every machine and in every version; which columns place a row is the plan's.

use std::borrow::Cow;
use std::sync::Arc;

use weir_types::value::Array;
use weir_types::{SqlType, Value};

use weir_core::ids::ShardId;

/// Normalises a value so that equal values have the same placement: 1.5 and 1.50 are one number.
fn placed(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Numeric(numeric) => Cow::Owned(Value::Numeric(numeric.trim_scale())),
        Value::Float4(float) if *float == 0.0 => Cow::Owned(Value::Float4(0.0)),
        Value::Float8(float) if *float == 0.0 => Cow::Owned(Value::Float8(0.0)),
        Value::Interval(interval) => Cow::Owned(Value::Text(interval.span_microseconds().to_string().into())),
        Value::Jsonb(json) => Cow::Owned(Value::Jsonb(Arc::new(json.with_plain_numbers()))),
        // Equal arrays may have different element types: varchar(3) and text.
        Value::Array(array) => {
            let values = array.values.iter().map(|value| placed(value).into_owned()).collect();
            Cow::Owned(Value::Array(Arc::new(Array { element: SqlType::Unknown, values })))
        }
        Value::Record(fields) => {
            let fields = fields.iter().map(|value| placed(value).into_owned()).collect();
            Cow::Owned(Value::Record(Arc::new(fields)))
        }
        value => Cow::Borrowed(value),
    }
}

/// Returns whether earlier builds placed rows with such keys differently, because equal values did not have the same placement.
pub fn is_placed_anew(ty: &SqlType) -> bool {
    use SqlType::{Array, Float4, Float8, Interval, Jsonb, Numeric};
    matches!(ty.base(), Numeric(_) | Float4 | Float8 | Interval | Jsonb | Array(_))
}

/// Shard of these partition values. A single integer is taken modulo the number of shards, so that consecutive warehouses are on
/// different shards.
pub fn shard_of(values: &[Value], shards: u16) -> ShardId {
    if let [Value::Int(value)] = values {
        return shard_of_integer(*value, shards);
    }
    let shards = u64::from(shards);
    // FNV-1a over the text of the values: the same on every machine and in every version.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for value in values {
        for byte in format!("{:?}", placed(value)).bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    (hash % shards) as ShardId
}

/// An arbitrary shard that depends only on the arguments.
pub fn shard_of_arguments(args: &[Value], shards: u16) -> ShardId {
    if args.is_empty() { 0 } else { shard_of(args, shards) }
}

#[inline]
pub fn shard_of_integer(value: i64, shards: u16) -> ShardId {
    // 32-bit division is several times faster, and most keys fit.
    match u32::try_from(value) {
        Ok(value) => (value % u32::from(shards)) as ShardId,
        Err(_) => value.rem_euclid(i64::from(shards)) as ShardId,
    }
}
