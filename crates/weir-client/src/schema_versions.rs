//! The schema of the moment, as a client of a cluster that carries tables sees it, and how it is changed.
//!
//! Prepared statements are bound to one [`SchemaVersion`]. When a statement fails because the schema has changed
//! ([`SqlState::SCHEMA_HAS_CHANGED`]), the application fetches the new version ([`Client::refresh`]) and prepares it again.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use weir_sql::catalog::{ColumnIndex, Deferral, SequenceId, TableId};
use weir_sql::system::Facts;
use weir_sql::{Diagnostic, ParsedText, Truncated, Validation, foreign_keys, truncated, validations};
use weir_txn::exec::definition::{Defined, Placing};
use weir_txn::message::{Callee, Change, Definition};
use weir_types::datetime::SessionZone;
use weir_types::function::double_quoted;
use weir_types::{SqlError, SqlState, SqlType};

use crate::calls::{Callable, Order, Wish};
use crate::description::Description;
use crate::load::{Load, LoadedTable};
use crate::prepared::{self, Prepared, Unprepared};
use crate::{CallResult, Carried, Client, Error, Pending};

/// The schema between two changes of it.
#[derive(Clone)]
pub struct SchemaVersion(pub(crate) Arc<Callable>);

/// Where the rows of a table live.
pub struct Placed<'v> {
    pub table: &'v str,
    /// Names of the columns that place a row; none if every shard has a copy.
    pub columns: Option<Vec<String>>,
    /// In words, with the reason.
    pub lives: String,
}

impl PartialEq for SchemaVersion {
    fn eq(&self, other: &SchemaVersion) -> bool {
        self.0.program.schema_version == other.0.program.schema_version
    }
}

impl SchemaVersion {
    /// As [`Client::prepare`], in this schema version.
    ///
    /// # Errors
    /// The text is invalid or not supported, or would endanger a procedure; with the position.
    pub fn prepare(&self, text: &str, types: &[SqlType]) -> Result<Prepared, Unprepared> {
        prepared::prepare(&self.0, text, types)
    }

    /// Like `prepare`; queries of the system catalog or about the session use these facts.
    ///
    /// # Errors
    /// As `prepare`.
    pub fn prepare_for(&self, facts: &Facts, text: &str, types: &[SqlType]) -> Result<Prepared, Unprepared> {
        // Nearly every text is about the application's own tables, and those come first.
        self.prepare(text, types)
            .or_else(|wrong| prepared::prepare_system(&self.0, facts, text, types, wrong))
    }

    /// Like `prepare_for`, of a statement that stands within another one. Shards know it by the text of its tree.
    ///
    /// # Errors
    /// As `prepare`, with the position in the whole; or its tree cannot be written as a text.
    pub fn prepare_inner(
        &self,
        facts: &Facts,
        statement: &ParsedText<'_>,
        types: &[SqlType],
    ) -> Result<Prepared, Unprepared> {
        prepared::prepare_inner(&self.0, facts, statement, types)
    }

    /// Prepares to insert many rows into the table; none as columns is all but generated ones.
    ///
    /// # Errors
    /// There is no such table or column, or it cannot be written by itself.
    pub fn load(&self, table: &str, columns: &[String]) -> Result<Load, SqlError> {
        Load::new(&self.0, LoadedTable::of(&self.0.application.catalog, table, columns)?)
    }

    /// A query for the rows of the table; none as columns is all but generated ones.
    ///
    /// # Errors
    /// There is no such table or column.
    pub fn unload(&self, table: &str, columns: &[String]) -> Result<Prepared, SqlError> {
        let table = LoadedTable::of(&self.0.application.catalog, table, columns)?;
        self.prepare(&table.select(), &[]).map_err(|wrong| wrong.error)
    }

    /// There is a table or view of that name.
    pub fn has_relation(&self, name: &str) -> bool {
        let catalog = &self.0.application.catalog;
        catalog.table_by_name(name).is_some() || catalog.views.iter().any(|view| view.name == name)
    }

    /// Constraints of these names that SET CONSTRAINTS accepts.
    ///
    /// # Errors
    /// There is none of that name (42704), it cannot wait (42809), or it waits always (0A000).
    pub fn check_constraints_named(&self, names: &[String], deferred: bool) -> Result<(), SqlError> {
        let application = &self.0.application;
        let tables = &application.catalog.tables;
        for name in names {
            if application.assertions.iter().any(|assertion| assertion.name == *name) {
                if deferred {
                    continue;
                }
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("assertion \"{name}\" is checked when its transaction commits"),
                ));
            }
            let mut keys =
                tables.iter().flat_map(|table| &table.foreign_keys).filter(|key| key.name == *name);
            if keys.any(|key| key.deferral != Deferral::Never) {
                continue;
            }
            let is_there = tables.iter().any(|table| table.constraint_names().any(|one| one == name));
            return Err(match is_there {
                true => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("constraint \"{name}\" is not deferrable"),
                ),
                false => {
                    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("constraint \"{name}\" does not exist"))
                }
            });
        }
        Ok(())
    }

    /// The number of the sequence of that name.
    ///
    /// # Errors
    /// There is no such sequence, or the value is out of its bounds.
    pub fn settable(&self, sequence: &str, value: i64) -> Result<SequenceId, SqlError> {
        let name = weir_sql::relation_named(sequence);
        let sequences = &self.0.application.catalog.sequences;
        let Some(at) = sequences.iter().position(|one| one.name == name) else {
            let message = format!("relation \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        };
        let (minimum, maximum) = (sequences[at].minimum, sequences[at].maximum);
        if value < minimum || value > maximum {
            let message = format!(
                "setval: value {value} is out of bounds for sequence \"{name}\" ({minimum}..{maximum})"
            );
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        Ok(SequenceId(at as u32))
    }

    /// The definition by which the sequence goes on behind that value, or with it if it has not been given.
    ///
    /// # Errors
    /// There is no such sequence, the value is out of its bounds, or none would be left behind it (0A000).
    pub fn set_value(&self, sequence: &str, value: i64, is_given: bool) -> Result<String, SqlError> {
        let name = weir_sql::relation_named(sequence);
        let found = &self.0.application.catalog.sequences[self.settable(sequence, value)?.0 as usize];
        let next = if is_given { value.checked_add(found.increment) } else { Some(value) };
        let next = next.filter(|next| (found.minimum..=found.maximum).contains(next)).ok_or_else(|| {
            let message = "setval to the last value of a sequence is not supported";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("setval(…, …, false) gives that value once more")
        })?;
        let quoted: Vec<String> = name.splitn(2, '.').map(double_quoted).collect();
        Ok(format!("ALTER SEQUENCE {} RESTART WITH {next}", quoted.join(".")))
    }

    /// In the order of their numbers.
    pub fn sequences(&self) -> &[weir_sql::catalog::Sequence] {
        &self.0.application.catalog.sequences
    }

    /// Where the rows of each table live.
    pub fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        let Callable { application, program, .. } = &*self.0;
        let catalog = &application.catalog;
        catalog.tables.iter().zip(program.placement.iter()).map(move |(table, placement)| {
            let name = |column: &ColumnIndex| table.columns[*column].name.clone();
            Placed {
                table: &table.name,
                columns: placement.columns().map(|columns| columns.iter().map(name).collect()),
                lives: weir_analysis::lives(catalog, &program.placement, table.id),
            }
        })
    }

    pub fn shards(&self) -> u16 {
        self.0.program.shards
    }

    /// # Errors
    /// There is no sequence of that name.
    pub fn check_sequence(&self, name: &str) -> Result<(), SqlError> {
        let sequences = &self.0.application.catalog.sequences;
        sequences.iter().any(|one| one.name == name).then_some(()).ok_or_else(|| {
            let message = format!("relation \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })
    }

    /// A materialized view is always as its tables say: there is nothing to do.
    ///
    /// # Errors
    /// There is no such view (42P01), or it is none that is materialized (0A000).
    pub fn refresh(&self, view: &str) -> Result<(), SqlError> {
        let catalog = &self.0.application.catalog;
        match catalog.views.iter().find(|one| one.name == view) {
            Some(one) if one.materialized => Ok(()),
            None if catalog.table_by_name(view).is_none() => {
                let message = format!("relation \"{view}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
            _ => {
                let message = format!("\"{view}\" is not a materialized view");
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
        }
    }

    /// Whether what VACUUM and its like name is there.
    ///
    /// # Errors
    /// As [`weir_sql::session::Chore::check`].
    pub fn check_chore(
        &self,
        chore: &weir_sql::session::Chore,
        in_transaction: bool,
    ) -> Result<(), SqlError> {
        chore.check(&self.0.application.catalog, in_transaction)
    }

    /// The current schema version behind the barrier of definitions: no other transaction writes until this one ends.
    pub fn held(&self) -> NextSchemaVersion {
        let schema_version = self.0.program.schema_version;
        let change = Change::Truncate { tables: Vec::new(), restarts: false };
        let definition = Arc::new(Definition { upon: schema_version, becomes: schema_version, change });
        NextSchemaVersion {
            definition,
            schema_version: self.clone(),
            validations: Vec::new(),
            notices: Vec::new(),
            moves_if_empty: Vec::new(),
        }
    }

    /// Schema version after a statement of DDL. Takes as long as an analysis of the application.
    ///
    /// # Errors
    /// The text is invalid, would break something, or is not supported; with the position.
    pub fn define(&self, text: &str) -> Result<NextSchemaVersion, Unprepared> {
        self.define_with(text, Placing::Stays)
    }

    /// The same, for tables that have no rows and that it would place elsewhere, had they been made with it: they are placed anew.
    ///
    /// # Errors
    /// As of [`SchemaVersion::define`].
    pub fn define_anew(&self, text: &str) -> Result<NextSchemaVersion, Unprepared> {
        self.define_with(text, Placing::Anew)
    }

    fn define_with(&self, text: &str, placing: Placing) -> Result<NextSchemaVersion, Unprepared> {
        let defined = Definition::of(&self.0.program, text, placing)
            .map_err(|wrong| Unprepared::new(text, wrong.span, wrong.error))?;
        let Defined { definition, may_be_placed_anew, program } = defined;
        let any_row = |table: &TableId| {
            let name = self.0.application.catalog.table(*table).name.split('.');
            let name = name.map(double_quoted).collect::<Vec<_>>().join(".");
            self.prepare(&format!("SELECT 1 FROM {name} LIMIT 1"), &[])
        };
        let moves_if_empty = match placing {
            Placing::Stays => may_be_placed_anew.iter().map(any_row).collect::<Result<_, _>>()?,
            Placing::Anew => Vec::new(),
        };
        let schema_version =
            program.map_or_else(|| self.clone(), |program| SchemaVersion(Arc::new(Callable::new(program))));
        let emptied = match &definition.change {
            Change::Truncate { tables, .. } => &tables[..],
            Change::Schema { .. } => &[],
        };
        let notices = match &definition.change {
            Change::Schema { .. } => schema_version.0.application.notes.iter().map(notice).collect(),
            Change::Truncate { .. } => self.cascades(text),
        };
        let assertions = validations(&self.0.application, &schema_version.0.application, emptied);
        // The others are looked at where the rows are.
        let keys = foreign_keys(&self.0.application, &schema_version.0.application).into_iter();
        let distant = keys.filter(|(table, at, _)| schema_version.0.program.asks_other_shards(*table, *at));
        let asked = assertions.into_iter().chain(distant.map(|(_, _, validation)| validation));
        let asked = asked.map(|one| schema_version.prepare(&one.query, &[]).map(|query| (one, query)));
        let validations = asked
            .collect::<Result<_, _>>()
            .map_err(|Unprepared { error, .. }| Unprepared { error, position: 1 })?;
        let definition = Arc::new(definition);
        Ok(NextSchemaVersion { definition, schema_version, validations, notices, moves_if_empty })
    }

    /// PostgreSQL's NOTICEs of a TRUNCATE.
    fn cascades(&self, text: &str) -> Vec<SqlError> {
        let catalog = &self.0.application.catalog;
        let Ok(Some(Truncated { tables, named, .. })) = truncated(catalog, text) else { return Vec::new() };
        let of = |table: &TableId| format!("truncate cascades to table \"{}\"", catalog.table(*table).name);
        let of = |table: &TableId| SqlError::new(SqlState::SUCCESSFUL_COMPLETION, of(table));
        tables.iter().skip(named).map(of).collect()
    }
}

/// Converts a diagnostic; its hint becomes the lines of the detail.
fn notice(note: &Diagnostic) -> SqlError {
    let notice = SqlError::new(note.state, note.message.clone());
    note.hint.iter().fold(notice, |notice, lines| notice.with_detail(lines.clone()))
}

/// A schema version that a statement of DDL produces.
pub struct NextSchemaVersion {
    definition: Arc<Definition>,
    /// Schema version of the following statements of the same transaction.
    pub schema_version: SchemaVersion,
    /// Queries that must return no rows, to be run in the transaction after the definition.
    pub validations: Vec<(Validation, Prepared)>,
    /// Notices for the client: objects that were left unchanged, or dropped by a cascade.
    pub notices: Vec<SqlError>,
    /// If these queries, of the schema before, return no rows, [`SchemaVersion::define_anew`] places their tables anew. Others have to be kept
    /// from writing meanwhile ([`SchemaVersion::held`]).
    pub moves_if_empty: Vec<Prepared>,
}

impl Prepared {
    /// Binds the same text to that schema version, with these settings if it depends on settings.
    ///
    /// # Errors
    /// It does not fit that version any more; or its columns differ from those that the client has been told (0A000).
    pub fn again(
        &self,
        schema_version: &SchemaVersion,
        settings: Option<BTreeMap<String, String>>,
    ) -> Result<Prepared, Unprepared> {
        let mut again = match &self.facts {
            Some(facts) => {
                let settings = settings.unwrap_or_default();
                let facts = Facts { settings, ..Facts::clone(facts) };
                schema_version.prepare_for(&facts, &self.text, self.parameters())?
            }
            None => schema_version.prepare(&self.text, self.parameters())?,
        };
        if !self.keeps_columns {
            return Ok(again);
        }
        let columns = |one: &Prepared| -> Vec<(String, SqlType)> {
            one.columns().iter().map(|column| (column.name.clone(), column.ty.clone())).collect()
        };
        if columns(self) != columns(&again) {
            let message = "cached plan must not change result type";
            let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
            return Err(Unprepared { error: error.with_hint("Prepare the statement again."), position: 1 });
        }
        again.keep_columns();
        Ok(again)
    }

    /// Settings of the session, if it depends on them.
    pub fn settings(&self) -> Option<&BTreeMap<String, String>> {
        self.facts.as_ref().map(|facts| &facts.settings).filter(|settings| !settings.is_empty())
    }

    /// Records that the client has been told the columns.
    pub fn keep_columns(&mut self) {
        self.keeps_columns = true;
    }

    /// It is bound to that schema version.
    pub fn is_of(&self, schema_version: &SchemaVersion) -> bool {
        self.of.program.schema_version == schema_version.0.program.schema_version
    }
}

impl Client {
    /// The schema as far as this client knows.
    ///
    /// Begins to ask every shard whether it has that schema version: if not, it ends with 40W01.
    pub fn begin_check(&self, schema_version: &SchemaVersion) -> Pending<CallResult> {
        self.submit_computed(|| {
            let prepared = schema_version.prepare("SELECT 1", &[]).map_err(|wrong| wrong.error)?;
            Ok(match schema_version.0.wish(&prepared, &[], 0.into())? {
                Wish::Read(gather, values, names) => Wish::Check(gather, values, names),
                other => other,
            })
        })
    }

    /// Begins to let a shard's share of the sequence go on from that value, or behind it if it has been given. At once, and whatever
    /// becomes of the transaction that is open.
    pub fn begin_set_sequence(
        &self,
        schema_version: &SchemaVersion,
        (shard, sequence): (u16, SequenceId),
        (value, is_given): (i64, bool),
    ) -> Pending<CallResult> {
        self.submit_computed(|| {
            let callee = Callee::SetSequence { shard, sequence, value, is_given };
            let call = schema_version.0.call_of(callee, Vec::new(), 0.into());
            Ok(Wish::Call(call, [].into()))
        })
    }

    /// # Errors
    /// The cluster carries items, not tables.
    pub fn schema_version(&self) -> Result<SchemaVersion, Unprepared> {
        match &self.carried {
            Carried::Calls(_, callable) => {
                Ok(SchemaVersion(callable.read().unwrap_or_else(PoisonError::into_inner).clone()))
            }
            Carried::Items(_) => Err(Unprepared {
                error: SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "the cluster carries items, not tables",
                )
                .with_hint("name an application in [application] of the cluster file"),
                position: 1,
            }),
        }
    }

    /// Begins to change the schema, as a statement of the transaction of that name. Others that write wait from then on until its end.
    pub fn begin_definition(&self, transaction: u64, next: &NextSchemaVersion) -> Pending<CallResult> {
        let (definition, program) = (next.definition.clone(), next.schema_version.0.program.clone());
        self.order(transaction, Order::Define(definition, program, SessionZone::current()))
    }

    /// The transaction that made it has committed: it is the schema from here on.
    pub fn adopt(&self, schema_version: &SchemaVersion) {
        let Carried::Calls(session, callable) = &self.carried else { return };
        *callable.write().unwrap_or_else(PoisonError::into_inner) = schema_version.0.clone();
        // Operations that are begun from here on come behind it.
        drop(session.submit(session.new_tag(), Wish::Adopt(schema_version.0.clone())));
    }

    /// Asks a node which schema there is, and waits for the answer.
    ///
    /// # Errors
    /// No node answers within the deadline.
    pub fn refresh(&self) -> Result<(), Error> {
        let description = Description::fetch(&self.cluster, &self.settings.versions, self.settings.deadline)?;
        let own = self.schema_version().map_err(|wrong| Error::Sql(wrong.error))?;
        if description.schema_version() != own.0.program.schema_version {
            self.adopt(&SchemaVersion(Arc::new(description.compile(self.cluster.shards)?)));
        }
        Ok(())
    }
}
