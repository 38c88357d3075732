//! Symbolic values and where they come from.
//!
//! Two equal [`TermId`]s of one procedure denote the same value in one execution (within one iteration of
//! each loop around); different ones may still be equal. Sums with constants are kept in a normal form, so
//! that `d_next_o_id + 1 - 1` is `d_next_o_id` again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};
use weir_sql::bound::VariableId;
use weir_sql::catalog::ColumnIndex;

use super::ReadId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId(pub u32);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    Null,
    Integer(i64),
    /// Any other literal, as text; the sign is that of a number.
    Literal(String, Sign),
    /// A parameter's value at the call.
    Parameter(VariableId),
    /// An element of an array.
    Element {
        array: TermId,
        index: TermId,
    },
    /// The running number of a loop or of a set-returning function.
    Index(u32),
    /// A column of a row that was read.
    Field {
        row: ReadId,
        column: ColumnIndex,
    },
    /// An aggregate over rows that were read.
    Aggregate {
        function: String,
        argument: Option<TermId>,
        rows: Vec<ReadId>,
    },
    /// A sequence's next value or a fresh UUID: never the same twice.
    Generated(u32),
    /// The transaction's time.
    Time,
    /// One of these, by the branch that was taken.
    Choice(Vec<TermId>),
    /// A variable that a loop changes; see [`Terms::set_carried`].
    Carried(u32),
    /// `base + offset`; base is never an integer or another sum with a constant.
    Sum {
        base: TermId,
        offset: i64,
    },
    Call {
        name: String,
        arguments: Vec<TermId>,
    },
    Unknown(u32),
}

/// Which signs a value may have. NULL is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sign {
    pub negative: bool,
    pub zero: bool,
    pub positive: bool,
}

impl Sign {
    pub const ANY: Sign = Sign { negative: true, zero: true, positive: true };
    pub const NOT_NEGATIVE: Sign = Sign { negative: false, ..Sign::ANY };
    pub const NOT_POSITIVE: Sign = Sign { positive: false, ..Sign::ANY };

    pub fn of_integer(n: i64) -> Sign {
        Sign { negative: n < 0, zero: n == 0, positive: n > 0 }
    }

    pub fn negated(self) -> Sign {
        Sign { negative: self.positive, zero: self.zero, positive: self.negative }
    }

    pub fn or(self, other: Sign) -> Sign {
        Sign {
            negative: self.negative || other.negative,
            zero: self.zero || other.zero,
            positive: self.positive || other.positive,
        }
    }

    pub fn and(self, other: Sign) -> Sign {
        Sign {
            negative: self.negative && other.negative,
            zero: self.zero && other.zero,
            positive: self.positive && other.positive,
        }
    }

    /// The signs of it and of all greater values.
    pub fn and_above(self) -> Sign {
        Sign { zero: self.negative || self.zero, positive: true, ..self }
    }

    /// The signs of it and of all smaller values.
    pub fn and_below(self) -> Sign {
        Sign { zero: self.positive || self.zero, negative: true, ..self }
    }

    fn plus(self, other: Sign) -> Sign {
        let any = |a: bool, b: bool| a && b;
        Sign {
            negative: self.negative || other.negative,
            positive: self.positive || other.positive,
            zero: any(self.zero, other.zero)
                || any(self.negative, other.positive)
                || any(self.positive, other.negative),
        }
    }

    fn times(self, other: Sign) -> Sign {
        Sign {
            zero: self.zero || other.zero,
            positive: self.positive && other.positive || self.negative && other.negative,
            negative: self.positive && other.negative || self.negative && other.positive,
        }
    }
}

/// The terms of one procedure.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    terms: Vec<Term>,
    /// By hash; a term whose hash is taken is at the next free number. No term is here twice.
    ids: FxHashMap<u64, TermId>,
    /// For each carried variable its value before the loop and after one pass.
    carried: BTreeMap<u32, (TermId, TermId)>,
    /// Signs of values implied by conditions that raise an exception otherwise.
    facts: BTreeMap<TermId, Sign>,
    sites: u32,
}

impl Terms {
    pub fn get(&self, id: TermId) -> &Term {
        &self.terms[id.0 as usize]
    }

    /// A number that no other loop, branch, generated or unknown value of the procedure has.
    pub fn site(&mut self) -> u32 {
        self.sites += 1;
        self.sites
    }

    pub fn intern(&mut self, term: Term) -> TermId {
        let mut place = FxBuildHasher.hash_one(&term);
        loop {
            match self.ids.entry(place) {
                Entry::Occupied(known) if self.terms[known.get().0 as usize] == term => return *known.get(),
                Entry::Occupied(_) => place = place.wrapping_add(1),
                Entry::Vacant(free) => {
                    let id = *free.insert(TermId(self.terms.len() as u32));
                    self.terms.push(term);
                    return id;
                }
            }
        }
    }

    pub fn unknown(&mut self) -> TermId {
        let site = self.site();
        self.intern(Term::Unknown(site))
    }

    pub fn call(&mut self, name: impl Into<String>, arguments: Vec<TermId>) -> TermId {
        self.intern(Term::Call { name: name.into(), arguments })
    }

    pub fn negate(&mut self, term: TermId) -> TermId {
        match self.get(term).clone() {
            Term::Integer(n) if n != i64::MIN => self.intern(Term::Integer(-n)),
            Term::Call { name, arguments } if name == "-" && arguments.len() == 1 => arguments[0],
            _ => self.call("-", vec![term]),
        }
    }

    pub fn add(&mut self, left: TermId, right: TermId) -> TermId {
        match (self.get(left).clone(), self.get(right).clone()) {
            (_, Term::Integer(n)) => self.offset(left, n),
            (Term::Integer(n), _) => self.offset(right, n),
            (Term::Sum { base, offset }, _) => {
                let inner = self.add(base, right);
                self.offset(inner, offset)
            }
            (_, Term::Sum { base, offset }) => {
                let inner = self.add(left, base);
                self.offset(inner, offset)
            }
            _ => {
                let mut arguments = vec![left, right];
                arguments.sort();
                self.call("+", arguments)
            }
        }
    }

    pub fn offset(&mut self, term: TermId, by: i64) -> TermId {
        let (base, offset) = match self.get(term).clone() {
            Term::Integer(n) => match n.checked_add(by) {
                Some(sum) => return self.intern(Term::Integer(sum)),
                None => return self.unknown(),
            },
            Term::Sum { base, offset } => (base, offset),
            _ => (term, 0),
        };
        match offset.checked_add(by) {
            Some(0) => base,
            Some(offset) => self.intern(Term::Sum { base, offset }),
            None => self.unknown(),
        }
    }

    /// The term without an added constant.
    pub fn base(&self, term: TermId) -> TermId {
        match self.get(term) {
            Term::Sum { base, .. } => *base,
            _ => term,
        }
    }

    pub fn choice(&mut self, options: &[TermId]) -> TermId {
        let mut flat: Vec<TermId> = Vec::new();
        for &option in options {
            match self.get(option) {
                Term::Choice(inner) => flat.extend(inner),
                _ => flat.push(option),
            }
        }
        flat.sort();
        flat.dedup();
        if flat.len() == 1 { flat[0] } else { self.intern(Term::Choice(flat)) }
    }

    pub fn set_carried(&mut self, site: u32, before: TermId, after: TermId) {
        self.carried.insert(site, (before, after));
    }

    pub fn learn(&mut self, term: TermId, sign: Sign) {
        let known = self.facts.get(&term).copied().unwrap_or(Sign::ANY);
        self.facts.insert(term, known.and(sign));
    }

    /// The leaves that a value is computed from; an aggregate counts as a leaf besides what it sums.
    pub fn leaves(&self, term: TermId) -> BTreeSet<TermId> {
        let mut leaves = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut todo = vec![term];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.get(id) {
                Term::Element { array, index } => todo.extend([*array, *index]),
                Term::Choice(options) => todo.extend(options),
                Term::Carried(site) => match self.carried.get(site) {
                    Some((before, after)) => todo.extend([*before, *after]),
                    None => {
                        leaves.insert(id);
                    }
                },
                Term::Sum { base, .. } => todo.push(*base),
                Term::Call { arguments, .. } => todo.extend(arguments),
                Term::Aggregate { argument, .. } => {
                    leaves.insert(id);
                    todo.extend(argument);
                }
                _ => {
                    leaves.insert(id);
                }
            }
        }
        leaves
    }

    /// Which signs the value may have, from literals, facts and arithmetic.
    pub fn sign(&self, term: TermId) -> Sign {
        self.sign_within(term, 16)
    }

    fn sign_within(&self, term: TermId, depth: u32) -> Sign {
        let fact = self.facts.get(&term).copied().unwrap_or(Sign::ANY);
        if depth == 0 {
            return fact;
        }
        let deeper = |id: TermId| self.sign_within(id, depth - 1);
        let structural = match self.get(term) {
            Term::Integer(n) => Sign::of_integer(*n),
            Term::Literal(_, sign) => *sign,
            Term::Choice(options) => options.iter().map(|&id| deeper(id)).reduce(Sign::or).unwrap_or(fact),
            Term::Sum { base, offset } => deeper(*base).plus(Sign::of_integer(*offset)),
            Term::Aggregate { function, .. } if function == "count" => Sign::NOT_NEGATIVE,
            Term::Call { name, arguments } => match (name.as_str(), arguments.as_slice()) {
                ("-", [inner]) => deeper(*inner).negated(),
                ("+", list) => list.iter().map(|&id| deeper(id)).reduce(Sign::plus).unwrap_or(fact),
                ("*", [left, right]) if left == right => {
                    Sign { negative: false, ..deeper(*left).times(Sign::ANY) }
                }
                ("*", [left, right]) => deeper(*left).times(deeper(*right)),
                // NULLs are passed over: only a number that is surely there counts.
                ("greatest" | "least", list) => {
                    let all = list.iter().map(|&id| deeper(id)).reduce(Sign::or).unwrap_or(fact);
                    list.iter().fold(all, |sign, &id| match (name.as_str(), self.get(id)) {
                        ("greatest", Term::Integer(n)) if *n >= 0 => {
                            Sign { negative: false, zero: sign.zero && *n == 0, ..sign }
                        }
                        ("least", Term::Integer(n)) if *n <= 0 => {
                            Sign { positive: false, zero: sign.zero && *n == 0, ..sign }
                        }
                        _ => sign,
                    })
                }
                ("abs" | "cardinality", _) => Sign::NOT_NEGATIVE,
                _ => Sign::ANY,
            },
            _ => Sign::ANY,
        };
        structural.and(fact)
    }
}
