//! An application whose classes and templates the analysis gives (`weir-conveyor-plan`), and its sequences on a server.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use postgres::{Client, Error, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::matching::{Column, Templates};
use weir_conveyor::routing::{Routing, RoutingValue};
use weir_conveyor_net::operation::PlacedTable;
use weir_conveyor_net::sequences::rerouted;
use weir_conveyor_plan::{Bound, NamedRow, Plan, Sequence};

use crate::application::{Application, Matchable};
use crate::placement;

/// An analysed application over the servers of a deployment.
#[derive(Clone)]
pub struct Analysed {
    plan: Arc<Plan>,
    templates: Templates,
    /// Tables whose rows travel. An error says of which nobody knows it.
    placed: Result<Vec<PlacedTable>, String>,
}

impl Analysed {
    /// # Errors
    /// The application cannot be read, or the protocol cannot carry it: in words, with place and remedy.
    pub fn of_folder(folder: &Path, servers: &[ServerId]) -> Result<Analysed, String> {
        let plan = Plan::of_folder(folder).map_err(|error| error.to_string())?;
        let templates = plan.templates(Routing::even(servers));
        let placed = placement::inferred(&plan.local);
        Ok(Analysed { plan: Arc::new(plan), templates, placed })
    }

    /// The application with the tables whose rows travel as its folder names them. None: as the analysis finds them.
    ///
    /// # Errors
    /// The analysis knows better: in words.
    pub fn placed_by(self, named: Option<Vec<PlacedTable>>) -> Result<Analysed, String> {
        let Some(named) = named else { return Ok(self) };
        placement::check(&named, &self.plan.local)?;
        Ok(Analysed { placed: Ok(named), ..self })
    }
}

impl Application for Analysed {
    fn templates(&self) -> &Templates {
        &self.templates
    }

    fn statement(&self, text: &str, parameters: &[Option<&str>]) -> Option<Matchable> {
        let Bound { text, arguments } = self.plan.statement(text, parameters)?;
        Some((text, arguments))
    }

    fn call(&self, name: &str, arguments: &[Option<&str>]) -> Option<Vec<RoutingValue>> {
        self.plan.call(name, arguments)
    }

    fn rows_of_call(&self, name: &str, arguments: &[Option<&str>]) -> Vec<(String, String)> {
        let Some(operation) = self.plan.operation(name) else { return Vec::new() };
        let key = |row: &NamedRow| {
            let values = row.key.iter().map(|place| arguments.get(*place).copied().flatten());
            Some((row.table.clone(), values.collect::<Option<Vec<&str>>>()?.join(",")))
        };
        operation.rows.iter().filter_map(key).collect()
    }

    fn touched(&self, tables: &[String]) -> Option<BTreeSet<Column>> {
        self.plan.touched(tables)
    }

    fn is_written(&self, table: &str) -> bool {
        let table = table.replace('"', "");
        self.plan.captured.iter().any(|captured| match table.rsplit_once('.') {
            Some((schema, name)) => captured.schema == schema && captured.name == name,
            None => captured.name == table,
        })
    }

    fn sequences(&self, server: ServerId, database: &str) -> Result<Vec<String>, Error> {
        let Some(ids) = self.templates.routing().generated_ids(server) else { return Ok(Vec::new()) };
        let mut client = Client::connect(database, NoTls)?;
        let mut wrong = Vec::new();
        for sequence in &self.plan.sequences {
            wrong.extend(rerouted(&mut client, &sequence.relation(), ids, sequence.start.saturating_sub(1))?);
        }
        Ok(wrong)
    }

    fn routed(&self, routing: Routing) -> Arc<dyn Application> {
        Arc::new(Analysed { templates: self.templates.routed(routing), ..self.clone() })
    }

    fn placed(&self) -> Result<&[PlacedTable], &str> {
        self.placed.as_deref().map_err(String::as_str)
    }

    fn drawn(&self) -> Vec<String> {
        self.plan.sequences.iter().map(Sequence::relation).collect()
    }
}
