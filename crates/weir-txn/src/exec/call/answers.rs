//! Where a statement runs, what it gives, and what other shards' statements gave.

use std::ops::ControlFlow;

use smallvec::SmallVec;
use weir_core::ids::ShardId;
use weir_types::{SqlError, SqlState, Value};

use super::values::assigned;
use super::{Place, Role, Run, Stop, internal, needs_general};
use crate::exec::expr::CompiledExpr;
use crate::exec::program::{CompiledInto, CompiledRoute, Destination};
use crate::exec::query::CompiledQuery;
use crate::faults::Faults;
use crate::placement::{shard_of, shard_of_integer};

impl<'a, F: Faults> Run<'a, F> {
    pub(super) fn place(&mut self, route: &CompiledRoute) -> Result<Place, Stop> {
        let shards = self.fragment.program.shards;
        match route {
            CompiledRoute::Anywhere => Ok(Place::Anywhere),
            _ if shards == 1 => Ok(Place::Here),
            CompiledRoute::Everywhere => Ok(Place::Everywhere),
            CompiledRoute::By { keys, .. } => self.place_of(keys),
            CompiledRoute::Own { .. } => Ok(match self.fragment.role {
                Role::Part => Place::Elsewhere(self.fragment.here),
                Role::InOrder | Role::Vote | Role::Whole | Role::Unguarded | Role::Last(_) => Place::Here,
            }),
        }
    }

    /// Where a statement runs that reads, changes or deletes rows. No partition column equals NULL, so with such a key it finds none, on
    /// whichever shard: the element behind the end of an array is NULL, and participants are those of its elements.
    pub(super) fn place_of_found(&mut self, route: &CompiledRoute) -> Result<Place, Stop> {
        if let CompiledRoute::By { keys, .. } = route
            && self.fragment.program.shards > 1
        {
            for key in keys {
                let is_known = matches!(key.peek(&self.frame), Some(value) if !value.is_null());
                if !is_known && self.eval(key)?.is_null() {
                    return Ok(Place::Anywhere);
                }
            }
        }
        self.place(route)
    }

    /// Where rows with this partition key live.
    pub(in crate::exec) fn place_of(&mut self, keys: &[CompiledExpr]) -> Result<Place, Stop> {
        let shards = self.fragment.program.shards;
        let shard = if let [key] = keys
            && let Some(Value::Int(value)) = key.peek(&self.frame)
        {
            shard_of_integer(*value, shards)
        } else {
            let values: Result<SmallVec<[Value; 2]>, SqlError> =
                keys.iter().map(|key| self.eval(key)).collect();
            let values = values?;
            if values.iter().any(|value| matches!(value, Value::Deferred)) {
                return Err(needs_general("a partition key that another shard knows"));
            }
            shard_of(&values, shards)
        };
        Ok(if shard == self.fragment.here { Place::Here } else { Place::Elsewhere(shard) })
    }

    /// Runs a statement where it belongs, or takes its result from who ran it.
    pub(super) fn statement(
        &mut self,
        place: Place,
        route: &CompiledRoute,
        to: &Destination,
        execute: impl FnOnce(&mut Self) -> Result<u64, Stop>,
    ) -> Result<(), Stop> {
        if let Place::Elsewhere(shard) = place {
            return self.take_result(shard, route, to);
        }
        self.returned.clear();
        let mut count = execute(self)?;
        if place == Place::Everywhere {
            if matches!(to, Destination::Variables(_)) {
                return Err(needs_general("a result gathered from every shard"));
            }
            count += self.results_of_others(to)?;
        }
        let part = self.fragment.role.answers() && place != Place::Anywhere;
        if let Destination::Variables(into) = to {
            count = rows_for(into, self.returned.rows)?;
        }
        let found = count > 0;
        self.frame.set(self.procedure.found, Value::Bool(found));
        self.row_count = Value::Int(count as i64);
        if part {
            self.ran.answers.values.extend([Value::Bool(found), self.row_count.clone()]);
        }
        match to {
            Destination::Nowhere => Ok(()),
            Destination::Variables(into) => self.assign_first(into, part),
            Destination::Caller { .. }
                if matches!(self.fragment.role, Role::Part | Role::InOrder | Role::Vote) =>
            {
                self.ran.answers.values.append(&mut self.returned.values);
                Ok(())
            }
            Destination::Caller { .. } => {
                let rows = self.returned.take_rows();
                self.ran.output.rows.extend(rows);
                Ok(())
            }
        }
    }

    fn assign_first(&mut self, into: &CompiledInto, part: bool) -> Result<(), Stop> {
        for (at, target) in into.targets.iter().enumerate() {
            let value = self.returned.values.get_mut(at).map(std::mem::take).unwrap_or_default();
            let value = assigned(target, value)?;
            if part && into.unread {
                self.ran.answers.values.push(value);
                continue;
            }
            if part {
                self.ran.answers.values.push(value.clone());
            }
            self.frame.set(target.slot, value);
        }
        Ok(())
    }

    pub(super) fn take_result(
        &mut self,
        shard: ShardId,
        route: &CompiledRoute,
        to: &Destination,
    ) -> Result<(), Stop> {
        if let (Role::Part, CompiledRoute::By { unknown, .. } | CompiledRoute::Own { unknown }) =
            (self.fragment.role, route)
        {
            for &slot in unknown {
                self.frame.set(slot, Value::Deferred);
            }
            self.row_count.put(Value::Deferred);
            return Ok(());
        }
        let targets = match to {
            Destination::Variables(into) => into.targets.as_slice(),
            Destination::Nowhere | Destination::Caller { .. } => &[],
        };
        let answer = self.answer_of(shard, 2 + targets.len())?;
        let value = |at: usize| answer.map_or(Value::Deferred, |answer| answer[at].clone());
        self.frame.set(self.procedure.found, value(0));
        self.row_count = value(1);
        for (at, target) in targets.iter().enumerate() {
            self.frame.set(target.slot, value(2 + at));
        }
        self.take_rows(shard, answer, to)
    }

    /// The rows behind that answer of the shard, if they are the caller's.
    fn take_rows(&mut self, shard: ShardId, answer: Option<&[Value]>, to: &Destination) -> Result<(), Stop> {
        let (Destination::Caller { width }, Some([_, Value::Int(count), ..])) = (to, answer) else {
            return Ok(());
        };
        for _ in 0..*count {
            let row = self.answer_of(shard, *width)?.unwrap_or_default().to_vec();
            self.ran.output.rows.push(row);
        }
        Ok(())
    }

    /// The rows that a loop on that shard runs over.
    pub(super) fn rows_of(&mut self, shard: ShardId, width: usize) -> Result<Option<Vec<Vec<Value>>>, Stop> {
        let Some([Value::Int(count)]) = self.answer_of(shard, 1)? else { return Ok(None) };
        let row = |_| Ok(self.answer_of(shard, width)?.unwrap_or_default().to_vec());
        (0..*count).map(row).collect::<Result<_, Stop>>().map(Some)
    }

    /// The next `width` values of what that shard's statements gave; `None` while only it knows.
    pub(super) fn answer_of(&mut self, shard: ShardId, width: usize) -> Result<Option<&'a [Value]>, Stop> {
        let answers = match self.fragment.role {
            Role::Part | Role::InOrder | Role::Vote => return Ok(None),
            Role::Whole | Role::Unguarded => {
                return Err(internal(format!(
                    "shard {} was sent a call that needs shard {shard}",
                    self.fragment.here
                )));
            }
            Role::Last(answers) => answers,
        };
        let from = answers.iter().find(|(from, _)| *from == shard).map(|(_, answers)| answers);
        let Some(from) = from else { return Err(internal(format!("shard {shard} is not a participant"))) };
        let taken = match self.taken.iter_mut().find(|(of, _)| *of == shard) {
            Some((_, taken)) => taken,
            None => {
                self.taken.push((shard, 0));
                &mut self.taken.last_mut().expect("just pushed").1
            }
        };
        let answer = from.values.get(*taken..*taken + width);
        *taken += width;
        match (answer, &from.error) {
            (Some(answer), _) => Ok(Some(answer)),
            (None, Some(error)) => Err(Stop::Error(error.clone())),
            (None, None) => {
                Err(internal(format!("shard {shard} answered fewer statements than this one has")))
            }
        }
    }

    /// Number of rows of the other shards, whose rows are taken.
    fn results_of_others(&mut self, to: &Destination) -> Result<u64, Stop> {
        let Role::Last(answers) = self.fragment.role else { return Ok(0) };
        let mut count = 0;
        for (shard, _) in answers {
            let answer = self.answer_of(*shard, 2)?;
            if let Some([_, Value::Int(rows)]) = answer {
                count += *rows as u64;
            }
            self.take_rows(*shard, answer, to)?;
        }
        Ok(count)
    }

    /// Runs the query into `returned`, up to `wanted` rows; how many there were.
    pub(super) fn select(&mut self, query: &CompiledQuery, wanted: usize, keep: bool) -> Result<u64, Stop> {
        let mut returned = std::mem::take(&mut self.returned);
        self.frame.begin_statement();
        let result = self.with_cx(|cx| match query.as_look_up() {
            Some((access, outputs)) => access.for_each_match(cx, &mut |cx, _| {
                returned.rows += 1;
                for output in outputs {
                    returned.values.push(output.eval(cx)?);
                }
                Ok(ControlFlow::Continue(()))
            }),
            None => query.execute(cx, &mut |_, row| {
                returned.rows += 1;
                if keep {
                    returned.values.append(row);
                }
                Ok(if returned.rows >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }),
        });
        self.returned = returned;
        let _ = result?;
        Ok(self.returned.rows as u64)
    }
}

/// Number of returned rows that count for FOUND, where the first goes into variables.
///
/// # Errors
/// There are fewer or more rows than allowed.
pub(in crate::exec) fn rows_for(into: &CompiledInto, rows: usize) -> Result<u64, SqlError> {
    let too_many = (into.strict || into.writes) && rows > 1;
    if too_many || (into.strict && rows == 0) {
        let (state, message) = match rows {
            0 => (SqlState::NO_DATA_FOUND, "query returned no rows"),
            _ => (SqlState::TOO_MANY_ROWS, "query returned more than one row"),
        };
        return Err(SqlError::new(state, message));
    }
    Ok(rows.min(1) as u64)
}
