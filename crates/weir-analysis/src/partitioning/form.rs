//! The form of an access: all that a clause depends on, with parameters, rows and generated ids numbered in the order
//! in which they are met.
//!
//! Large applications make the same access from hundreds of procedures. What two accesses force to be equal is
//! worked out once for two forms, and is then said of every pair of accesses that have them. Forms that differ
//! where the accesses do not cost time and nothing else; forms that are equal must mean the same.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::bound::{ParameterMode, VariableId};
use weir_sql::catalog::TableId;

use super::atoms::{Atom, Operand};
use super::satisfiable::{comes_with, routable};
use super::sets::Entry;
use super::{Key, sets::Sets};
use crate::effects::{OPAQUE, Operation, ProcedureEffects, ReadId, Term, TermId, Write};

/// An interned form; equal ids are equal forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormId(usize);

/// A key by its number in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Numbered {
    Own,
    Parameter(usize),
}

#[derive(Default)]
pub struct Forms {
    ids: BTreeMap<Vec<u64>, FormId>,
    words: BTreeMap<String, u64>,
}

/// One access with its form.
pub struct Formed<'a> {
    pub procedure: usize,
    /// Index into the procedure's entries.
    pub at: usize,
    pub entry: &'a Entry,
    pub form: FormId,
    /// Tables whose rows the form speaks of, its own included.
    tables: BTreeSet<TableId>,
    /// Inserts that are made whenever this access is, by table.
    inserts: Vec<&'a Write>,
    /// By table that is inserted into, the tables of the rows whose values are.
    inserted: BTreeMap<TableId, BTreeSet<TableId>>,
    names: Names<'a>,
    /// By the tables that both sides speak of.
    extended: BTreeMap<Vec<TableId>, Extended>,
}

/// The form of the inserts that matter to a clause.
#[derive(Clone)]
struct Extended {
    form: FormId,
    parameters: Vec<VariableId>,
}

/// The numbering of one access.
#[derive(Clone)]
struct Names<'a> {
    app: &'a Application,
    procedure: usize,
    effects: &'a ProcedureEffects,
    row: Option<ReadId>,
    tokens: Vec<u64>,
    parameters: Vec<VariableId>,
    rows: Vec<ReadId>,
    sites: Vec<u32>,
    opaque: Vec<TermId>,
}

impl Forms {
    pub fn of<'a>(
        &mut self,
        app: &'a Application,
        sets: &'a Sets,
        effects: &'a ProcedureEffects,
        (procedure, at): (usize, usize),
    ) -> Formed<'a> {
        let entry = &sets.entries[procedure][at];
        let mut names = Names {
            app,
            procedure,
            effects,
            row: entry.row,
            tokens: Vec::new(),
            parameters: Vec::new(),
            rows: Vec::new(),
            sites: Vec::new(),
            opaque: Vec::new(),
        };
        names.entry(self, entry);
        let mut tables: BTreeSet<TableId> = names.rows.iter().map(|&row| effects.read(row).table).collect();
        tables.insert(entry.table);
        let form = self.intern(std::mem::take(&mut names.tokens));
        let inserts = effects.writes.iter().filter(|write| comes_with(app, entry, write));
        let plain = |write: &&Write| matches!(&write.operation, Operation::Insert { on_conflict: None, .. });
        let inserts: Vec<&Write> = inserts.filter(plain).collect();
        let inserted = inserted(effects, &inserts);
        Formed { procedure, at, entry, form, tables, inserts, inserted, names, extended: BTreeMap::new() }
    }

    fn intern(&mut self, tokens: Vec<u64>) -> FormId {
        let next = FormId(self.ids.len());
        *self.ids.entry(tokens).or_insert(next)
    }

    fn word(&mut self, word: &str) -> u64 {
        if let Some(&id) = self.words.get(word) {
            return id;
        }
        let id = self.words.len() as u64;
        self.words.insert(word.to_owned(), id);
        id
    }

    /// The forms of what the two insert besides, where that can matter; `None` each where it cannot.
    pub fn beside<'a>(&mut self, left: &mut Formed<'a>, right: &mut Formed<'a>) -> [Option<FormId>; 2] {
        match reached(&[&*left, &*right]) {
            Some(tables) => [left, right].map(|formed| Some(formed.extend(self, &tables))),
            None => [None, None],
        }
    }

    /// Condition for two calls that make the same access.
    pub fn beside_itself(&mut self, formed: &mut Formed<'_>) -> Option<FormId> {
        reached(&[&*formed]).map(|tables| formed.extend(self, &tables))
    }
}

fn inserted(effects: &ProcedureEffects, inserts: &[&Write]) -> BTreeMap<TableId, BTreeSet<TableId>> {
    let mut inserted: BTreeMap<TableId, BTreeSet<TableId>> = BTreeMap::new();
    for write in inserts {
        let from = inserted.entry(write.table).or_default();
        let Operation::Insert { values, .. } = &write.operation else { continue };
        for leaf in values.iter().flat_map(|&value| effects.terms.leaves(value)) {
            if let Term::Field { row, .. } = *effects.terms.get(leaf) {
                from.insert(effects.read(row).table);
            }
        }
    }
    inserted
}

/// The tables of whose rows a clause between these speaks, if any of them inserts into one.
fn reached(sides: &[&Formed<'_>]) -> Option<Vec<TableId>> {
    let inserts = |table: &TableId| sides.iter().any(|formed| formed.inserted.contains_key(table));
    if !sides.iter().flat_map(|formed| &formed.tables).any(inserts) {
        return None;
    }
    let mut tables: BTreeSet<TableId> = BTreeSet::new();
    let mut more: Vec<TableId> = sides.iter().flat_map(|formed| formed.tables.iter().copied()).collect();
    while let Some(table) = more.pop() {
        if tables.insert(table) {
            more.extend(sides.iter().filter_map(|formed| formed.inserted.get(&table)).flatten());
        }
    }
    Some(tables.into_iter().collect())
}

impl Formed<'_> {
    fn extend(&mut self, forms: &mut Forms, tables: &[TableId]) -> FormId {
        if let Some(known) = self.extended.get(tables) {
            return known.form;
        }
        let mut names = self.names.clone();
        for write in self.inserts.iter().filter(|write| tables.contains(&write.table)) {
            let Operation::Insert { values, .. } = &write.operation else { continue };
            names.tokens.extend([50, u64::from(write.table.0)]);
            values.iter().for_each(|&value| names.term(forms, value));
        }
        let form = forms.intern(names.tokens);
        self.extended.insert(tables.to_vec(), Extended { form, parameters: names.parameters });
        form
    }

    /// The parameters in the order of their numbers; those of the inserts besides come last.
    fn parameters(&self, beside: Option<FormId>) -> &[VariableId] {
        let extended = self.extended.values().find(|extended| Some(extended.form) == beside);
        extended.map_or(&self.names.parameters, |extended| &extended.parameters)
    }

    pub fn number(&self, beside: Option<FormId>, key: Key) -> Option<Numbered> {
        let Key::Parameter(at) = key else { return Some(Numbered::Own) };
        let variable = self.names.app.procedures[self.procedure].parameters[at].variable;
        let at = self.parameters(beside).iter().position(|&known| known == variable);
        at.map(Numbered::Parameter)
    }

    pub fn key(&self, beside: Option<FormId>, numbered: Numbered) -> Option<Key> {
        let Numbered::Parameter(number) = numbered else { return Some(Key::Own) };
        let variable = *self.parameters(beside).get(number)?;
        let parameters = &self.names.app.procedures[self.procedure].parameters;
        parameters.iter().position(|parameter| parameter.variable == variable).map(Key::Parameter)
    }
}

/// The item's number: the next one if it is new.
fn number<T: PartialEq>(list: &mut Vec<T>, item: T) -> u64 {
    let at = list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    });
    at as u64
}

impl Names<'_> {
    fn entry(&mut self, forms: &mut Forms, entry: &Entry) {
        self.tokens.extend([u64::from(entry.table.0), entry.kind as u64, entry.touched.len() as u64]);
        self.tokens.extend(entry.touched.iter().map(|column| column.map_or(0, |column| column as u64 + 1)));
        for atoms in &entry.alternatives {
            self.tokens.push(60);
            atoms.iter().for_each(|atom| self.atom(forms, *atom));
        }
        for pending in &entry.pending {
            let row = number(&mut self.rows, pending.row);
            self.tokens.extend([61, row, u64::from(self.effects.read(pending.row).table.0)]);
            pending.atoms.iter().for_each(|atom| self.atom(forms, *atom));
        }
    }

    fn atom(&mut self, forms: &mut Forms, atom: Atom) {
        let (kind, left, right) = match atom {
            Atom::Same(left, right) => (40, left, Some(right)),
            Atom::Equal(left, right) => (41, left, Some(right)),
            Atom::NotEqual(left, right) => (42, left, Some(right)),
            Atom::Less(left, right) => (43, left, Some(right)),
            Atom::LessOrEqual(left, right) => (44, left, Some(right)),
            Atom::Null(operand) => (45, operand, None),
            Atom::NotNull(operand) => (46, operand, None),
        };
        self.tokens.push(kind);
        for operand in [Some(left), right].into_iter().flatten() {
            match operand {
                Operand::Own(column) => self.tokens.extend([20, column as u64]),
                Operand::Field(row, column) => self.field(row, column),
                Operand::Term(term) => self.term(forms, term),
            }
        }
    }

    fn field(&mut self, row: ReadId, column: usize) {
        if self.row == Some(row) {
            self.tokens.extend([20, column as u64]);
            return;
        }
        let at = number(&mut self.rows, row);
        self.tokens.extend([21, at, u64::from(self.effects.read(row).table.0), column as u64]);
    }

    fn term(&mut self, forms: &mut Forms, term: TermId) {
        match self.effects.terms.get(term) {
            Term::Null => self.tokens.push(0),
            Term::Integer(n) => self.tokens.extend([1, n.cast_unsigned()]),
            Term::Literal(text, _) => {
                let word = forms.word(text);
                self.tokens.extend([2, word]);
            }
            Term::Parameter(variable) => self.parameter(*variable),
            Term::Generated(site) => {
                let sequence = self.effects.generated.get(site).copied().flatten();
                let at = number(&mut self.sites, *site);
                self.tokens.extend([4, at, sequence.map_or(0, |sequence| u64::from(sequence.0) + 1)]);
            }
            Term::Field { row, column } => self.field(*row, *column),
            Term::Sum { base, offset } => {
                self.tokens.extend([5, offset.cast_unsigned()]);
                self.term(forms, *base);
            }
            Term::Call { name, arguments } if !name.starts_with(OPAQUE) => {
                let word = forms.word(name);
                self.tokens.extend([6, word, arguments.len() as u64]);
                arguments.iter().for_each(|&argument| self.term(forms, argument));
            }
            _ => {
                let at = number(&mut self.opaque, term);
                self.tokens.extend([7, at]);
            }
        }
    }

    /// With what its type says of equal values, and whether it can route.
    fn parameter(&mut self, variable: VariableId) {
        let procedure = &self.app.procedures[self.procedure];
        let family = |ty| routable(ty).map_or(255, u64::from);
        let spelling = family(&procedure.variables[variable.0 as usize].ty);
        let given = procedure.parameters.iter().find(|parameter| parameter.variable == variable);
        let given = given.filter(|parameter| parameter.mode != ParameterMode::Out);
        let routes = given.map_or(255, |parameter| family(&parameter.ty));
        let at = number(&mut self.parameters, variable);
        self.tokens.extend([3, at, spelling, routes]);
    }
}
