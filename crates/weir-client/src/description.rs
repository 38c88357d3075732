//! What a cluster carries, as its nodes describe it to clients that have nothing but the cluster file.
//!
//! The plan goes with the texts: it follows from more than them (weights, a solver that may be missing), and whoever coordinates
//! calls must have the one that the shards have.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_analysis::plan::{Placement, Plan};
use weir_net::handshake::{DESCRIPTION, Terms};
use weir_net::{ClusterFile, body};
use weir_sql::{Application, Sources};
use weir_txn::exec::program::Program;
use weir_txn::ramp::ShardId;

use crate::Error;
use crate::calls::Callable;
use crate::export::{NotFetched, What, fetch};

/// What is said between parties that carry an application's calls, and written into their logs. Statements by themselves came with the
/// second, which does not understand the first.
pub const SQL: &str = "sql-2";

/// One node may take so long, then the next is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// An SQL application, and how its transactions run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Description {
    /// Name and text of its files of SQL, in the order in which they are loaded.
    files: Vec<(String, String)>,
    plan: Plan,
    /// That of the handshake.
    placement: u64,
}

impl Description {
    /// `files`: so many of the application's sources, from the first on, are SQL that was loaded.
    pub fn new(application: &Application, files: usize, plan: &Plan, placement: u64) -> Description {
        let files = application.sources.files.iter().take(files);
        Description {
            files: files.map(|file| (file.name.clone(), file.text.clone())).collect(),
            plan: plan.clone(),
            placement,
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        body::write(self, &mut bytes);
        bytes
    }

    pub(crate) fn terms(&self, cluster: &ClusterFile) -> Terms {
        cluster.terms_of(SQL, self.placement)
    }

    /// What all coordinators and shards of it have.
    pub(crate) fn compile(self, shards: ShardId) -> Result<Callable, Error> {
        let unfit = |what: String| {
            Error::Refused(format!("the application that the node describes cannot be read: {what}"))
        };
        let mut sources = Sources::default();
        for (name, text) in self.files {
            sources.add(name, text);
        }
        let application = weir_sql::load(sources).map_err(|(sources, wrong)| {
            let first = wrong.first().map(|one| format!("{}: {}", sources.place(one.span), one.message));
            unfit(first.unwrap_or_default())
        })?;
        let tables = &application.catalog.tables;
        let is_of = |(table, placement): (usize, &Placement)| match placement {
            Placement::Replicated => true,
            Placement::Partitioned { columns } => {
                !columns.is_empty() && columns.iter().all(|column| *column < tables[table].columns.len())
            }
        };
        if tables.len() != self.plan.placement.len()
            || !self.plan.placement.iter().enumerate().all(is_of)
            || self.plan.transactions.iter().any(|one| one.procedure >= application.procedures.len())
        {
            return Err(unfit("its plan is another application's".into()));
        }
        let program = Program::compile(&application, &self.plan, shards);
        let program = program.map_err(|error| unfit(error.error.to_string()))?;
        let program = program.with_texts(&application, &self.plan);
        Ok(Callable::new(application, program))
    }

    /// Asks the nodes, one after the other, until one answers.
    ///
    /// # Errors
    /// No node does, or all refuse.
    pub(crate) fn fetch(
        cluster: &ClusterFile,
        versions: &RangeInclusive<u16>,
        patience: Duration,
    ) -> Result<Description, Error> {
        let terms = Terms { versions: versions.clone(), ..cluster.terms_of(DESCRIPTION, 0) };
        let until = Instant::now() + patience;
        loop {
            let (mut refused, mut why) = (true, String::new());
            for shard in cluster.nodes.values().filter_map(|node| node.shards.first()) {
                let patience = until.saturating_duration_since(Instant::now()).min(PATIENCE);
                match fetch(cluster, &terms, *shard, What::Description, patience) {
                    Ok(bytes) => {
                        return postcard::from_bytes(&bytes).map_err(|error| {
                            Error::Refused(format!("the node's description cannot be read: {error}"))
                        });
                    }
                    Err(NotFetched::Refused(said)) => why = said,
                    Err(NotFetched::Failed(said)) => (refused, why) = (false, said),
                }
            }
            if refused {
                return Err(Error::Refused(why));
            }
            if Instant::now() >= until {
                return Err(Error::Deadline(why));
            }
        }
    }
}
