//! An anomaly as a story: two calls with values, their reads and writes, and the result.

use weir_sql::bound::VariableId;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::SqlType;

use super::Example;
use super::conflict::Item;
use crate::effects::{Key, Operation, ProcedureEffects, ReadId, Term, TermId, Write};
use crate::world::{World, unique_part};

/// More parameters and names than this are not shown.
const SHOWN_MAX: usize = 3;

pub struct Story {
    pub message: String,
    pub example: Example,
    pub remedies: Vec<String>,
}

/// One transaction and the read that another one changes.
pub struct Scene<'a> {
    pub world: &'a World<'a>,
    pub procedure: usize,
    pub item: Item,
}

/// Values that both calls have: of terms of the first, and of terms of another transaction.
#[derive(Default)]
pub(crate) struct Shared {
    pub terms: Vec<TermId>,
    pub others: Vec<(TermId, String)>,
}

/// Which call's values: those that both share are the left one's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Scene<'_> {
    fn effects(&self) -> &ProcedureEffects {
        &self.world.effects[self.procedure]
    }

    fn name(&self) -> &str {
        self.world.name(self.procedure)
    }

    fn other(&self, with: usize) -> String {
        self.world.other(self.procedure, with)
    }

    pub fn lost_update(&self, with: usize, derived: bool) -> Story {
        let world = self.world;
        let write = &self.effects().writes[self.item.write];
        let column = self.item.column.unwrap_or(0);
        let name = world.column_name(write.table, column);
        let does = match derived {
            true => format!("reads {name} and writes back a value computed from it"),
            false => format!("decides by {name} and then overwrites it"),
        };
        let message = format!("{} {does}; beside {} one of the two is lost", self.name(), self.other(with));
        let number = derived && is_number(&world.table(write.table).columns[column].ty);
        let was = if number { "10" } else { "x" };
        let key = self.effects().key_of(write);
        let mut shared = Shared { terms: key.iter().map(|(_, term)| *term).collect(), others: Vec::new() };
        if with != self.procedure {
            let theirs = self.world.effects[with].writes.iter();
            let theirs =
                theirs.filter(|other| other.table == write.table && other.update_of(column).is_some());
            let keys = theirs.map(|other| self.world.effects[with].key_of(other));
            shared.others = keys.flat_map(|other| self.meeting(&key, &other)).collect();
        }
        let row = self.row(self.procedure, write.table, &key, Side::Left, &shared);
        let reads = |call: String| format!("{call} reads {name} of {row}: {was}");
        let writes = |call: String, value: &str| format!("{call} writes {name} = {value} there");
        let (one, two) = match (number, derived) {
            (true, _) => ("11 (10 and 1 more)", "12 (10 and 2 more)"),
            (false, true) => ("a value computed from x", "another value computed from x"),
            (false, false) => ("y", "z"),
        };
        let left = self.call(self.procedure, Side::Left, &shared);
        let right = self.call(with, Side::Right, &shared);
        let own_too = with == self.procedure || self.reads_too(with, write.table, column);
        let mut right_steps = vec![writes(right.clone(), two)];
        if own_too {
            right_steps.insert(0, reads(right));
        }
        let outcome = match number {
            true => format!("{name} is 11 or 12; one after the other it would have been 13."),
            false => format!(
                "{name} has one of the two values, and the call that wrote the other has seen none of it."
            ),
        };
        let example = Example {
            initial: format!("{row}: {name} = {was}"),
            left: vec![reads(left.clone()), writes(left, one)],
            right: right_steps,
            outcome,
        };
        Story { message, example, remedies: self.lost_update_remedies(write, column, derived) }
    }

    /// The row of the one key is the row of the other: what the other's terms are.
    pub(crate) fn meeting(&self, own: &Key, other: &Key) -> Vec<(TermId, String)> {
        let mut values = Vec::new();
        for (column, term) in other {
            if let Some((_, with)) = own.iter().find(|(bound, _)| bound == column) {
                values.push((*term, self.value(self.procedure, *with, Side::Left, &Shared::default())));
            }
        }
        values
    }

    fn reads_too(&self, procedure: usize, table: TableId, column: ColumnIndex) -> bool {
        let reads = &self.world.effects[procedure].reads;
        reads.iter().any(|read| read.table == table && read.columns.contains(&column))
    }

    fn lost_update_remedies(&self, write: &Write, column: ColumnIndex, derived: bool) -> Vec<String> {
        let mut remedies = Vec::new();
        let table = self.world.table(write.table);
        let name = &table.columns[column].name;
        let operation = write.update_of(column);
        if let Some(form) = operation
            .filter(|_| derived)
            .and_then(|operation| self.merged_form(write, column, operation.term()))
        {
            remedies.push(match form.as_str() {
                "+" => format!("{name} = {name} + … in the UPDATE keeps both"),
                function => format!("{name} = {function}({name}, …) in the UPDATE keeps both"),
            });
        }
        remedies.push(format!(
            "SELECT … FROM {} … FOR UPDATE, before, makes the second wait and see",
            table.name
        ));
        remedies.push(self.serializable());
        remedies
    }

    /// `+`, `greatest` or `least`, if the new value is the old one with something added, or the higher or lower.
    fn merged_form(&self, write: &Write, column: ColumnIndex, term: TermId) -> Option<String> {
        let terms = &self.effects().terms;
        let own = |term: TermId| match *terms.get(term) {
            Term::Field { row, column: of } => of == column && self.effects().read(row).table == write.table,
            _ => false,
        };
        let mentions = |term: TermId| terms.leaves(term).into_iter().any(own);
        match terms.get(term) {
            Term::Sum { base, .. } if own(*base) => Some("+".to_string()),
            Term::Sum { base, .. } => self.merged_form(write, column, *base).filter(|form| form == "+"),
            Term::Call { name, arguments } => {
                let [one, two] = arguments.as_slice() else { return None };
                let beside = own(*one) && !mentions(*two) || own(*two) && !mentions(*one) && name != "-";
                match name.as_str() {
                    "+" | "-" if beside => Some("+".to_string()),
                    "greatest" | "least" if beside => Some(name.clone()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn serializable(&self) -> String {
        format!("declared serializable, {} runs in order (dearer)", self.name())
    }

    pub fn write_skew(&self, with: usize, back: Item) -> Story {
        let world = self.world;
        let (own, other) = (self.effects(), &world.effects[with]);
        let (ours, theirs) = (&own.writes[back.write], &other.writes[self.item.write]);
        let seen = self.item_name(theirs.table, self.item.column);
        let changed = self.item_name(ours.table, back.column);
        let message = match (seen == changed, with == self.procedure) {
            (true, _) => format!(
                "{} decides by {seen}, which it changes too; beside {} neither sees the other's change",
                self.name(),
                self.other(with)
            ),
            (false, true) => format!(
                "{} reads {seen} and writes {changed}; beside another one of itself neither sees the other",
                self.name()
            ),
            (false, false) => format!(
                "{} reads {seen} and writes {changed}; {} reads the one and writes the other, and neither sees the other",
                self.name(),
                world.name(with)
            ),
        };
        let read = own.read(self.item.read);
        let mut shared = Shared::default();
        match with == self.procedure {
            true => shared.terms = read.key.iter().map(|(_, term)| *term).collect(),
            false => {
                shared.others = self.meeting(&read.key, &other.key_of(theirs));
                shared.others.extend(self.meeting(&own.key_of(ours), &other.read(back.read).key));
            }
        }
        let shared = &shared;
        let side = |procedure: usize, side: Side, read: ReadId, write: &Write| {
            let effects = &world.effects[procedure];
            let call = self.call(procedure, side, shared);
            let from = effects.read(read);
            let columns = if procedure == self.procedure { self.item.column } else { back.column };
            let reads = format!(
                "{call} reads {} of {}",
                self.item_name(from.table, columns),
                self.row(procedure, from.table, &from.key, side, shared)
            );
            let row = self.row(procedure, write.table, &effects.key_of(write), side, shared);
            vec![reads, format!("{call} {} {row}", self.verb(write))]
        };
        let second = if with == self.procedure { self.item.read } else { back.read };
        let example = Example {
            initial: "any state in which both may run".to_string(),
            left: side(self.procedure, Side::Left, self.item.read, ours),
            right: side(with, Side::Right, second, theirs),
            outcome:
                "Both commit. One after the other, the second would have read what the first wrote, and \
                      might have done otherwise."
                    .to_string(),
        };
        let table = &world.table(theirs.table).name;
        let mut remedies = Vec::new();
        if seen == changed
            && theirs
                .updates()
                .iter()
                .any(|(_, operation)| matches!(operation, crate::effects::ColumnOperation::Add(_)))
        {
            remedies.push(format!(
                "CHECK (…) on {seen} says which value must not be passed: escrow keeps a bound"
            ));
        } else {
            remedies.push(
                "CREATE ASSERTION of what must hold: then only what breaks it is coordinated".to_string(),
            );
        }
        remedies.push(format!("SELECT … FROM {table} … FOR UPDATE, if it writes those rows too"));
        remedies.push(self.serializable());
        Story { message, example, remedies }
    }

    pub fn fractured_read(&self, with: usize, another: Item) -> Story {
        let (one, two) = self.two_items(another);
        let name = self.name();
        let writer = self.other(with);
        let reader = self.call(self.procedure, Side::Left, &Shared::default());
        let message = format!(
            "{name} reads {one} and {two} at different moments; of {writer} it may see one write only"
        );
        let example = Example {
            initial: "before the writer's call".to_string(),
            left: vec![
                format!("{reader} reads {one}"),
                format!("{reader} reads {two}, and sees the writer's"),
            ],
            right: vec![format!("{writer} writes {one} and {two}, between the two reads")],
            outcome: "It has seen a part of what the other did.".to_string(),
        };
        let remedies = vec![
            "parameters that name the rows, so that all of it is read at once".to_string(),
            self.serializable(),
        ];
        Story { message, example, remedies }
    }

    pub fn long_fork(&self, first: usize, second: usize, another: Item) -> Story {
        let (one, two) = self.two_items(another);
        let name = self.name();
        let (a, b) = (self.world.name(first), self.world.name(second));
        let message = match one == two {
            true => format!("two calls of {name} may see changes of {one} by {a} in opposite orders"),
            false => format!(
                "two calls of {name} may see {a} change {one} and {b} change {two} in opposite orders"
            ),
        };
        let (x, y) = match one == two {
            true => (self.one_of("one", self.item), self.one_of("another", another)),
            false => (one, two),
        };
        let writers = match a == b {
            true => format!("two calls of {a}"),
            false => format!("{a} and {b}"),
        };
        let example = Example {
            initial: format!(
                "{writers}, at once, independent of each other, change {x} and {y} on two shards"
            ),
            left: vec![format!("{name} sees {x} changed, and {y} not yet")],
            right: vec![format!("{name} sees {y} changed, and {x} not yet")],
            outcome: "No order of the two changes agrees with both readers.".to_string(),
        };
        let remedies = vec![
            "nothing, unless two readers compare notes; then put both on one shard".to_string(),
            self.serializable(),
        ];
        Story { message, example, remedies }
    }

    fn two_items(&self, another: Item) -> (String, String) {
        let name = |item: Item| self.item_name(self.effects().read(item.read).table, item.column);
        (name(self.item), name(another))
    }

    /// "one row's t.a", "another row of t".
    fn one_of(&self, which: &str, item: Item) -> String {
        let table = self.effects().read(item.read).table;
        match item.column {
            Some(column) => format!("{which} row's {}", self.world.column_name(table, column)),
            None => format!("{which} row of {}", self.world.table(table).name),
        }
    }

    fn verb(&self, write: &Write) -> String {
        let columns = &self.world.table(write.table).columns;
        let names: Vec<&str> =
            write.updates().iter().map(|(column, _)| columns[*column].name.as_str()).collect();
        match write.operation {
            Operation::Insert { .. } => "inserts".to_string(),
            Operation::Update { .. } => format!("sets {} of", listed(&names)),
            Operation::Delete { .. } => "deletes".to_string(),
        }
    }

    /// `t.a`, or the rows of `t`.
    fn item_name(&self, table: TableId, column: Option<ColumnIndex>) -> String {
        match column {
            Some(column) => self.world.column_name(table, column),
            None => format!("the rows of {}", self.world.table(table).name),
        }
    }

    /// `transfer(source = 1, …)`: the parameters that find rows, with values.
    pub(crate) fn call(&self, procedure: usize, side: Side, shared: &Shared) -> String {
        let effects = &self.world.effects[procedure];
        let keys = effects.reads.iter().map(|read| read.key.clone());
        let written =
            effects.writes.iter().filter(|write| !write.is_insert()).map(|write| effects.key_of(write));
        let mut used: Vec<(VariableId, String)> = Vec::new();
        for (_, term) in keys.chain(written).flatten() {
            if let Term::Parameter(variable) = *effects.terms.get(term)
                && !used.iter().any(|(other, _)| *other == variable)
            {
                used.push((variable, self.value(procedure, term, side, shared)));
            }
        }
        used.sort();
        let more =
            used.len() > SHOWN_MAX || used.len() < self.world.app.procedures[procedure].parameters.len();
        let variables = &self.world.app.procedures[procedure].variables;
        let mut words: Vec<String> = used
            .into_iter()
            .take(SHOWN_MAX)
            .map(|(variable, value)| format!("{} = {value}", variables[variable.0 as usize].name))
            .collect();
        if more {
            words.push("…".to_string());
        }
        format!("{}({})", self.world.name(procedure), words.join(", "))
    }

    /// "the accounts row with id = 1", "the duty rows with shift = 1".
    pub(crate) fn row(
        &self,
        procedure: usize,
        table: TableId,
        key: &Key,
        side: Side,
        shared: &Shared,
    ) -> String {
        let effects = &self.world.effects[procedure];
        let definition = self.world.table(table);
        let unique = unique_part(definition, key);
        let one = unique.is_some();
        let words: Vec<String> = unique
            .unwrap_or_else(|| key.clone())
            .iter()
            .filter(|(_, term)| {
                matches!(effects.terms.get(*term), Term::Parameter(_) | Term::Integer(_) | Term::Literal(..))
            })
            .take(SHOWN_MAX)
            .map(|(column, term)| {
                format!(
                    "{} = {}",
                    definition.columns[*column].name,
                    self.value(procedure, *term, side, shared)
                )
            })
            .collect();
        let rows = if one { "row" } else { "rows" };
        match words.is_empty() {
            true if one => format!("one {} row", definition.name),
            true => format!("the {} rows", definition.name),
            false => format!("the {} {rows} with {}", definition.name, words.join(" and ")),
        }
    }

    /// Value of a term: shared terms have one value for both calls, others one for each side.
    fn value(&self, procedure: usize, term: TermId, side: Side, shared: &Shared) -> String {
        let effects = &self.world.effects[procedure];
        match effects.terms.get(term) {
            Term::Integer(n) => n.to_string(),
            Term::Literal(text, _) => literal(text),
            Term::Parameter(variable) => {
                if procedure != self.procedure
                    && let Some((_, value)) = shared.others.iter().find(|(other, _)| *other == term)
                {
                    return value.clone();
                }
                let other = procedure != self.procedure || !shared.terms.contains(&term);
                let variables = &self.world.app.procedures[procedure].variables[..=variable.0 as usize];
                let ty = &variables[variable.0 as usize].ty;
                let before = variables.iter().filter(|variable| variable.ty == *ty).count() - 1;
                example_value(ty, before + if side == Side::Right && other { 6 } else { 0 })
            }
            _ => "…".to_string(),
        }
    }
}

fn is_number(ty: &SqlType) -> bool {
    matches!(
        ty.to_string().split('(').next().unwrap_or(""),
        "integer" | "bigint" | "smallint" | "numeric" | "real" | "double precision"
    )
}

/// Terms keep a literal as the value's debug form: its text is between the quotes.
fn literal(text: &str) -> String {
    match (text.find('"'), text.rfind('"')) {
        (Some(start), Some(end)) if start < end => format!("'{}'", &text[start + 1..end]),
        _ => text.split(['(', ')']).nth(1).unwrap_or(text).to_string(),
    }
}

/// The n-th value of a type, from 0.
fn example_value(ty: &SqlType, n: usize) -> String {
    let text = ty.to_string();
    match text.split('(').next().unwrap_or("") {
        "date" => format!("'2026-01-{:02}'", n % 28 + 1),
        "boolean" => n.is_multiple_of(2).to_string(),
        "timestamp without time zone" | "timestamp with time zone" => {
            format!("'2026-01-{:02} 12:00'", n % 28 + 1)
        }
        _ if is_number(ty) => (n + 1).to_string(),
        _ => format!("'{}'", char::from(b'a' + (n % 26) as u8)),
    }
}

/// `a, b and 3 more`.
pub fn listed(names: &[&str]) -> String {
    match names.len() {
        n if n > SHOWN_MAX => format!("{} and {} more", names[..SHOWN_MAX].join(", "), n - SHOWN_MAX),
        _ => names.join(", "),
    }
}
