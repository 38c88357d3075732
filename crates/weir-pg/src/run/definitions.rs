//! Statements of a session that change the schema, and how a session learns that another has changed it.
//!
//! Definitions of a transaction are visible to its own statements until it commits, and then to all sessions of this front end. Another
//! front end learns of them when a shard rejects one of its statements as bound to an outdated schema version.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_client::{Client, Error, NextSchemaVersion, Prepared, SchemaVersion, Unprepared};
use weir_sql::bound::OutputColumn;
use weir_sql::{Gives, Validation};
use weir_types::text::to_text;
use weir_types::{Severity, SqlError, SqlState, Value};

use crate::by_itself::ByItself;
use crate::isolation::blocking;
use crate::session::{Session, sql_error};
use crate::statement::{Done, Failure};

/// Time for which a statement is bound again after schema changes: after a crash, some shards may report them later than others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A definition, and the schema that it changes.
struct Analysed<'t> {
    text: &'t Arc<str>,
    before: SchemaVersion,
    next: NextSchemaVersion,
}

impl Session {
    /// Runs the statement of the text, in the open transaction or in one of its own.
    pub(crate) async fn define(
        &mut self,
        text: &Arc<str>,
        tag: &str,
        open: Option<u64>,
    ) -> Result<Done, Failure> {
        if let Some(name) = open {
            let analysed = self.analyse(text).await?;
            let next = self.begin_and_validate(name, analysed).await?;
            self.transaction.own_schema_version = Some(next.schema_version);
            return Ok(self.defined(next.notices, tag));
        }
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let analysed = self.analyse(text).await?;
            let own = ByItself::begin(&self.client);
            match self.begin_and_validate(own.name(), analysed).await {
                Ok(next) => {
                    let done = own.end(true).await;
                    self.adopt(&next.schema_version, done).await?;
                    return Ok(self.defined(next.notices, tag));
                }
                Err(failure) => {
                    // The result is not needed.
                    drop(own);
                    // The transaction has done nothing else, so its barrier need not be reported.
                    if failure.error.state() != SqlState::DEADLOCK_DETECTED {
                        self.meet(failure).await?;
                    }
                }
            }
        }
        Err(changes_all_the_time())
    }

    fn defined(&mut self, notices: Vec<SqlError>, tag: &str) -> Done {
        notices.into_iter().for_each(|notice| self.mention(Severity::Notice, notice));
        Done::tag(tag)
    }

    /// Defines it in the transaction of that name, and asks what no shard can tell by itself: whether assertions hold.
    async fn begin_and_validate(
        &mut self,
        name: u64,
        Analysed { text, before, mut next }: Analysed<'_>,
    ) -> Result<NextSchemaVersion, Failure> {
        self.limit_waits(name, self.settings.in_effect().lock_timeout).await?;
        if self.has_empty_tables_to_place(name, &before, &next).await? {
            // Where that is not possible, they stay.
            next = self.next_schema_version(&before, text, SchemaVersion::define_anew).await.unwrap_or(next);
        }
        self.wait_for(|client| client.begin_definition(name, &next)).await?;
        for (validation, query) in &next.validations {
            let given = self.wait_for(|client| client.begin_within(name, query, &[])).await?;
            let rows = query.rows(given);
            if !rows.is_empty() {
                return Err(violated(validation, query, &rows).into());
            }
        }
        Ok(next)
    }

    /// Returns whether tables that the definition may place anew have no rows. If so, nobody else writes until the transaction ends.
    async fn has_empty_tables_to_place(
        &mut self,
        name: u64,
        before: &SchemaVersion,
        next: &NextSchemaVersion,
    ) -> Result<bool, Failure> {
        if next.moves_if_empty.is_empty() {
            return Ok(false);
        }
        self.wait_for(|client| client.begin_definition(name, &before.held())).await?;
        for query in &next.moves_if_empty {
            let given = self.wait_for(|client| client.begin_within(name, query, &[])).await?;
            if !query.rows(given).is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn analyse<'t>(&mut self, text: &'t Arc<str>) -> Result<Analysed<'t>, Failure> {
        let before = self.current_schema_version().await?;
        let next = self.next_schema_version(&before, text, SchemaVersion::define).await?;
        Ok(Analysed { text, before, next })
    }

    /// Analyses what the application would be.
    async fn next_schema_version(
        &mut self,
        schema_version: &SchemaVersion,
        text: &Arc<str>,
        define: fn(&SchemaVersion, &str) -> Result<NextSchemaVersion, Unprepared>,
    ) -> Result<NextSchemaVersion, Failure> {
        let (schema_version, text, zone) = (schema_version.clone(), text.clone(), self.settings.zone());
        let define = move || {
            let _zone = zone.enter();
            define(&schema_version, &text)
        };
        blocking(define).await?.map_err(|wrong: Unprepared| Failure::of(wrong, ""))
    }

    /// The schema version after all acknowledged definitions. Asks the shards, so that a statement which reaches no shard does not depend
    /// on an outdated schema.
    pub(crate) async fn current_schema_version(&mut self) -> Result<SchemaVersion, Failure> {
        if let Some(own) = self.transaction.schema_version() {
            return Ok(own.clone());
        }
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let schema_version = self.schema_version()?;
            match self.wait_for(|client| client.begin_check(&schema_version)).await {
                Ok(_) => return Ok(schema_version),
                Err(failure) => self.meet(failure).await?,
            }
        }
        Err(changes_all_the_time())
    }

    /// Publishes the schema version of the transaction, if it has committed.
    pub(crate) async fn adopt(
        &mut self,
        schema_version: &SchemaVersion,
        committed: Result<(), Error>,
    ) -> Result<(), Failure> {
        match committed {
            Ok(()) => self.client.adopt(schema_version),
            // It may have.
            Err(Error::Unknown(_)) => self.refresh().await?,
            Err(_) => {}
        }
        committed.map_err(sql_error)
    }

    /// Asks for the schema, if that is what the statement has failed of; else gives the failure back.
    pub(crate) async fn meet(&mut self, failure: Failure) -> Result<(), Failure> {
        if failure.error.state() != SqlState::SCHEMA_HAS_CHANGED {
            return Err(failure);
        }
        let before = self.schema_version()?;
        self.refresh().await?;
        if self.schema_version()? == before {
            // Not every shard knows what this one knows already.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn refresh(&mut self) -> Result<(), Failure> {
        let client: Arc<Client> = self.client.clone();
        blocking(move || client.refresh()).await?.map_err(sql_error)
    }
}

/// Largest number of offending rows listed.
const ROWS_TOLD: usize = 3;

fn violated(validation: &Validation, query: &Prepared, rows: &[Vec<Value>]) -> SqlError {
    let name = &validation.name;
    let shown = |row: &Vec<Value>| {
        let text = |(value, column): (&Value, &OutputColumn)| match value {
            Value::Null => "NULL".to_owned(),
            value => to_text(value, &column.ty),
        };
        row.iter().zip(query.columns()).map(text).collect::<Vec<_>>()
    };
    let error = |what: &str| {
        let error = SqlError::new(SqlState::CHECK_VIOLATION, format!("assertion \"{name}\" {what}"));
        error.with_constraint(name.clone())
    };
    match &validation.gives {
        Gives::Orphans { table, parent } => {
            let columns: Vec<&str> = query.columns().iter().map(|column| column.name.as_str()).collect();
            let (columns, values) = (columns.join(", "), shown(&rows[0]).join(", "));
            let message =
                format!("insert or update on table \"{table}\" violates foreign key constraint \"{name}\"");
            SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
                .with_detail(format!("Key ({columns})=({values}) is not present in table \"{parent}\"."))
                .with_constraint(name.clone())
        }
        Gives::Rows => {
            let columns: Vec<&str> = query.columns().iter().map(|column| column.name.as_str()).collect();
            let told = rows.iter().take(ROWS_TOLD).map(|row| format!("({})", shown(row).join(", ")));
            let more = if rows.len() > ROWS_TOLD { " and more" } else { "" };
            let told = told.collect::<Vec<_>>().join(", ");
            error("is violated by some row")
                .with_detail(format!("Failing rows contain ({}) = {told}{more}.", columns.join(", ")))
        }
        Gives::Sides => error("is false of the rows that there are")
            .with_detail(format!("Its sides are {}.", shown(&rows[0]).join(" and "))),
        Gives::Nothing => error("is false of the rows that there are"),
    }
}

fn changes_all_the_time() -> Failure {
    SqlError::new(SqlState::SCHEMA_HAS_CHANGED, "the schema changes all the time")
        .with_hint("Try it again.")
        .into()
}
