//! Checks of guards (soundness S17; docs/internals/items.md): under guards a version of an item is replaced by at most one transaction, and a
//! counter that is advanced only under guards yields each number once.
//!
//! Considers the writes and guards of transactions, not their reads. Aborted transactions claim nothing. A transaction without an answer
//! may have committed: it may explain a gap, and contradicts no other.

use std::collections::{BTreeMap, BTreeSet};

use weir_kv::write::Write;
use weir_kv::{Guard, Key, Stamp};

use super::{History, Record, Violation, words};

pub(super) const CLAIMS: &str = "guards hold: a version is claimed once";
pub(super) const SEQUENCES: &str = "guards hold: counters have no gaps and no repeats";

impl Record {
    pub(super) fn has_committed(&self) -> bool {
        !self.aborted && self.stamp.is_some()
    }

    fn writes_to(&self, key: &Key) -> bool {
        self.writes.iter().any(|(one, _)| one == key)
    }

    /// Guards of what it also writes: the others only look.
    pub(super) fn claims(&self) -> impl Iterator<Item = &Guard> {
        self.guards.iter().filter(|guard| self.writes_to(&guard.key))
    }

    /// It has something to do with a counter, and all that it does is to take the next number under a guard.
    pub(super) fn advances(&self, counter: &Key) -> bool {
        self.numbers.contains_key(counter) && self.claims().any(|guard| guard.key == *counter)
    }
}

/// Numbers taken from a counter.
#[derive(Default)]
struct Counter {
    /// By number, with the committed transaction that took it.
    given: BTreeSet<(u64, usize)>,
    /// Numbers taken by transactions with unknown outcome.
    perhaps: BTreeSet<u64>,
}

impl History {
    /// Claims are unique, and sequences dense.
    pub fn check_guards(&self) -> Result<(), Violation> {
        self.check_seen_claims()?;
        self.check_absent_claims()?;
        self.check_sequences()
    }

    /// No two replace the same version of an item.
    fn check_seen_claims(&self) -> Result<(), Violation> {
        let mut claimed: BTreeMap<(&Key, Stamp), usize> = BTreeMap::new();
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.has_committed()) {
            for guard in record.claims().filter(|guard| !guard.absent) {
                match claimed.insert((&guard.key, guard.seen), number) {
                    Some(other) if other != number => {
                        let what = format!("its version of {}", words::stamp(guard.seen));
                        return Err(twice(&guard.key, &what, [other, number]));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// An absent item may be claimed again only after a deletion in between.
    fn check_absent_claims(&self) -> Result<(), Violation> {
        let mut claimed: BTreeMap<&Key, BTreeSet<(Stamp, usize)>> = BTreeMap::new();
        let mut deleted: BTreeMap<&Key, BTreeSet<Stamp>> = BTreeMap::new();
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| record.has_committed()) {
            let Some(stamp) = record.stamp else { continue };
            for guard in record.claims().filter(|guard| guard.absent) {
                claimed.entry(&guard.key).or_default().insert((stamp, number));
            }
            for (key, _) in record.writes.iter().filter(|(_, write)| *write == Write::Delete) {
                deleted.entry(key).or_default().insert(stamp);
            }
        }
        for (key, claims) in claimed {
            for ((first, one), (second, other)) in claims.iter().zip(claims.iter().skip(1)) {
                let deleted = deleted.get(key).and_then(|deleted| deleted.range(*first..*second).next());
                if deleted.is_none() {
                    return Err(twice(key, "that it is absent", [*one, *other]));
                }
            }
        }
        Ok(())
    }

    /// The numbers of a counter that is advanced only under guards are 1, 2, 3 and so on.
    fn check_sequences(&self) -> Result<(), Violation> {
        let mut counters: BTreeMap<&Key, Counter> = BTreeMap::new();
        let mut others: BTreeSet<&Key> = BTreeSet::new();
        for (number, record) in self.records.iter().enumerate().filter(|(_, record)| !record.aborted) {
            let written = record.writes.iter().map(|(key, _)| key);
            others.extend(written.chain(record.numbers.keys()).filter(|key| !record.advances(key)));
            for (key, given) in &record.numbers {
                let counter = counters.entry(key).or_default();
                if record.has_committed() {
                    counter.given.insert((*given, number));
                } else {
                    counter.perhaps.insert(*given);
                }
            }
        }
        let only_advanced = counters.into_iter().filter(|(key, _)| !others.contains(key));
        for (key, counter) in only_advanced {
            counter.check().map_err(|what| Violation {
                claim: SEQUENCES,
                seen: format!("{} gave {what}", words::key(key)),
            })?;
        }
        Ok(())
    }
}

fn twice(key: &Key, what: &str, numbers: [usize; 2]) -> Violation {
    let seen = format!(
        "{} wrote {} under guards, and each had seen {what}",
        words::transactions(&numbers),
        words::key(key)
    );
    Violation { claim: CLAIMS, seen }
}

impl Counter {
    fn check(&self) -> Result<(), String> {
        let mut before: Option<(u64, usize)> = None;
        for (number, to) in &self.given {
            let (last, holder) = before.map_or((0, None), |(last, holder)| (last, Some(holder)));
            if let (true, Some(holder)) = (*number == last, holder) {
                return Err(format!("{number} to {}", words::transactions(&[holder, *to])));
            }
            // Stops at the first missing number, so the search is bounded by the number of transactions.
            if let Some(gap) = (last + 1..*number).find(|gap| !self.perhaps.contains(gap)) {
                return Err(format!("{number} to {}, and {gap} to nobody", words::transaction(*to)));
            }
            if *number == 0 {
                return Err(format!("0 to {}, before 1", words::transaction(*to)));
            }
            before = Some((*number, *to));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::from_json_lines;

    /// A transaction as a line of a history: stamp (0: never answered), writes, guards, numbers.
    fn line((clock, writes, guards, numbers): &(u64, &str, &str, &str)) -> String {
        let stamp = if *clock == 0 { "null".to_owned() } else { format!("[{clock},1,{clock}]") };
        format!(
            r#"{{"session":0,"begun_us":1,"ended_us":null,"aborted":false,"stamp":{stamp},"reads":[],"ranges":[],"writes":[{writes}],"guards":[{guards}],"numbers":{{{numbers}}}}}"#
        )
    }

    fn check(transactions: &[(u64, &str, &str, &str)], expected: &str) {
        let text: Vec<String> = transactions.iter().map(line).collect();
        let history = History::new(from_json_lines(&text.join("\n")).expect("it is a history"));
        let found = history.check_guards().err();
        let found = found.map_or("holds".into(), |found| format!("{}: {}", found.claim, found.seen));
        assert!(found.contains(expected), "{found}\n{transactions:?}");
    }

    const PUT: &str = r#"["x","put","a"]"#;
    const DELETE: &str = r#"["x","delete"]"#;
    const ABSENT: &str = r#"["x",[0,0,0],true]"#;
    const SEEN: &str = r#"["x",[1,1,1],false]"#;

    #[test]
    fn versions_are_claimed_once() {
        check(&[(1, PUT, ABSENT, ""), (2, PUT, SEEN, "")], "holds");
        check(&[(1, PUT, ABSENT, ""), (2, PUT, ABSENT, "")], "transactions 1 and 2 wrote item x under");
        check(&[(1, PUT, ABSENT, ""), (2, PUT, SEEN, ""), (3, PUT, SEEN, "")], "transactions 2 and 3");
        // Absent again, by whomever.
        check(&[(1, PUT, ABSENT, ""), (2, DELETE, SEEN, ""), (3, PUT, ABSENT, "")], "holds");
        check(&[(3, PUT, ABSENT, ""), (2, DELETE, "", ""), (1, PUT, ABSENT, "")], "holds");
        check(&[(1, DELETE, ABSENT, ""), (2, PUT, ABSENT, "")], "holds");
        check(&[(1, PUT, ABSENT, ""), (2, DELETE, ABSENT, "")], CLAIMS);
        check(&[(1, PUT, ABSENT, ""), (2, PUT, ABSENT, ""), (3, DELETE, "", "")], CLAIMS);
        // A transaction that only looks replaces nothing, and one that was never answered may have done nothing.
        check(&[(1, PUT, ABSENT, ""), (2, "", ABSENT, "")], "holds");
        check(&[(1, PUT, ABSENT, ""), (0, PUT, ABSENT, "")], "holds");
    }

    #[test]
    fn counters_are_dense() {
        let (second, third) = (SEEN, r#"["x",[2,1,2],false]"#);
        let first = (1, PUT, ABSENT, r#""x":1"#);
        check(&[first, (2, PUT, second, r#""x":2"#), (3, PUT, third, r#""x":3"#)], "holds");
        check(&[(2, PUT, second, r#""x":2"#), first], "holds");
        check(&[first, (2, PUT, second, r#""x":1"#)], "item x gave 1 to transactions 1 and 2");
        check(&[first, (2, PUT, second, r#""x":3"#)], "gave 3 to transaction 2, and 2 to nobody");
        check(&[(1, PUT, ABSENT, r#""x":0"#)], "gave 0 to transaction 1, before 1");
        check(&[(1, PUT, ABSENT, r#""x":18446744073709551615"#)], "and 1 to nobody");
        // Never answered: it has the number, or nothing.
        check(&[first, (0, PUT, second, r#""x":2"#), (3, PUT, third, r#""x":3"#)], "holds");
        check(&[first, (0, PUT, second, r#""x":1"#)], "holds");
        // A write without a guard voids the promise.
        check(&[first, (2, PUT, "", r#""x":1"#)], "holds");
        check(&[first, (2, PUT, second, r#""x":5"#), (3, DELETE, third, "")], "holds");
    }
}
