//! The names that a body declares: nested blocks, shadowing, qualification by labels, and records.
//!
//! A record is no variable itself but one variable per field. A RECORD without a declared type has no
//! fields until the first query (in text order) that fills it.

use std::collections::BTreeSet;

use weir_types::{SqlState, SqlType};

use super::structure::Path;
use crate::binder::Variables;
use crate::bound::{OutputColumn, Variable, VariableId};
use crate::source::{Diagnostic, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Variable(VariableId),
    /// Index into [`Scopes::records`].
    Record(usize),
}

#[derive(Debug)]
pub(super) struct Record {
    pub name: String,
    /// `None` until a query gives a RECORD its shape.
    pub fields: Option<Vec<(String, VariableId)>>,
    /// `%ROWTYPE`: the shape is the table's, and what fills it is converted column by column.
    pub declared: bool,
}

#[derive(Debug, Default)]
struct Frame {
    label: Option<String>,
    entries: Vec<(String, Entry)>,
}

#[derive(Debug, Default)]
pub(super) struct Scopes {
    pub variables: Vec<Variable>,
    pub records: Vec<Record>,
    /// Innermost last; the first one is labelled with the procedure's name.
    frames: Vec<Frame>,
    /// `$1`, `$2`, …
    pub parameters: Vec<VariableId>,
    pub columns_win: bool,
}

impl Scopes {
    pub fn enter(&mut self, label: Option<&str>) {
        self.frames.push(Frame { label: label.map(str::to_owned), entries: Vec::new() });
    }

    pub fn leave(&mut self) {
        self.frames.pop();
    }

    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Leaves all scopes but the outer `depth`.
    pub fn leave_to(&mut self, depth: usize) {
        self.frames.truncate(depth);
    }

    /// Every variable in sight that one of the names may mean, FOUND among them.
    pub fn named(&self, names: &BTreeSet<String>) -> Vec<VariableId> {
        let mut ids = BTreeSet::new();
        for (name, entry) in self.frames.iter().flat_map(|frame| &frame.entries) {
            match entry {
                _ if name != "found" && !names.contains(name) => {}
                Entry::Variable(id) => drop(ids.insert(id.0)),
                Entry::Record(record) => {
                    ids.extend(self.records[*record].fields.iter().flatten().map(|(_, id)| id.0));
                }
            }
        }
        ids.into_iter().map(VariableId).collect()
    }

    /// A variable without a name in any scope.
    pub fn add_hidden(&mut self, name: impl Into<String>, ty: SqlType) -> VariableId {
        let id = VariableId(self.variables.len() as u32);
        self.variables.push(Variable { name: name.into(), ty, not_null: false, constant: false });
        id
    }

    pub fn add_variable(&mut self, name: &str, ty: SqlType) -> VariableId {
        let id = self.add_hidden(name, ty);
        self.name(name, Entry::Variable(id));
        id
    }

    pub fn add_record(&mut self, name: &str, declared: Option<Vec<(String, SqlType)>>) -> usize {
        let is_declared = declared.is_some();
        let fields = declared.map(|fields| self.add_fields(name, fields));
        self.records.push(Record { name: name.to_owned(), fields, declared: is_declared });
        let index = self.records.len() - 1;
        self.name(name, Entry::Record(index));
        index
    }

    fn add_fields(&mut self, record: &str, fields: Vec<(String, SqlType)>) -> Vec<(String, VariableId)> {
        fields
            .into_iter()
            .map(|(field, ty)| {
                let id = self.add_hidden(format!("{record}.{field}"), ty);
                (field, id)
            })
            .collect()
    }

    /// Declares `name` in the innermost scope.
    pub fn name(&mut self, name: &str, entry: Entry) {
        if let Some(frame) = self.frames.last_mut() {
            frame.entries.push((name.to_owned(), entry));
        }
    }

    pub fn declared_here(&self, name: &str) -> bool {
        self.frames.last().is_some_and(|frame| frame.entries.iter().any(|(other, _)| other == name))
    }

    pub fn ty(&self, id: VariableId) -> &SqlType {
        &self.variables[id.0 as usize].ty
    }

    /// PostgreSQL's `plpgsql_ns_lookup`: the entry, and how many of the parts name it. A scalar does not
    /// match a qualified name by its first part, so `x.y` skips a variable `x`.
    pub fn look_up(&self, parts: &[&str]) -> Option<(Entry, usize)> {
        let (first, second) = (parts.first()?, parts.get(1));
        if let (Some(number), None) = (first.strip_prefix('$'), second) {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            return Some((Entry::Variable(*self.parameters.get(index)?), 1));
        }
        for frame in self.frames.iter().rev() {
            let find = |name: &str| frame.entries.iter().find(|(other, _)| other == name).map(|(_, e)| *e);
            match find(first) {
                Some(Entry::Variable(_)) if second.is_some() => {}
                Some(entry) => return Some((entry, 1)),
                None => {}
            }
            let labelled = frame.label.as_deref() == Some(first);
            if let Some(entry) = second.filter(|_| labelled).and_then(|second| find(second)) {
                return Some((entry, 2));
            }
        }
        None
    }

    /// The record that the whole path names.
    pub fn record(&self, parts: &[&str]) -> Option<usize> {
        match self.look_up(parts)? {
            (Entry::Record(record), used) if used == parts.len() => Some(record),
            _ => None,
        }
    }

    /// Target of an assignment, an INTO or a loop.
    pub fn target(&self, path: &Path) -> Result<Entry, Diagnostic> {
        let parts: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
        let unknown = || {
            let message = format!("\"{}\" is not a known variable", path.dotted());
            Diagnostic::new(SqlState::SYNTAX_ERROR, path.span, message)
                .with_hint("declare it in the DECLARE section")
        };
        let (entry, used) = self.look_up(&parts).ok_or_else(unknown)?;
        let entry = match (entry, parts.len() - used) {
            (entry, 0) => entry,
            (Entry::Record(record), 1) => Entry::Variable(self.field(record, parts[used], path.span)?),
            _ => return Err(unknown()),
        };
        match entry {
            Entry::Variable(id) => self.check_writable(id, path.span)?,
            Entry::Record(record) => {
                for (_, id) in self.records[record].fields.iter().flatten() {
                    self.check_writable(*id, path.span)?;
                }
            }
        }
        Ok(entry)
    }

    fn check_writable(&self, id: VariableId, span: Span) -> Result<(), Diagnostic> {
        let variable = &self.variables[id.0 as usize];
        if !variable.constant {
            return Ok(());
        }
        Err(Diagnostic::new(
            SqlState::ERROR_IN_ASSIGNMENT,
            span,
            format!("variable \"{}\" is declared CONSTANT", variable.name),
        ))
    }

    fn field(&self, record: usize, field: &str, span: Span) -> Result<VariableId, Diagnostic> {
        let record = &self.records[record];
        let fields = record.fields.as_ref().ok_or_else(|| not_assigned_yet(&record.name, span))?;
        match fields.iter().find(|(name, _)| name == field) {
            Some((_, id)) => Ok(*id),
            None => Err(Diagnostic::new(
                SqlState::UNDEFINED_COLUMN,
                span,
                format!("record \"{}\" has no field \"{field}\"", record.name),
            )),
        }
    }

    /// Makes `record` ready for rows of these columns: the fields to write to, in order.
    pub fn fill(
        &mut self,
        record: usize,
        columns: &[OutputColumn],
        span: Span,
    ) -> Result<Vec<VariableId>, Diagnostic> {
        let shape: Vec<(String, SqlType)> =
            columns.iter().map(|column| (column.name.clone(), column.ty.base())).collect();
        let Record { name, fields, declared } = &self.records[record];
        let Some(fields) = fields else {
            let name = name.clone();
            let fields = self.add_fields(&name, shape);
            let ids = fields.iter().map(|(_, id)| *id).collect();
            self.records[record].fields = Some(fields);
            return Ok(ids);
        };
        let same = fields.len() == shape.len()
            && fields
                .iter()
                .zip(&shape)
                .all(|((field, id), (column, ty))| field == column && self.ty(*id) == ty);
        if *declared || same {
            return Ok(fields.iter().map(|(_, id)| *id).collect());
        }
        Err(Diagnostic::unsupported(
            span,
            format!("filling record \"{name}\" with rows of another shape than at first"),
            "declare another RECORD variable for it",
        ))
    }

    /// Says what is really wrong where the binder of queries could only see an unknown name.
    /// `written` is the text from the error's place on.
    pub fn explain(&self, error: Diagnostic, written: &str) -> Diagnostic {
        if !matches!(error.state, SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN) {
            return error;
        }
        let end = written.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.')));
        let path = written[..end.unwrap_or(written.len())].to_lowercase();
        let parts: Vec<&str> = path.split('.').collect();
        let Some((Entry::Record(record), used)) = self.look_up(&parts) else { return error };
        let record = &self.records[record];
        let Some(fields) = &record.fields else { return not_assigned_yet(&record.name, error.span) };
        let known: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        match parts.get(used) {
            Some(field) if known.contains(field) => error,
            Some(field) => Diagnostic::new(
                SqlState::UNDEFINED_COLUMN,
                error.span,
                format!("record \"{}\" has no field \"{field}\"", record.name),
            )
            .with_hint(format!("its fields are {}", known.join(", "))),
            None => Diagnostic::unsupported(
                error.span,
                format!("the whole record \"{}\" as a value", record.name),
                format!("name its fields: {}", known.join(", ")),
            ),
        }
    }
}

fn not_assigned_yet(record: &str, span: Span) -> Diagnostic {
    Diagnostic::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        span,
        format!("record \"{record}\" is not assigned yet"),
    )
    .with_hint("a RECORD gets its fields from the first query in the text that fills it; or declare it as table%ROWTYPE")
}

impl Variables for Scopes {
    fn variable(&self, parts: &[&str]) -> Option<(VariableId, SqlType)> {
        let id = match self.look_up(parts)? {
            (Entry::Variable(id), used) if used == parts.len() => id,
            (Entry::Record(record), used) if used + 1 == parts.len() => {
                let fields = self.records[record].fields.as_ref()?;
                fields.iter().find(|(name, _)| name == parts[used])?.1
            }
            _ => return None,
        };
        Some((id, self.ty(id).clone()))
    }

    fn parameter(&self, number: u32) -> Option<(VariableId, SqlType)> {
        let id = *self.parameters.get((number as usize).checked_sub(1)?)?;
        Some((id, self.ty(id).clone()))
    }

    fn fields(&self, record: &str) -> Option<Vec<(String, VariableId, SqlType)>> {
        let fields = self.records[self.record(&[record])?].fields.as_ref()?;
        Some(fields.iter().map(|(name, id)| (name.clone(), *id, self.ty(*id).clone())).collect())
    }

    fn columns_win(&self) -> bool {
        self.columns_win
    }
}
