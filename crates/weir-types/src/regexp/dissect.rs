//! Which part of a match is whose: groups and references, by the preference of each part, from left to right (regexec.c of Henry
//! Spencer's library).

use std::cell::OnceCell;

use super::automaton::Automaton;
use super::parse::SHORTER;
use super::{Ast, Groups, Op, Sub, cases};
use crate::error::SqlError;
use crate::interrupt::check;

/// A part of the expression with its automaton.
#[derive(Debug)]
pub(super) struct Part {
    kind: Kind,
    flags: u8,
    pub(super) ast: Ast,
    insensitive: bool,
    automaton: OnceCell<Automaton>,
}

#[derive(Debug)]
enum Kind {
    Plain,
    Concat(Box<[Part; 2]>),
    Alternatives(Vec<Part>),
    Repeat { inner: Box<Part>, min: usize, max: usize },
    Group(usize, Box<Part>),
    Reference { group: usize, min: usize, max: usize },
}

impl Part {
    pub(super) fn new(sub: Sub, insensitive: bool) -> Part {
        let part = |sub: Sub| Part::new(sub, insensitive);
        let most = |max: Option<u32>| max.map_or(usize::MAX, |max| max as usize);
        let kind = match sub.op {
            Op::Plain => Kind::Plain,
            Op::Concat(left, right) => Kind::Concat(Box::new([part(*left), part(*right)])),
            Op::Alternatives(list) => Kind::Alternatives(list.into_iter().map(part).collect()),
            Op::Repeat { inner, min, max } => {
                Kind::Repeat { inner: Box::new(part(*inner)), min: min as usize, max: most(max) }
            }
            Op::Group(number, inner) => Kind::Group(number, Box::new(part(*inner))),
            Op::Reference { group, min, max } => Kind::Reference { group, min: min as usize, max: most(max) },
        };
        Part { kind, flags: sub.flags, ast: sub.ast, insensitive, automaton: OnceCell::new() }
    }

    pub(super) fn automaton(&self) -> &Automaton {
        self.automaton.get_or_init(|| Automaton::new(&self.ast, self.insensitive))
    }

    pub(super) fn prefers_short(&self) -> bool {
        self.flags & SHORTER != 0
    }

    /// Finds the groups of a match of this part from `begin` to `end`; false if references make it none.
    ///
    /// # Errors
    /// The statement is to end: one match may take as long as there are ways to divide a text.
    pub(super) fn dissect(
        &self,
        text: &[char],
        (begin, end): (usize, usize),
        groups: &mut Groups,
    ) -> Result<bool, SqlError> {
        Ok(match &self.kind {
            Kind::Plain => true,
            Kind::Concat(parts) => concat(parts, text, (begin, end), groups)?,
            Kind::Alternatives(list) => {
                for one in list {
                    if one.automaton().matches(text, (begin, end))?
                        && one.dissect(text, (begin, end), groups)?
                    {
                        return Ok(true);
                    }
                }
                false
            }
            Kind::Group(number, inner) => {
                let found = inner.dissect(text, (begin, end), groups)?;
                if found {
                    groups[*number] = Some((begin, end));
                }
                found
            }
            Kind::Repeat { inner, min, max } => {
                let search = Search { inner, text, begin, end, min: *min, max: *max };
                search.run(groups)?
            }
            Kind::Reference { group, min, max } => {
                let Some((from, to)) = groups[*group] else { return Ok(false) };
                let (wanted, found) = (&text[from..to], &text[begin..end]);
                if wanted.is_empty() || found.is_empty() {
                    return Ok(found.is_empty() && (wanted.is_empty() || *min == 0));
                }
                let times = found.len() / wanted.len();
                let same = |one: &char, other: &char| {
                    one == other || self.insensitive && cases(*one).iter().any(|c| cases(*other).contains(c))
                };
                found.len() % wanted.len() == 0
                    && (*min..=*max).contains(&times)
                    && found.iter().zip(wanted.iter().cycle()).all(|(one, other)| same(one, other))
            }
        })
    }

    /// Forgets what its groups have matched.
    fn forget(&self, groups: &mut Groups) {
        match &self.kind {
            Kind::Plain | Kind::Reference { .. } => {}
            Kind::Concat(parts) => parts.iter().for_each(|part| part.forget(groups)),
            Kind::Alternatives(list) => list.iter().for_each(|part| part.forget(groups)),
            Kind::Repeat { inner, .. } => inner.forget(groups),
            Kind::Group(number, inner) => {
                groups[*number] = None;
                inner.forget(groups);
            }
        }
    }
}

fn concat(
    [left, right]: &[Part; 2],
    text: &[char],
    (begin, end): (usize, usize),
    groups: &mut Groups,
) -> Result<bool, SqlError> {
    let shorter = left.prefers_short();
    let mut limit = if shorter { begin } else { end };
    loop {
        check()?;
        let middle = match shorter {
            true => left.automaton().shortest(text, begin, limit, end)?,
            false => left.automaton().longest(text, begin, limit)?,
        };
        let Some(middle) = middle else { return Ok(false) };
        if right.automaton().matches(text, (middle, end))? {
            if left.dissect(text, (begin, middle), groups)? && right.dissect(text, (middle, end), groups)? {
                return Ok(true);
            }
            left.forget(groups);
            right.forget(groups);
        }
        limit = match shorter {
            true if middle < end => middle + 1,
            false if middle > begin => middle - 1,
            _ => return Ok(false),
        };
    }
}

/// A way to divide a text among the repetitions of a part: at least one.
struct Search<'a> {
    inner: &'a Part,
    text: &'a [char],
    begin: usize,
    end: usize,
    min: usize,
    max: usize,
}

impl Search<'_> {
    /// No repetition at all is tried last: a group that can match nothing does.
    fn run(mut self, groups: &mut Groups) -> Result<bool, SqlError> {
        let may_be_none = self.min == 0 && self.begin == self.end;
        self.min = self.min.max(1);
        self.max = self.max.min(self.end - self.begin).max(self.min);
        let found = match self.inner.prefers_short() {
            true => self.shortest_first(groups)?,
            false => self.longest_first(groups)?,
        };
        if !found && may_be_none {
            self.inner.forget(groups);
        }
        Ok(found || may_be_none)
    }

    /// The first repetition that does not hold; none: all do.
    fn verify(
        &self,
        ends: &[usize],
        verified: &mut usize,
        groups: &mut Groups,
    ) -> Result<Option<usize>, SqlError> {
        for k in *verified + 1..ends.len() {
            self.inner.forget(groups);
            if !self.inner.dissect(self.text, (ends[k - 1], ends[k]), groups)? {
                return Ok(Some(k));
            }
            *verified = k;
        }
        Ok(None)
    }

    fn longest_first(&self, groups: &mut Groups) -> Result<bool, SqlError> {
        let Search { inner, text, begin, end, min, max } = *self;
        let mut ends = vec![begin];
        let (mut verified, mut limit) = (0, end);
        loop {
            check()?;
            let start = ends[ends.len() - 1];
            let k = ends.len();
            let found = inner.automaton().longest(text, start, limit)?;
            let mut last = k - 1;
            if let Some(at) = found {
                ends.push(at);
                verified = verified.min(k - 1);
                last = k;
                if at != end {
                    if k >= max {
                        last = k - 1;
                    } else if at != start || k < min && min - k >= end - at {
                        limit = end;
                        continue;
                    }
                } else if k >= min {
                    match self.verify(&ends, &mut verified, groups)? {
                        None => return Ok(true),
                        Some(wrong) => last = wrong,
                    }
                }
            }
            // A shorter match of the last one that can have one.
            loop {
                if last == 0 {
                    return Ok(false);
                }
                let (before, at) = (ends[last - 1], ends[last]);
                if at > before && (at - 1 > before || last < min && min - last >= end - before) {
                    limit = at - 1;
                    ends.truncate(last);
                    break;
                }
                last -= 1;
            }
        }
    }

    fn shortest_first(&self, groups: &mut Groups) -> Result<bool, SqlError> {
        let Search { inner, text, begin, end, min, max } = *self;
        let mut ends = vec![begin];
        let (mut verified, mut limit) = (0, begin);
        loop {
            check()?;
            let start = ends[ends.len() - 1];
            let k = ends.len();
            if limit == start && limit != end && (k >= min || min - k < end - limit) {
                limit += 1;
            }
            if k >= max {
                limit = end;
            }
            let found = inner.automaton().shortest(text, start, limit, end)?;
            let mut last = k - 1;
            if let Some(at) = found {
                ends.push(at);
                verified = verified.min(k - 1);
                last = k;
                if at != end {
                    if k < max {
                        limit = at;
                        continue;
                    }
                    last = k - 1;
                } else if k >= min {
                    match self.verify(&ends, &mut verified, groups)? {
                        None => return Ok(true),
                        Some(wrong) => last = wrong,
                    }
                }
            }
            // A longer match of the last one that can have one.
            while last > 0 && ends[last] >= end {
                last -= 1;
            }
            if last == 0 {
                return Ok(false);
            }
            limit = ends[last] + 1;
            ends.truncate(last);
        }
    }
}
