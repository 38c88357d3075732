//! An application whose classes and templates the analysis gives (`weir-conveyor-plan`), and its sequences on a server.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use postgres::{Client, Error, NoTls};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::matching::{Column, Templates};
use weir_conveyor::routing::{GeneratedIds, Routing, RoutingValue};
use weir_conveyor_net::operation::PlacedTable;
use weir_conveyor_plan::{Bound, NamedRow, Plan, Sequence};

use crate::application::{Application, Matchable};
use crate::placement;

/// An analysed application over the servers of a deployment.
#[derive(Clone)]
pub struct Analysed {
    plan: Arc<Plan>,
    /// The first map. Sequences follow it: slots of an application that draws ids do not move, but for those of a server that leaves.
    routing: Routing,
    templates: Templates,
    /// Tables whose rows travel. An error says of which nobody knows it.
    placed: Result<Vec<PlacedTable>, String>,
}

impl Analysed {
    /// # Errors
    /// The application cannot be read, or the protocol cannot carry it: in words, with place and remedy.
    pub fn of_folder(folder: &Path, servers: &[ServerId]) -> Result<Analysed, String> {
        let plan = Plan::of_folder(folder).map_err(|error| error.to_string())?;
        let routing = Routing::even(servers);
        let templates = plan.templates(routing.clone());
        let placed = placement::inferred(&plan.local);
        Ok(Analysed { plan: Arc::new(plan), routing, templates, placed })
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
        let Some(ids) = self.routing.generated_ids(server) else { return Ok(Vec::new()) };
        let mut client = Client::connect(database, NoTls)?;
        let mut wrong = Vec::new();
        for sequence in &self.plan.sequences {
            wrong.extend(unfit(&mut client, sequence, ids)?.map(|above| sequence.routed(ids, above)));
        }
        Ok(wrong)
    }

    fn routed(&self, routing: Routing) -> Arc<dyn Application> {
        Arc::new(Analysed { templates: self.templates.routed(routing), ..self.clone() })
    }

    fn placed(&self) -> Result<&[PlacedTable], &str> {
        self.placed.as_deref().map_err(String::as_str)
    }

    fn draws_ids(&self) -> bool {
        !self.plan.sequences.is_empty()
    }
}

/// Ids that a sequence gives from here on must route to the server. If they do not: the last id that it has given.
fn unfit(client: &mut Client, sequence: &Sequence, ids: GeneratedIds) -> Result<Option<i64>, Error> {
    let [schema, name] =
        [&sequence.schema, &sequence.name].map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
    let sequence = format!("{schema}.{name}");
    let row = client.query_one("SELECT to_regclass($1)::text", &[&sequence])?;
    if row.get::<_, Option<String>>(0).is_none() {
        // A sequence that is not there fails where it is used.
        return Ok(None);
    }
    // The view of sequences does not say where one that has given no id yet goes on.
    let sql = format!(
        "SELECT p.seqincrement, s.last_value, s.is_called FROM {sequence} s, pg_sequence p WHERE p.seqrelid = $1::text::regclass"
    );
    let row = client.query_one(&sql, &[&sequence])?;
    let (increment, last, is_called): (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
    let [of_server, remainder] = [ids.increment, ids.start].map(i64::from);
    let next = if is_called { last.saturating_add(increment) } else { last };
    let is_fit = increment % of_server == 0 && (next - remainder).rem_euclid(of_server) == 0;
    Ok((!is_fit).then_some(if is_called { last } else { last - 1 }))
}
