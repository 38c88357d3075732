//! Transactions with the same statements are one template: their values become parameters.
//!
//! Two values that were equal in every observed call, and not always the same, are one parameter; a constant
//! that the application itself wrote into a prepared statement, and that never changed, stays. Both are
//! observations, as the frequencies are: a log shows what happened, not what can happen.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::session::Transaction;
use super::statement::{Executed, Kind, Shapes, with_parameters};
use crate::source::Span;

/// The statements' fingerprints, and whether it runs serializably.
type Key = (Vec<String>, bool);

#[derive(Debug, Default)]
pub(super) struct Templates {
    by_key: BTreeMap<Key, Template>,
}

#[derive(Debug)]
struct Template {
    count: u64,
    place: Span,
    /// One of them, with the longest lists.
    statements: Vec<Executed>,
    name: String,
    slots: Vec<Slot>,
}

/// A hole of one of the statements, over all calls.
#[derive(Clone, Debug)]
struct Slot {
    statement: usize,
    hole: usize,
    first: Option<String>,
    varies: bool,
    number: bool,
    fixed: bool,
    /// Its statement has had another number of holes in some call, so that it cannot be followed.
    lost: bool,
    /// Slots with one number here have been equal in every call.
    class: usize,
}

/// A transaction as a text of the kind that [`crate::ways::queries`] reads.
pub(super) struct Written {
    pub name: String,
    pub text: String,
    pub count: u64,
    pub place: Span,
}

impl Templates {
    pub fn add(&mut self, transaction: Transaction, shapes: &Shapes) {
        let fingerprints = transaction.statements.iter().map(|one| shapes.get(one.shape).fingerprint.clone());
        let key = (fingerprints.collect(), transaction.serializable);
        match self.by_key.get_mut(&key) {
            Some(template) => template.add(transaction.statements),
            None => {
                let name = name(&key, &transaction.statements, shapes);
                let template = Template::new(transaction.statements, transaction.place, name);
                self.by_key.insert(key, template);
            }
        }
    }

    /// The most frequent first.
    pub fn write(self) -> Vec<Written> {
        let mut written: Vec<Written> = self
            .by_key
            .into_iter()
            .map(|((_, serializable), template)| {
                let text = template.text(serializable);
                Written { name: template.name, text, count: template.count, place: template.place }
            })
            .collect();
        written.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        written
    }
}

/// The routine that the transaction calls, if it does nothing else.
pub(super) fn only_call<'s>(transaction: &Transaction, shapes: &'s Shapes) -> Option<&'s str> {
    match transaction.statements.as_slice() {
        [one] => match &shapes.get(one.shape).kind {
            Kind::Call(routine) => Some(routine),
            _ => None,
        },
        _ => None,
    }
}

const NAME_PARTS_MAX: usize = 3;

/// Name made of its first actions, and of digits that depend only on its statements.
fn name((fingerprints, serializable): &Key, statements: &[Executed], shapes: &Shapes) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for statement in statements {
        let part = shapes.get(statement.shape).name.as_str();
        if !parts.contains(&part) && parts.len() < NAME_PARTS_MAX {
            parts.push(part);
        }
    }
    // FNV-1a: the same digits on every machine.
    let digits = fingerprints.iter().flat_map(|one| one.bytes()).chain([u8::from(*serializable)]);
    let hash = digits
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let words: String = parts
        .join("_")
        .chars()
        .map(|c| if c.is_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' })
        .collect();
    format!("{words}_{:06x}", hash & 0xff_ffff)
}

/// Identity of a hole's value, equal for equal values of one call; unknown values only equal themselves.
fn identity(statement: usize, hole: &super::statement::Hole) -> (usize, String) {
    match (&hole.value, hole.parameter) {
        (Some(value), _) => (0, value.clone()),
        (None, Some(parameter)) => (statement + 1, parameter.to_string()),
        (None, None) => (statement + 1, format!("at {}", hole.start)),
    }
}

impl Template {
    fn new(statements: Vec<Executed>, place: Span, name: String) -> Template {
        let mut slots = Vec::new();
        let mut classes: BTreeMap<(usize, String), usize> = BTreeMap::new();
        for (index, statement) in statements.iter().enumerate() {
            for (at, hole) in statement.holes.iter().enumerate() {
                let next = classes.len();
                let class = *classes.entry(identity(index, hole)).or_insert(next);
                slots.push(Slot {
                    statement: index,
                    hole: at,
                    first: hole.value.clone(),
                    varies: false,
                    number: hole.number,
                    fixed: hole.fixed,
                    lost: false,
                    class,
                });
            }
        }
        Template { count: 1, place, statements, name, slots }
    }

    fn add(&mut self, statements: Vec<Executed>) {
        self.count += 1;
        let mut classes: BTreeMap<(usize, usize, String), usize> = BTreeMap::new();
        for slot in &mut self.slots {
            let statement = &statements[slot.statement];
            slot.lost |= statement.holes.len() != self.statements[slot.statement].holes.len();
            let Some(hole) = statement.holes.get(slot.hole).filter(|_| !slot.lost) else { continue };
            slot.varies |= hole.value != slot.first;
            slot.number &= hole.number;
            slot.fixed &= hole.fixed;
            let (statement, value) = identity(slot.statement, hole);
            let next = classes.len();
            slot.class = *classes.entry((slot.class, statement, value)).or_insert(next);
        }
    }

    /// By statement and hole, the number of its parameter.
    fn numbers(&self) -> Vec<Vec<Option<usize>>> {
        let mut numbers: Vec<Vec<Option<usize>>> =
            self.statements.iter().map(|statement| vec![None; statement.holes.len()]).collect();
        let mut known: BTreeMap<(usize, usize, bool), usize> = BTreeMap::new();
        let mut count = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.fixed && !slot.varies && !slot.lost {
                continue;
            }
            let own = self.statements[slot.statement].holes[slot.hole].parameter;
            // Equal slots that always had one value may have different meanings.
            let key = match (slot.lost, slot.varies, own) {
                (false, true, _) => (0, slot.class, slot.number),
                (_, _, Some(parameter)) => (slot.statement + 1, parameter, true),
                (_, _, None) => (usize::MAX, index, true),
            };
            numbers[slot.statement][slot.hole] = Some(*known.entry(key).or_insert_with(|| {
                count += 1;
                count
            }));
        }
        numbers
    }

    fn text(&self, serializable: bool) -> String {
        let heading = if serializable { " serializable" } else { "" };
        let mut text = format!("-- transaction: {}{heading}\n", self.name);
        for (statement, numbers) in self.statements.iter().zip(self.numbers()) {
            let _ = writeln!(text, "{};", with_parameters(statement, &numbers));
        }
        text
    }
}
