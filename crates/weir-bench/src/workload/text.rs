//! Texts: random ones, and TPC-C's two named generators (clause 4.3).

use weir_types::Value;

use super::code::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Letters of both cases and digits. Six random bits choose one of 64, so 'e' and 'n' come twice as often.
    Alphanumeric,
    Lowercase,
    Digits,
}

const ALPHANUMERIC: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789en";

/// Longer texts than this are refused: a slip in a length would otherwise take all the memory.
const LENGTH_MAX: i64 = 1 << 20;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

const ORIGINAL: &[u8] = b"ORIGINAL";

fn fill(alphabet: Alphabet, bytes: &mut [u8], context: &mut Context) {
    for chunk in bytes.chunks_mut(10) {
        let mut bits = context.random_bits();
        for byte in chunk {
            let six = bits & 63;
            *byte = match alphabet {
                Alphabet::Alphanumeric => ALPHANUMERIC[six as usize],
                Alphabet::Lowercase => b'a' + context.below(26) as u8,
                Alphabet::Digits => b'0' + context.below(10) as u8,
            };
            bits >>= 6;
        }
    }
}

fn with_bytes(length: i64, context: &mut Context, make: impl FnOnce(&mut [u8], &mut Context)) -> Value {
    if !(0..=LENGTH_MAX).contains(&length) {
        context.fail(|| format!("a text of {length} characters; 0 to {LENGTH_MAX} are possible"));
        return Value::Null;
    }
    let mut buffer = [0u8; 512];
    let length = length as usize;
    let mut long = Vec::new();
    let bytes = if length <= buffer.len() {
        &mut buffer[..length]
    } else {
        long.resize(length, 0);
        &mut long[..]
    };
    make(bytes, context);
    Value::text(std::str::from_utf8(bytes).unwrap_or_default())
}

pub(crate) fn random(alphabet: Alphabet, low: i64, high: i64, context: &mut Context) -> Value {
    let length = if low == high { low } else { context.uniform(low, high) };
    with_bytes(length, context, |bytes, context| fill(alphabet, bytes, context))
}

/// Clause 4.3.2.3: the three digits of the number as syllables.
pub(crate) fn tpcc_last_name(number: i64, context: &mut Context) -> Value {
    if !(0..=999).contains(&number) {
        context.fail(|| format!("tpcc_last_name({number}): names are numbered 0 to 999"));
        return Value::Null;
    }
    let digit = |power: i64| SYLLABLES[(number / power % 10) as usize];
    Value::text([digit(100), digit(10), digit(1)].concat())
}

/// Clause 4.3.3.1: a random text, in one of ten with 'ORIGINAL' somewhere inside.
pub(crate) fn tpcc_original(low: i64, high: i64, context: &mut Context) -> Value {
    let length = context.uniform(low, high);
    with_bytes(length, context, |bytes, context| {
        fill(Alphabet::Alphanumeric, bytes, context);
        if context.below(10) == 0 && bytes.len() >= ORIGINAL.len() {
            let at = context.below((bytes.len() - ORIGINAL.len() + 1) as u64) as usize;
            bytes[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
    })
}
