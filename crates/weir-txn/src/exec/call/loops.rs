//! FOR over ranges, queries and arrays.

use weir_sql::bound::LoopLabel;
use weir_types::{SqlError, SqlState, Value};

use super::{Flow, Fragment, Place, Run, Stop, needs_general};
use crate::exec::ahead;
use crate::exec::program::{CompiledStep, CompiledStepKind, Homes};
use crate::exec::slots::Slot;
use crate::faults::Faults;
use crate::placement::shard_of_integer;

impl<'a, F: Faults> Run<'a, F> {
    pub(super) fn for_loop(&mut self, step: &'a CompiledStep) -> Result<Flow, Stop> {
        match &step.kind {
            CompiledStepKind::ForRange {
                slot,
                from,
                to,
                by,
                reverse,
                homes,
                ahead,
                label,
                body,
                effects,
            } => {
                let bounds = [
                    self.eval(from)?,
                    self.eval(to)?,
                    by.as_ref().map_or(Ok(Value::Int(1)), |by| self.eval(by))?,
                ];
                if bounds.iter().any(|bound| matches!(bound, Value::Deferred)) {
                    self.pass_over(effects)?;
                    return Ok(Flow::Next);
                }
                let [from, to, by] = range_bounds(bounds)?;
                let idle_elsewhere = self.elements_if_idle(homes.as_ref())?;
                let mut at = from;
                // Loops that count down or in steps are too rare to be worth it.
                let foresees = !*reverse && by == 1 && (!ahead.is_empty() || idle_elsewhere.is_some());
                let (mut foreseen_to, mut busy) = (from, u32::MAX);
                while if *reverse { at >= to } else { at <= to } {
                    weir_types::interrupt::check()?;
                    if foresees && at == foreseen_to {
                        foreseen_to = (at + ahead::ROUNDS).min(to.saturating_add(1));
                        busy = 0;
                        for (bit, round) in (at..foreseen_to).enumerate() {
                            if !idle_elsewhere.is_some_and(|arrays| self.is_elsewhere(arrays, round)) {
                                busy |= 1 << bit;
                                self.frame.set(*slot, Value::Int(round));
                                self.foresee(ahead);
                            }
                        }
                        self.look_ahead();
                    }
                    let is_busy = busy & 1 == 1;
                    busy = busy >> 1 | (1 << 31);
                    if is_busy {
                        self.frame.set(*slot, Value::Int(at));
                        match after_body(self.steps(body)?, *label) {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(flow) => return Ok(flow),
                        }
                    }
                    // A loop variable is an integer: past its end the loop is over, as in PostgreSQL.
                    at = if *reverse { at - by } else { at + by };
                    if i32::try_from(at).is_err() {
                        break;
                    }
                }
                self.set_found(from <= to && !*reverse || *reverse && from >= to);
            }
            CompiledStepKind::ForEach { slot, array, label, body, effects } => match self.eval(array)? {
                Value::Deferred => self.pass_over(effects)?,
                Value::Array(array) => {
                    for value in &array.values {
                        self.frame.set(*slot, value.clone());
                        match after_body(self.steps(body)?, *label) {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(flow) => return Ok(flow),
                        }
                    }
                    self.set_found(!array.values.is_empty());
                }
                _ => {
                    return Err(SqlError::new(
                        SqlState::NULL_VALUE_NOT_ALLOWED,
                        "FOREACH expression must not be null",
                    )
                    .into());
                }
            },
            CompiledStepKind::ForQuery { query, targets, route, label, body, effects } => {
                let rows = match self.place_of_found(route)? {
                    Place::Elsewhere(shard) => match self.rows_of(shard, targets.len())? {
                        None => return self.pass_over(effects).map(|()| Flow::Next),
                        Some(rows) => rows,
                    },
                    Place::Everywhere if self.fragment.program.shards > 1 => {
                        return Err(needs_general("a loop over rows of every shard"));
                    }
                    place => {
                        self.returned.clear();
                        self.select(query, usize::MAX, true)?;
                        let rows = self.returned.take_rows();
                        if place == Place::Here && self.fragment.role.is_prepared() {
                            let answers = &mut self.ran.answers.values;
                            answers.push(Value::Int(rows.len() as i64));
                            answers.extend(rows.iter().flatten().cloned());
                        }
                        rows
                    }
                };
                let found = !rows.is_empty();
                for row in rows {
                    for (target, value) in targets.iter().zip(row) {
                        self.assign(target, value)?;
                    }
                    match after_body(self.steps(body)?, *label) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(flow) => return Ok(flow),
                    }
                }
                self.set_found(found);
            }
            _ => unreachable!("only loops come here"),
        }
        Ok(Flow::Next)
    }

    /// The arrays that tell a round's shard, if rounds of other shards are idle here.
    fn elements_if_idle(&mut self, homes: Option<&'a Homes>) -> Result<Option<&'a [Slot]>, Stop> {
        let Some(homes) = homes else { return Ok(None) };
        for keys in &homes.fixed {
            if self.place_of(keys)? == Place::Here {
                return Ok(None);
            }
        }
        Ok(Some(&homes.elements))
    }

    /// Whether all of the arrays' elements at this index belong to other shards.
    fn is_elsewhere(&self, arrays: &[Slot], index: i64) -> bool {
        let Fragment { here, program, .. } = &self.fragment;
        let element = |array: Slot| match self.frame.get(array) {
            Value::Array(array) => array.values.get(usize::try_from(index).ok()?.checked_sub(1)?),
            _ => None,
        };
        arrays.iter().all(|&array| match element(array) {
            Some(Value::Int(key)) => shard_of_integer(*key, program.shards) != *here,
            // The statement itself says what is wrong with it.
            _ => false,
        })
    }
}

/// `Ok(true)`: next round; `Ok(false)`: the loop is over; `Err`: so is more than the loop.
pub(super) fn after_body(flow: Flow, label: LoopLabel) -> Result<bool, Flow> {
    match flow {
        Flow::Next => Ok(true),
        Flow::Continue(to) if to == label => Ok(true),
        Flow::Exit(left) if left == label => Ok(false),
        flow => Err(flow),
    }
}

pub(in crate::exec) fn range_bounds(bounds: [Value; 3]) -> Result<[i64; 3], SqlError> {
    let mut numbers = [0; 3];
    for ((number, bound), what) in
        numbers.iter_mut().zip(bounds).zip(["lower bound", "upper bound", "BY value"])
    {
        let Value::Int(value) = bound else {
            return Err(SqlError::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                format!("{what} of FOR loop cannot be null"),
            ));
        };
        *number = value;
    }
    if numbers[2] <= 0 {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "BY value of FOR loop must be greater than zero",
        ));
    }
    Ok(numbers)
}
