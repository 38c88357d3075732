//! Sequences whose ids route back to their server follow the map of slots: a change that moves slots carries the last id of each sequence, and from
//! then on every server gives ids above it, of its own slots.
//!
//! The owner of a slot has given no id of it, and no server before has, above the last one of its own sequence: it gave them itself, or it has got
//! the slot with a change that has carried its predecessor's last one.

use postgres::{Error, GenericClient};
use weir_conveyor::routing::GeneratedIds;

/// Where a sequence goes on.
struct Position {
    increment: i64,
    maximum: i64,
    last: i64,
    is_called: bool,
}

impl Position {
    /// No id above that was given.
    fn given(&self) -> i64 {
        if self.is_called { self.last } else { self.last - 1 }
    }

    fn next(&self) -> i64 {
        if self.is_called { self.last.saturating_add(self.increment) } else { self.last }
    }

    fn routes_to(&self, ids: GeneratedIds) -> bool {
        let [increment, start] = [ids.increment, ids.start].map(i64::from);
        self.increment % increment == 0 && (self.next() - start).rem_euclid(increment) == 0
    }
}

/// None: there is no such sequence; operations that use it fail.
fn position(client: &mut impl GenericClient, name: &str) -> Result<Option<Position>, Error> {
    let known = client.query_one("SELECT to_regclass($1)::text", &[&name])?;
    if known.get::<_, Option<String>>(0).is_none() {
        return Ok(None);
    }
    // The view of sequences does not say where one that has given no id yet goes on.
    let sql = format!(
        "SELECT p.seqincrement, p.seqmax, s.last_value, s.is_called FROM {name} s, pg_sequence p WHERE p.seqrelid = $1::text::regclass"
    );
    let row = client.query_one(&sql, &[&name])?;
    let [increment, maximum, last] = [0, 1, 2].map(|column| row.get(column));
    Ok(Some(Position { increment, maximum, last, is_called: row.get(3) }))
}

/// The number above which a sequence has given no id. `name`: quoted, with its schema. None: there is no such sequence.
///
/// # Errors
/// The server's.
pub fn last_id(client: &mut impl GenericClient, name: &str) -> Result<Option<i64>, Error> {
    Ok(position(client, name)?.map(|position| position.given()))
}

/// The statement by which the next ids of a sequence are of `ids` and above a number. A sequence that has no such ids left gives none. None: they are
/// so already, or there is no such sequence.
///
/// # Errors
/// The server's.
pub fn rerouted(
    client: &mut impl GenericClient,
    name: &str,
    ids: GeneratedIds,
    above: i64,
) -> Result<Option<String>, Error> {
    let Some(position) = position(client, name)? else { return Ok(None) };
    if position.routes_to(ids) && position.next() > above {
        return Ok(None);
    }
    let first = ids.first_above(position.given().max(above));
    Ok(Some(match first <= position.maximum {
        true => format!("ALTER SEQUENCE {name} INCREMENT BY {} RESTART WITH {first}", ids.increment),
        false => format!("SELECT setval('{}', {})", name.replace('\'', "''"), position.maximum),
    }))
}
