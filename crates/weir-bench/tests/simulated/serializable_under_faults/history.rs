//! A history of the reads and writes of transactions, and its check: some serial order explains it, and keeps the order of real time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// One read or write of a transaction, which writes its own tag wherever it writes.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A register, and its tag.
    Register(i64, i64),
    /// It has set a register, whose tag was this.
    Set(i64, i64),
    /// All rows of these groups: group and tag.
    Groups(RangeInclusive<i64>, BTreeSet<(i64, i64)>),
    /// It has added a row to a group.
    Added,
    /// A key of which a row comes at most once, and its tag.
    Once(i64, Option<i64>),
    AddedOnce(i64),
    /// It was there already, of whomever.
    OnceTaken(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    Aborted,
    Unknown,
}

#[derive(Debug)]
struct Transaction {
    begun: usize,
    /// None: it is under way.
    ended: Option<(usize, End)>,
    /// A statement by itself, which leaves no row that says whether it has happened.
    is_alone: bool,
    seen: Vec<Seen>,
    /// Number of things seen at the savepoint.
    savepoint: usize,
}

/// The final state.
#[derive(Debug)]
pub struct Final {
    /// Tags of transactions that have committed and written.
    pub done: BTreeSet<i64>,
    pub items: BTreeSet<(i64, i64)>,
    pub once: BTreeMap<i64, i64>,
}

#[derive(Debug, Default)]
pub struct History {
    /// Number of events.
    now: usize,
    /// By tag.
    transactions: BTreeMap<i64, Transaction>,
}

impl History {
    pub fn begin(&mut self, tag: i64, is_alone: bool) {
        self.now += 1;
        let begun = Transaction { begun: self.now, ended: None, is_alone, seen: Vec::new(), savepoint: 0 };
        self.transactions.insert(tag, begun);
    }

    fn of(&mut self, tag: i64) -> &mut Transaction {
        self.transactions.get_mut(&tag).expect("it has begun")
    }

    pub fn saw(&mut self, tag: i64, seen: Vec<Seen>) {
        self.of(tag).seen.extend(seen);
    }

    pub fn savepoint(&mut self, tag: i64) {
        let of = self.of(tag);
        of.savepoint = of.seen.len();
    }

    /// A roll-back undoes the writes; the reads stay in the history.
    pub fn roll_back_to(&mut self, tag: i64) {
        let of = self.of(tag);
        let undone = of.seen.split_off(of.savepoint);
        let reads = undone.into_iter().filter_map(|seen| match seen {
            Seen::Set(id, before) => Some(Seen::Register(id, before)),
            Seen::Added => None,
            Seen::AddedOnce(id) => Some(Seen::Once(id, None)),
            read => Some(read),
        });
        of.seen.extend(reads);
    }

    pub fn end(&mut self, tag: i64, end: End) {
        self.now += 1;
        let now = self.now;
        if let Some(of) = self.transactions.get_mut(&tag).filter(|of| of.ended.is_none()) {
            of.ended = Some((now, end));
        }
    }

    /// Transactions that have committed, by tag: when they have begun, and when they have ended if that was told.
    fn committed(&self, there: &Final) -> BTreeMap<i64, (usize, usize)> {
        let committed = self.transactions.iter().filter_map(|(tag, of)| match of.ended {
            Some((at, End::Committed)) => Some((*tag, (of.begun, at))),
            Some((_, End::Aborted)) => None,
            _ => there.done.contains(tag).then_some((*tag, (of.begun, usize::MAX))),
        });
        committed.collect()
    }

    /// Why it is not strictly serializable.
    pub fn violation(&self, there: &Final) -> Option<String> {
        let committed = self.committed(there);
        let mut graph = Graph::default();
        for (tag, (_, ended)) in &committed {
            let later = committed.iter().filter(|(_, (begun, _))| ended < begun);
            later.for_each(|(later, _)| graph.add(*tag, *later, "ended before"));
        }
        // Of a statement by itself whose answer was lost nothing is known.
        let may_be = |tag: i64| self.transactions.get(&tag).is_some_and(|of| of.is_alone);
        let mut next: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for &tag in committed.keys() {
            for seen in &self.transactions[&tag].seen {
                if let Seen::Set(id, before) = *seen
                    && before != tag
                    && let Some(other) = next.insert((id, before), tag)
                {
                    return Some(format!("{other} and {tag} have both replaced {before} in register {id}"));
                }
            }
        }
        let mut adders: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for &(grp, tag) in &there.items {
            adders.entry(grp).or_default().insert(tag);
        }
        for &tag in committed.keys() {
            for seen in &self.transactions[&tag].seen {
                let mut comes_from = |writer: i64| -> Option<String> {
                    if writer == 0 || writer == tag {
                        return None;
                    }
                    if committed.contains_key(&writer) {
                        graph.add(writer, tag, "was read by");
                        return None;
                    }
                    (!may_be(writer))
                        .then(|| format!("{tag} has read what {writer} wrote, which has not committed"))
                };
                let (wrong, missed): (Option<String>, Vec<i64>) = match seen {
                    Seen::Register(id, value) | Seen::Set(id, value) => {
                        let over = next.get(&(*id, *value)).copied();
                        (comes_from(*value), over.filter(|_| *value != tag).into_iter().collect())
                    }
                    Seen::Groups(groups, rows) => {
                        let wrong = rows.iter().find_map(|(_, writer)| comes_from(*writer));
                        let all = groups.clone().flat_map(|grp| {
                            adders.get(&grp).into_iter().flatten().map(move |tag| (grp, *tag))
                        });
                        (wrong, all.filter(|row| !rows.contains(row)).map(|(_, tag)| tag).collect())
                    }
                    Seen::Once(_, Some(writer)) => (comes_from(*writer), Vec::new()),
                    Seen::Once(id, None) => (None, there.once.get(id).copied().into_iter().collect()),
                    Seen::OnceTaken(id) => match there.once.get(id) {
                        Some(writer) => (comes_from(*writer), Vec::new()),
                        None => (
                            Some(format!("{tag} has found a row {id}, which nobody has inserted")),
                            Vec::new(),
                        ),
                    },
                    Seen::Added | Seen::AddedOnce(_) => (None, Vec::new()),
                };
                if wrong.is_some() {
                    return wrong;
                }
                let missed =
                    missed.into_iter().filter(|writer| *writer != tag && committed.contains_key(writer));
                missed.for_each(|writer| graph.add(tag, writer, "has read before"));
            }
        }
        graph.circle()
    }
}

/// Edges of the graph: the earlier transaction, the later one, and the dependency between them.
#[derive(Debug, Default)]
struct Graph(BTreeMap<i64, BTreeMap<i64, &'static str>>);

impl Graph {
    fn add(&mut self, before: i64, after: i64, why: &'static str) {
        self.0.entry(before).or_default().insert(after, why);
    }

    /// The shortest circle through some transaction.
    fn circle(&self) -> Option<String> {
        let circles = self.0.keys().filter_map(|&from| self.circle_through(from));
        circles.min_by_key(Vec::len).map(|circle| {
            let steps = circle.windows(2).map(|pair| format!("{} {} ", pair[0], self.0[&pair[0]][&pair[1]]));
            steps.collect::<String>() + &circle[0].to_string()
        })
    }

    fn circle_through(&self, from: i64) -> Option<Vec<i64>> {
        let mut came: BTreeMap<i64, i64> = BTreeMap::new();
        let mut todo = VecDeque::from([from]);
        while let Some(at) = todo.pop_front() {
            for &next in self.0.get(&at).into_iter().flat_map(BTreeMap::keys) {
                if next == from {
                    let mut path = vec![from];
                    let mut back = at;
                    while back != from {
                        path.push(back);
                        back = came[&back];
                    }
                    path.push(from);
                    path.reverse();
                    return Some(path);
                }
                if let Entry::Vacant(place) = came.entry(next) {
                    place.insert(at);
                    todo.push_back(next);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(history: &mut History, tag: i64, seen: Vec<Seen>) {
        history.saw(tag, seen);
        history.end(tag, End::Committed);
    }

    fn there(items: &[(i64, i64)]) -> Final {
        Final { done: BTreeSet::new(), items: items.iter().copied().collect(), once: BTreeMap::new() }
    }

    #[test]
    fn write_skew_over_predicates_is_a_circle() {
        let mut history = History::default();
        history.begin(1, false);
        history.begin(2, false);
        end(&mut history, 1, vec![Seen::Groups(2..=2, BTreeSet::new()), Seen::Added]);
        end(&mut history, 2, vec![Seen::Groups(1..=1, BTreeSet::new()), Seen::Added]);
        assert_eq!(
            history.violation(&there(&[(1, 1), (2, 2)])).unwrap(),
            "1 has read before 2 has read before 1"
        );
    }

    #[test]
    fn a_stale_read_is_a_circle() {
        let mut history = History::default();
        history.begin(1, false);
        end(&mut history, 1, vec![Seen::Set(1, 0)]);
        history.begin(2, false);
        end(&mut history, 2, vec![Seen::Register(1, 0)]);
        assert_eq!(history.violation(&there(&[])).unwrap(), "1 ended before 2 has read before 1");
    }

    #[test]
    fn one_after_the_other_is_in_order() {
        let mut history = History::default();
        for tag in 1..5 {
            history.begin(tag, false);
            let before: BTreeSet<_> = (1..tag).map(|before| (7, before)).collect();
            end(&mut history, tag, vec![Seen::Set(1, tag - 1), Seen::Groups(7..=7, before), Seen::Added]);
        }
        let items = [(7, 1), (7, 2), (7, 3), (7, 4)];
        assert_eq!(history.violation(&there(&items)), None);
        history.begin(9, false);
        end(&mut history, 9, vec![Seen::Set(1, 3)]);
        assert!(history.violation(&there(&items)).unwrap().contains("both replaced 3"));
    }
}
