//! Conflict detection (operation-partitioning.txt, Algorithm 1, lines 1–10): which pairs of transactions may meet,
//! on what, and which keys are equal whenever they do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::Arc;

use weir_sql::Application;
use weir_sql::catalog::TableId;

use super::form::{FormId, Formed, Forms, Numbered};
use super::satisfiable::{Access, forced_keys};
use super::sets::{Cause, Entry, Kind, Sets, Touched};
use super::{Key, Keys};
use crate::effects::ProcedureEffects;

/// Everything that may make calls of two transactions (or of one) conflict.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// Procedure indexes; `left ≤ right`.
    pub left: usize,
    pub right: usize,
    /// Never empty.
    pub clauses: Vec<Clause>,
}

/// Two accesses that can mean one row.
#[derive(Clone, Debug)]
pub struct Clause {
    /// Index into the entries of `left` and of `right`.
    pub left: usize,
    pub right: usize,
    /// The left access is a write.
    pub left_writes: bool,
    pub right_writes: bool,
    /// Items that one writes and the other reads or writes.
    pub touched: Arc<Touched>,
    /// Pairs of a key of the left call and one of the right call that are equal whenever the accesses conflict.
    pub keys: Vec<(Key, Key)>,
}

impl Clause {
    /// Calls that are routed by these keys meet at one server.
    pub fn is_local(&self, left: Keys, right: Keys) -> bool {
        self.keys.iter().any(|(a, b)| left.contains(*a) && right.contains(*b))
    }
}

impl Conflict {
    pub fn is_local(&self, left: Keys, right: Keys) -> bool {
        self.clauses.iter().all(|clause| clause.is_local(left, right))
    }
}

pub fn conflicts(app: &Application, effects: &[ProcedureEffects], sets: &Sets) -> Vec<Conflict> {
    let mut by_table: BTreeMap<TableId, Vec<(usize, usize)>> = BTreeMap::new();
    for (procedure, entries) in sets.entries.iter().enumerate() {
        for (index, entry) in entries.iter().enumerate() {
            by_table.entry(entry.table).or_default().push((procedure, index));
        }
    }
    let mut found = Found::new();
    for accesses in by_table.values() {
        let mut meetings = Meetings::new(app, effects, sets, accesses);
        meetings.all(&mut found);
    }
    let conflict =
        |((left, right), demands): (_, Demands)| Conflict { left, right, clauses: demands.clauses() };
    found.into_iter().map(conflict).collect()
}

/// By pair of procedures.
type Found = BTreeMap<(usize, usize), Demands>;

/// Which accesses write, and which keys are equal.
type Demand = (bool, bool, Vec<(Key, Key)>);

/// Clauses with distinct demands; of equal ones the first, statements before constraints.
#[derive(Default)]
struct Demands {
    /// By what they demand, each with when it was found.
    first: BTreeMap<Demand, (usize, Clause)>,
    found: usize,
}

impl Demands {
    fn add(&mut self, clause: Clause) {
        self.found += 1;
        let found = self.found;
        match self.first.entry((clause.left_writes, clause.right_writes, clause.keys.clone())) {
            MapEntry::Vacant(place) => {
                place.insert((found, clause));
            }
            MapEntry::Occupied(mut known) => {
                if (clause.left, clause.right) < (known.get().1.left, known.get().1.right) {
                    known.insert((found, clause));
                }
            }
        }
    }

    fn clauses(self) -> Vec<Clause> {
        let mut clauses: Vec<(usize, Clause)> = self.first.into_values().collect();
        clauses.sort_by_key(|(found, clause)| (clause.left, clause.right, *found));
        clauses.into_iter().map(|(_, clause)| clause).collect()
    }
}

/// Equalities that two conditions force, by alternatives.
type Forced = Vec<Vec<(Numbered, Numbered)>>;

/// The accesses of one table, by form.
struct Meetings<'a> {
    app: &'a Application,
    effects: &'a [ProcedureEffects],
    sets: &'a Sets,
    forms: Forms,
    /// In the order of procedures and their entries.
    accesses: Vec<Formed<'a>>,
    known: BTreeMap<[(FormId, Option<FormId>); 2], Forced>,
}

impl<'a> Meetings<'a> {
    fn new(
        app: &'a Application,
        effects: &'a [ProcedureEffects],
        sets: &'a Sets,
        accesses: &[(usize, usize)],
    ) -> Meetings<'a> {
        let mut forms = Forms::default();
        let accesses = accesses.iter().map(|&at| forms.of(app, sets, &effects[at.0], at)).collect();
        Meetings { app, effects, sets, forms, accesses, known: BTreeMap::new() }
    }

    /// Pairs of forms that meet, and for each the accesses that have them: most of the pairs of a large
    /// application do not meet.
    fn all(&mut self, found: &mut Found) {
        let mut members: BTreeMap<FormId, Vec<usize>> = BTreeMap::new();
        for (index, access) in self.accesses.iter().enumerate() {
            members.entry(access.form).or_default().push(index);
        }
        let members: Vec<Vec<usize>> = members.into_values().collect();
        for (at, some) in members.iter().enumerate() {
            for others in &members[at..] {
                let touched = meeting(self.accesses[some[0]].entry, self.accesses[others[0]].entry);
                let Some(touched) = touched.map(Arc::new) else { continue };
                let same = std::ptr::eq(some, others);
                for &one in some {
                    for &other in others.iter().filter(|&&other| !same || one <= other) {
                        self.meet(one.min(other), one.max(other), &touched, found);
                    }
                }
            }
        }
    }

    fn meet(&mut self, left: usize, right: usize, touched: &Arc<Touched>, found: &mut Found) {
        let beside = self.beside(left, right);
        let (one, other) = (&self.accesses[left], &self.accesses[right]);
        let forms = [(one.form, beside[0]), (other.form, beside[1])];
        if !self.known.contains_key(&forms) {
            let forced = self.forced(one, other, beside);
            self.known.insert(forms, forced);
        }
        for keys in &self.known[&forms] {
            let keys =
                keys.iter().filter_map(|&(a, b)| Some((one.key(beside[0], a)?, other.key(beside[1], b)?)));
            let mut keys: Vec<(Key, Key)> = keys.collect();
            keys.sort();
            let clause = Clause {
                left: one.at,
                right: other.at,
                left_writes: one.entry.kind.is_write(),
                right_writes: other.entry.kind.is_write(),
                touched: Arc::clone(touched),
                keys,
            };
            found.entry((one.procedure, other.procedure)).or_default().add(clause);
        }
    }

    fn beside(&mut self, left: usize, right: usize) -> [Option<FormId>; 2] {
        if left == right {
            return [self.forms.beside_itself(&mut self.accesses[left]); 2];
        }
        let (first, rest) = self.accesses.split_at_mut(right);
        self.forms.beside(&mut first[left], &mut rest[0])
    }

    fn forced(&self, one: &Formed<'a>, other: &Formed<'a>, beside: [Option<FormId>; 2]) -> Forced {
        let access = |formed: &Formed<'a>| Access {
            procedure: formed.procedure,
            effects: &self.effects[formed.procedure],
            entry: formed.entry,
            atoms: &[],
        };
        let mut forced = Forced::new();
        for left_atoms in &one.entry.alternatives {
            for right_atoms in &other.entry.alternatives {
                let sides = [
                    Access { atoms: left_atoms, ..access(one) },
                    Access { atoms: right_atoms, ..access(other) },
                ];
                let Some(keys) = forced_keys(self.app, self.sets, sides) else { continue };
                let number =
                    |(a, b): (Key, Key)| Some((one.number(beside[0], a)?, other.number(beside[1], b)?));
                let keys: Vec<_> = keys.into_iter().filter_map(number).collect();
                if !forced.contains(&keys) {
                    forced.push(keys);
                }
            }
        }
        forced
    }
}

/// Items that both touch, if they conflict on one row.
fn meeting(one: &Entry, other: &Entry) -> Option<Touched> {
    if !one.kind.is_write() && !other.kind.is_write() {
        return None;
    }
    // Two inserts create two rows. If they may not, the check of the unique key is a separate access.
    if one.kind == Kind::Insert && other.kind == Kind::Insert {
        return None;
    }
    let touched: Touched = one.touched.intersection(&other.touched).copied().collect();
    (!touched.is_empty()).then_some(touched)
}

/// Reads for the sake of a constraint come after what the statements say, in reports.
pub fn is_statement(entry: &Entry) -> bool {
    entry.cause == Cause::Statement
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::partitioning::Definition;

    /// The naive twin of [`Demands`].
    fn without_repeats(mut clauses: Vec<Clause>) -> Vec<Clause> {
        clauses.sort_by_key(|clause| (clause.left, clause.right));
        let mut seen = BTreeSet::new();
        clauses.retain(|clause| seen.insert((clause.left_writes, clause.right_writes, clause.keys.clone())));
        clauses
    }

    /// The naive twin: every pair of accesses by itself.
    fn pair_by_pair(app: &Application, effects: &[ProcedureEffects], sets: &Sets) -> Vec<Conflict> {
        let at = |procedure: usize| (0..sets.entries[procedure].len()).map(move |index| (procedure, index));
        let all: Vec<(usize, usize)> = (0..sets.entries.len()).flat_map(at).collect();
        let access = |(procedure, index): (usize, usize)| Access {
            procedure,
            effects: &effects[procedure],
            entry: &sets.entries[procedure][index],
            atoms: &[],
        };
        let mut found: BTreeMap<(usize, usize), Vec<Clause>> = BTreeMap::new();
        for (first, &left) in all.iter().enumerate() {
            for &right in &all[first..] {
                let (one, other) = (access(left), access(right));
                if one.entry.table != other.entry.table {
                    continue;
                }
                let Some(touched) = meeting(one.entry, other.entry).map(Arc::new) else { continue };
                let mut known: Vec<Vec<(Key, Key)>> = Vec::new();
                for left_atoms in &one.entry.alternatives {
                    for right_atoms in &other.entry.alternatives {
                        let sides =
                            [Access { atoms: left_atoms, ..one }, Access { atoms: right_atoms, ..other }];
                        if let Some(keys) = forced_keys(app, sets, sides)
                            && !known.contains(&keys)
                        {
                            known.push(keys);
                        }
                    }
                }
                found.entry((left.0, right.0)).or_default().extend(known.into_iter().map(|keys| Clause {
                    left: left.1,
                    right: right.1,
                    left_writes: one.entry.kind.is_write(),
                    right_writes: other.entry.kind.is_write(),
                    touched: Arc::clone(&touched),
                    keys,
                }));
            }
        }
        found.retain(|_, clauses| !clauses.is_empty());
        let conflict = |((left, right), clauses)| Conflict { left, right, clauses: without_repeats(clauses) };
        found.into_iter().map(conflict).collect()
    }

    #[test]
    fn forms_say_what_pairs_of_accesses_say() {
        for example in
            ["auction", "escrow-tickets", "payroll", "rubis", "smallbank", "social", "tpcc", "tpcw"]
        {
            let app = crate::examples::load(example);
            let effects = crate::effects::of_all(&app);
            let sets = Sets::new(&app.catalog, &effects, Definition::Complete);
            let (by_form, by_pair) = (conflicts(&app, &effects, &sets), pair_by_pair(&app, &effects, &sets));
            assert_eq!(format!("{by_form:#?}"), format!("{by_pair:#?}"), "{example}");
        }
    }
}
