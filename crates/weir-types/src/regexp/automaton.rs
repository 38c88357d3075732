//! A nondeterministic automaton over characters: where a match that begins here may end. It knows no groups.

use super::parse::too_complex;
use super::{Assert, Ast, Item, Set};
use crate::error::SqlError;
use crate::interrupt::check_work;

/// More states would be too slow to be of use.
const STATES_MAX: usize = 20_000;

/// States that are gone through in the time of one check.
const STATES_PER_CHECK: usize = 16;

#[derive(Debug)]
enum State {
    Set(Set, usize),
    Split(usize, usize),
    Assert(Assert, usize),
    Look { ahead: bool, negated: bool, of: Box<Automaton>, next: usize },
    Match,
}

#[derive(Debug)]
pub(super) struct Automaton {
    states: Vec<State>,
    start: usize,
    insensitive: bool,
}

fn size(ast: &Ast) -> usize {
    match ast {
        Ast::Empty | Ast::Set(_) | Ast::Assert(_) => 1,
        Ast::Concat(list) | Ast::Alternatives(list) => {
            list.iter().fold(1, |sum, one| size(one).saturating_add(1).saturating_add(sum))
        }
        Ast::Repeat(inner, min, max) => {
            let times = max.unwrap_or(min + 1).max(1) as usize;
            size(inner).saturating_add(1).saturating_mul(times)
        }
        Ast::Look { ast, .. } => size(ast).saturating_add(1),
    }
}

impl Automaton {
    /// Number of its states, about.
    pub(super) fn check_size(ast: &Ast) -> Result<usize, SqlError> {
        match size(ast) {
            size if size > STATES_MAX => Err(too_complex()),
            size => Ok(size),
        }
    }

    pub(super) fn new(ast: &Ast, insensitive: bool) -> Automaton {
        let mut automaton = Automaton { states: vec![State::Match], start: 0, insensitive };
        automaton.start = automaton.add(ast, 0);
        automaton
    }

    fn push(&mut self, state: State) -> usize {
        self.states.push(state);
        self.states.len() - 1
    }

    /// The state from which the tree is matched and then `next`.
    fn add(&mut self, ast: &Ast, next: usize) -> usize {
        match ast {
            Ast::Empty => next,
            Ast::Set(set) => self.push(State::Set(set.clone(), next)),
            Ast::Assert(assert) => self.push(State::Assert(*assert, next)),
            Ast::Concat(list) => list.iter().rev().fold(next, |next, one| self.add(one, next)),
            Ast::Alternatives(list) => {
                let starts: Vec<usize> = list.iter().map(|one| self.add(one, next)).collect();
                starts.into_iter().reduce(|one, other| self.push(State::Split(one, other))).unwrap_or(next)
            }
            Ast::Repeat(inner, min, max) => {
                let mut at = match max {
                    Some(max) => (*min..*max).fold(next, |at, _| {
                        let one = self.add(inner, at);
                        self.push(State::Split(one, next))
                    }),
                    None => {
                        let again = self.push(State::Split(next, next));
                        let one = self.add(inner, again);
                        self.states[again] = State::Split(one, next);
                        again
                    }
                };
                for _ in 0..*min {
                    at = self.add(inner, at);
                }
                at
            }
            Ast::Look { ahead, negated, ast } => {
                let of = Box::new(Automaton::new(ast, self.insensitive));
                self.push(State::Look { ahead: *ahead, negated: *negated, of, next })
            }
        }
    }

    /// The last place, up to `limit`, where a match that begins there may end.
    ///
    /// # Errors
    /// The statement is to end.
    pub(super) fn longest(
        &self,
        text: &[char],
        begin: usize,
        limit: usize,
    ) -> Result<Option<usize>, SqlError> {
        let mut last = None;
        self.run(text, (begin, limit), false, &mut |end| {
            last = Some(end);
            false
        })?;
        Ok(last)
    }

    /// The first place from `min` up to `max`.
    pub(super) fn shortest(
        &self,
        text: &[char],
        begin: usize,
        min: usize,
        max: usize,
    ) -> Result<Option<usize>, SqlError> {
        let mut first = None;
        self.run(text, (begin, max), false, &mut |end| {
            if end >= min {
                first = Some(end);
            }
            first.is_some()
        })?;
        Ok(first)
    }

    pub(super) fn matches(&self, text: &[char], (begin, end): (usize, usize)) -> Result<bool, SqlError> {
        Ok(self.shortest(text, begin, end, end)? == Some(end))
    }

    /// Whether a match begins at that place or behind it.
    ///
    /// # Errors
    /// The statement is to end.
    pub(super) fn occurs(&self, text: &[char], start: usize) -> Result<bool, SqlError> {
        let mut found = false;
        self.run(text, (start, text.len()), true, &mut |_| {
            found = true;
            true
        })?;
        Ok(found)
    }

    /// Whether anything that ends there matches.
    fn ends_at(&self, text: &[char], end: usize) -> Result<bool, SqlError> {
        let mut found = false;
        self.run(text, (0, end), true, &mut |at| {
            found |= at == end;
            found
        })?;
        Ok(found)
    }

    /// Says every place where a match may end, until that is enough. `anywhere`: it may begin at each place.
    fn run(
        &self,
        text: &[char],
        (begin, limit): (usize, usize),
        anywhere: bool,
        ends: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), SqlError> {
        let mut marks = vec![usize::MAX; self.states.len()];
        let (mut now, mut next) = (Vec::new(), Vec::new());
        let mut todo = vec![self.start];
        for at in begin..=limit {
            if anywhere && at > begin {
                todo.push(self.start);
            }
            let matched = self.close(text, at, &mut todo, &mut marks, &mut now)?;
            if matched && ends(at) {
                return Ok(());
            }
            if at == limit || now.is_empty() && !anywhere {
                return Ok(());
            }
            check_work(now.len() / STATES_PER_CHECK)?;
            for &state in &now {
                if let State::Set(set, to) = &self.states[state]
                    && set.has(text[at], self.insensitive)
                {
                    next.push(*to);
                }
            }
            now.clear();
            std::mem::swap(&mut todo, &mut next);
        }
        Ok(())
    }

    /// All states that are reached without a character; whether the end is among them.
    fn close(
        &self,
        text: &[char],
        at: usize,
        todo: &mut Vec<usize>,
        marks: &mut [usize],
        now: &mut Vec<usize>,
    ) -> Result<bool, SqlError> {
        let mut matched = false;
        while let Some(state) = todo.pop() {
            if std::mem::replace(&mut marks[state], at) == at {
                continue;
            }
            match &self.states[state] {
                State::Match => matched = true,
                State::Set(..) => now.push(state),
                State::Split(one, other) => todo.extend([*one, *other]),
                State::Assert(assert, to) if assert.holds(text, at) => todo.push(*to),
                State::Assert(..) => {}
                State::Look { ahead, negated, of, next } => {
                    let found = match ahead {
                        true => of.shortest(text, at, at, text.len())?.is_some(),
                        false => of.ends_at(text, at)?,
                    };
                    if found != *negated {
                        todo.push(*next);
                    }
                }
            }
        }
        Ok(matched)
    }
}

/// Writes the pattern in the syntax of the `regex` crate; false if that cannot express it.
pub(super) fn in_crate(ast: &Ast, out: &mut String) -> bool {
    match ast {
        Ast::Empty => true,
        Ast::Set(set) => {
            set_in_crate(set, out);
            true
        }
        Ast::Concat(list) => list.iter().all(|one| in_crate(one, out)),
        Ast::Alternatives(list) => {
            out.push_str("(?:");
            for (number, one) in list.iter().enumerate() {
                if number > 0 {
                    out.push('|');
                }
                if !in_crate(one, out) {
                    return false;
                }
            }
            out.push(')');
            true
        }
        Ast::Repeat(inner, min, max) => {
            out.push_str("(?:");
            if !in_crate(inner, out) {
                return false;
            }
            out.push(')');
            let max = max.map_or(String::new(), |max| max.to_string());
            out.push_str(&format!("{{{min},{max}}}"));
            true
        }
        Ast::Assert(assert) => {
            out.push_str(match assert {
                Assert::Start => r"\A",
                Assert::End => r"\z",
                Assert::LineStart => r"(?m:^)",
                Assert::LineEnd => r"(?m:$)",
                // A word is not all that is one for the crate.
                _ => return false,
            });
            true
        }
        Ast::Look { .. } => false,
    }
}

fn set_in_crate(set: &Set, out: &mut String) {
    if set.items.is_empty() {
        out.push_str(if set.negated { "(?s-i:.)" } else { "[^\\x{0}-\\x{10ffff}]" });
        return;
    }
    out.push_str(if set.negated { "[^" } else { "[" });
    for item in &set.items {
        match item {
            Item::Range(first, last) => {
                out.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", *first as u32, *last as u32));
            }
            Item::Class(class, false) => out.push_str(class.in_crate()),
            Item::Class(class, true) => out.push_str(&format!("[^{}]", class.in_crate())),
        }
    }
    out.push(']');
}
