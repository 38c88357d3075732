//! A statement that is several, each with the rows of those before it: what WITH writes, or what is read apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_analysis::TransactionPlan;
use weir_sql::sub_statements::{
    KeptColumn, PieceParameter, SubStatements as Cut, Touched, Uncut, given_type,
};
use weir_sql::{BoundText, ParsedText, Span};
use weir_types::text::to_text;
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::calls::Callable;
use crate::prepared::{Prepared, Unprepared, What, prepare_rewritten};

#[derive(Debug)]
pub struct SubStatements {
    /// In the order in which they run; the statement that the client hears of is the last.
    pub all: Vec<SubStatement>,
}

#[derive(Debug)]
pub struct SubStatement {
    pub prepared: Prepared,
    pub(crate) parameters: Vec<PieceParameter>,
}

/// The rows of the pieces before, by column.
pub type Kept = Vec<Vec<Vec<Value>>>;

impl SubStatement {
    /// The values of its parameters.
    pub fn values(&self, client: &[Value], kept: &Kept) -> Vec<Value> {
        let value = |(parameter, ty): (&PieceParameter, &SqlType)| match (*parameter, ty) {
            (PieceParameter::Client(at), _) => client.get(at).cloned().unwrap_or_default(),
            (PieceParameter::Column { piece, column }, SqlType::Array(element)) => {
                let values = kept.get(piece).and_then(|columns| columns.get(column)).cloned();
                Value::array((**element).clone(), values.unwrap_or_default())
            }
            (PieceParameter::Column { .. }, _) => Value::Null,
        };
        self.parameters.iter().zip(self.prepared.parameters()).map(value).collect()
    }

    /// Its rows, by column; arrays as texts.
    pub fn kept(&self, rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
        let types: Vec<&SqlType> = self.prepared.columns().iter().map(|column| &column.ty).collect();
        let mut columns = vec![Vec::with_capacity(rows.len()); types.len()];
        let kept = |value: Value, ty: &SqlType| match ty {
            SqlType::Array(_) if !value.is_null() => Value::text(to_text(&value, ty)),
            _ => value,
        };
        for row in rows {
            let values = row.into_iter().zip(&types).map(|(value, ty)| kept(value, ty));
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
        columns
    }
}

impl SubStatements {
    pub(crate) fn main(&self) -> Option<&Prepared> {
        self.all.last().map(|piece| &piece.prepared)
    }

    /// Returns whether all but the last only read: then they need no transaction.
    pub fn write_at_once(&self) -> bool {
        self.all.iter().rev().skip(1).all(|piece| piece.prepared.reads_only())
    }

    pub(crate) fn plan(&self) -> Option<TransactionPlan> {
        self.all.iter().find_map(|piece| piece.prepared.plan())
    }
}

impl Prepared {
    /// It is several statements: these are its pieces.
    pub fn pieces(&self) -> Option<&Arc<SubStatements>> {
        match &self.what {
            What::SubStatements(pieces) => Some(pieces),
            _ => None,
        }
    }
}

/// `None`: no statement of its WITH writes.
///
/// # Errors
/// One of them is invalid or not supported.
pub(crate) fn prepare_pieces(
    of: &Arc<Callable>,
    parsed: &ParsedText<'_>,
    types: &[SqlType],
) -> Option<Result<Prepared, Unprepared>> {
    let cut = Cut::of(parsed)?;
    let build = |cut: &Cut<'_>| {
        let builder = Builder { of, known: types.to_vec(), columns: Vec::new(), written: BTreeSet::new() };
        builder.build(parsed.text(), cut)
    };
    Some(build(&cut).or_else(|wrong| {
        let is_gap = wrong.error.state() == SqlState::FEATURE_NOT_SUPPORTED;
        let apart = cut.with_readers_apart().filter(|_| is_gap);
        apart.and_then(|apart| build(&apart).ok()).ok_or(wrong)
    }))
}

/// A statement whose queries are run before it, since they lock rows or ask for values of other shards. `None`: there are none, or they cannot
/// be run apart.
pub(crate) fn prepare_queries_apart(
    of: &Arc<Callable>,
    parsed: &ParsedText<'_>,
    types: &[SqlType],
) -> Option<Prepared> {
    let cut = Cut::of_queries(parsed)?;
    let builder = Builder { of, known: types.to_vec(), columns: Vec::new(), written: BTreeSet::new() };
    let prepared = builder.build(parsed.text(), &cut).ok()?;
    let pieces = prepared.pieces()?;
    let runs = |piece: &SubStatement| piece.prepared.pieces().is_none() && piece.prepared.runs();
    pieces.all.iter().all(runs).then_some(prepared)
}

struct Builder<'o> {
    of: &'o Arc<Callable>,
    /// Types of the client's parameters.
    known: Vec<SqlType>,
    /// Columns of the sub-statements so far, with the types of their values.
    columns: Vec<Vec<(KeptColumn, SqlType)>>,
    written: BTreeSet<weir_sql::catalog::TableId>,
}

impl Builder<'_> {
    fn build(mut self, text: &str, cut: &Cut<'_>) -> Result<Prepared, Unprepared> {
        let nowhere = |error| Unprepared::new(text, Span::default(), error);
        let mut all = Vec::new();
        for (at, (name, given)) in cut.writers().enumerate() {
            let piece = self.piece(cut, at)?;
            let columns = named_columns(&piece.prepared, name, &given).map_err(nowhere)?;
            self.columns.push(columns);
            all.push(piece);
        }
        all.push(self.piece(cut, all.len())?);
        if let Some(at) = self.known.iter().position(|ty| *ty == SqlType::Unknown) {
            let message = format!("could not determine data type of parameter ${}", at + 1);
            return Err(nowhere(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)));
        }
        let pieces = SubStatements { all };
        let columns = pieces.main().map_or(Vec::new(), |main| main.columns().to_vec());
        Ok(Prepared::new((self.of, text), What::SubStatements(Arc::new(pieces)), self.known, columns))
    }

    fn piece(&mut self, cut: &Cut<'_>, at: usize) -> Result<SubStatement, Unprepared> {
        let names =
            |columns: &Vec<(KeptColumn, SqlType)>| columns.iter().map(|(column, _)| column.clone()).collect();
        let names: Vec<Vec<KeptColumn>> = self.columns.iter().map(names).collect();
        let nowhere = |error| Unprepared { error, position: 1 };
        let piece = cut.piece(at, &names).map_err(|why| nowhere(refused(why)))?;
        let types: Vec<SqlType> = piece.parameters.iter().map(|one| self.type_of(*one)).collect();
        let prepared = prepare_rewritten(self.of, &piece.statement, &types)?;
        for (parameter, ty) in piece.parameters.iter().zip(prepared.parameters()) {
            if let PieceParameter::Client(at) = *parameter {
                self.known.resize(self.known.len().max(at + 1), SqlType::Unknown);
                self.known[at] = ty.clone();
            }
        }
        self.touch(&piece.statement, &prepared).map_err(nowhere)?;
        Ok(SubStatement { prepared, parameters: piece.parameters })
    }

    fn type_of(&self, parameter: PieceParameter) -> SqlType {
        let known = match parameter {
            PieceParameter::Client(at) => self.known.get(at).cloned(),
            PieceParameter::Column { piece, column } => {
                let column = self.columns.get(piece).and_then(|columns| columns.get(column));
                column.map(|(_, ty)| SqlType::array_of(ty.clone()))
            }
        };
        known.unwrap_or(SqlType::Unknown)
    }

    /// All pieces see the tables as they were before the first: none may read what one before it writes.
    fn touch(&mut self, statement: &ParsedText<'_>, prepared: &Prepared) -> Result<(), SqlError> {
        let application = &self.of.application;
        let (catalog, types) = (&application.catalog, prepared.parameters());
        let bound = statement.bind(catalog, &application.procedures, types);
        let Ok((BoundText::Statement(statement), _)) = bound else { return Ok(()) };
        let touched = Touched::of(catalog, &statement);
        if let Some(table) = touched.reads.intersection(&self.written).next() {
            let name = &catalog.table(*table).name;
            let message = format!(
                "a statement that reads {name}, which another one of its WITH writes, is not supported"
            );
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
                "read what has been written from its RETURNING, or send the statements one by one in a transaction",
            ));
        }
        self.written.extend(touched.writes);
        Ok(())
    }
}

/// With other names than those of RETURNING, as far as they are given.
fn named_columns(
    prepared: &Prepared,
    name: &str,
    given: &[String],
) -> Result<Vec<(KeptColumn, SqlType)>, SqlError> {
    let columns = prepared.columns();
    if given.len() > columns.len() {
        let (has, said) = (columns.len(), given.len());
        let message =
            format!("WITH query \"{name}\" has {has} columns available but {said} columns specified");
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    let names = given.iter().map(Some).chain(std::iter::repeat(None));
    let named = columns.iter().zip(names).map(|(column, given)| {
        if matches!(column.ty, SqlType::Record | SqlType::Void) {
            let message = format!(
                "a column of type {} in RETURNING of a statement in WITH is not supported",
                column.ty
            );
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(error.with_hint("send the statements one by one in a transaction"));
        }
        let cast = matches!(column.ty, SqlType::Array(_)).then(|| column.ty.to_string());
        let name = given.unwrap_or(&column.name).clone();
        Ok((KeptColumn { name, cast }, given_type(&column.ty)))
    });
    named.collect()
}

fn refused(why: Uncut) -> SqlError {
    match why {
        Uncut::HasWith => {
            let message = "a WITH within a statement of a WITH that writes is not supported, where one is recursive or they share a name";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("write all of them in one WITH, one behind the other")
        }
        Uncut::GivesNothing(name) => {
            let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        }
        Uncut::GivenTwice(name) => {
            let message = format!("WITH query name \"{name}\" specified more than once");
            SqlError::new(SqlState::DUPLICATE_ALIAS, message)
        }
        Uncut::Invalid(wrong) => SqlError::new(wrong.state, wrong.message),
    }
}
