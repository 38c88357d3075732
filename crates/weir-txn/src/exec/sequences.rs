//! The shard's sequences, and what else an expression may ask of the world.

use std::collections::BTreeMap;

use weir_sql::bound::VolatileFunction;
use weir_sql::catalog::{Sequence, SequenceId};
use weir_types::{SqlError, SqlState, Value};

use super::context::Environment;
use super::program::Program;
use crate::ramp::message::ShardId;

/// The shard's sequences: shard `s` of `n` hands out every n-th value, so ids are unique without a word
/// to anybody (coordination-avoidance.txt §5.1, "grant some unique id").
#[derive(Debug, Default)]
pub struct Sequences {
    given: BTreeMap<SequenceId, i64>,
    random: u64,
}

pub struct Environs<'a> {
    sequences: &'a mut Sequences,
    definitions: &'a [Sequence],
    here: ShardId,
    shards: u16,
    transaction_time: i64,
}

impl Environment for Environs<'_> {
    fn next_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        let definition = &self.definitions[sequence.0 as usize];
        let given = self.sequences.given.entry(sequence).or_insert(0);
        let step = i128::from(*given) * i128::from(self.shards) + i128::from(self.here);
        let value = i128::from(definition.start) + step * i128::from(definition.increment);
        let bounds = i128::from(definition.minimum)..=i128::from(definition.maximum);
        if !bounds.contains(&value) {
            let (word, bound) = if definition.increment > 0 {
                ("maximum", definition.maximum)
            } else {
                ("minimum", definition.minimum)
            };
            return Err(SqlError::new(
                SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("nextval: reached {word} value of sequence \"{}\" ({bound})", definition.name),
            ));
        }
        *given += 1;
        Ok(Value::Int(value as i64))
    }

    fn current_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError> {
        let definition = &self.definitions[sequence.0 as usize];
        match self.sequences.given.get(&sequence) {
            Some(given) if *given > 0 => {
                let step = (given - 1) * i64::from(self.shards) + i64::from(self.here);
                Ok(Value::Int(definition.start + step * definition.increment))
            }
            _ => Err(SqlError::new(
                SqlState::parse("55000").expect("five digits"),
                format!("currval of sequence \"{}\" is not yet defined in this session", definition.name),
            )),
        }
    }

    fn volatile(&mut self, function: VolatileFunction) -> Result<Value, SqlError> {
        Ok(match function {
            VolatileFunction::ClockTimestamp => Value::Timestamp(self.transaction_time),
            VolatileFunction::Random => {
                Value::Float8((self.sequences.next_random(self.here) >> 11) as f64 / (1_u64 << 53) as f64)
            }
            VolatileFunction::GenRandomUuid => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.sequences.next_random(self.here).to_be_bytes());
                bytes[8..].copy_from_slice(&self.sequences.next_random(self.here).to_be_bytes());
                bytes[6] = bytes[6] & 0x0F | 0x40;
                bytes[8] = bytes[8] & 0x3F | 0x80;
                Value::Uuid(std::sync::Arc::new(bytes))
            }
        })
    }
}

impl Sequences {
    /// What one call, or one statement outside of calls, may ask.
    pub fn environment<'a>(
        &'a mut self,
        program: &'a Program,
        here: ShardId,
        transaction_time: i64,
    ) -> Environs<'a> {
        Environs {
            sequences: self,
            definitions: &program.sequences,
            here,
            shards: program.shards,
            transaction_time,
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014), one stream per shard.
    fn next_random(&mut self, here: ShardId) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random ^ (u64::from(here) << 48);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
