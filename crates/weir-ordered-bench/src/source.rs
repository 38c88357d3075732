//! Where transactions come from: the data with which shards begin, the transactions of clients, and the check of a run.

use std::collections::BTreeMap;

use weir_baselines::eris::application::{AnswerOf, Application, Origin};
use weir_baselines::eris::operation::{Empty, Operation, Registers};
use weir_baselines::eris::workload::{Generator, Workload};
use weir_core::ids::ShardId;

use crate::answers::{self, first_writes};
use crate::load::Answered;

pub type ApplicationOf<S> = <<S as Source>::Origin as Origin>::Application;
pub type OperationOf<S> = <ApplicationOf<S> as Application>::Operation;
pub type SnapshotOf<S> = <ApplicationOf<S> as Application>::Snapshot;
pub type AnsweredOf<S> = Answered<OperationOf<S>>;

/// The transactions of one front end: a pure function of a workload and a seed.
pub trait Source: Clone + Send + 'static {
    type Origin: Origin;

    fn origin(&self) -> Self::Origin;

    /// The same workload from another seed.
    fn with_seed(&self, seed: u64) -> Self;

    /// Transactions that write the first values.
    fn first(&self) -> Vec<OperationOf<Self>>;

    fn draw(&mut self) -> OperationOf<Self>;

    /// Whether the transaction is a New-Order that was entered.
    fn is_new_order(_answers: &BTreeMap<ShardId, AnswerOf<ApplicationOf<Self>>>) -> bool {
        false
    }

    /// Checks the data of all shards at the end, and the answers of all transactions if they were kept. Returns what has been seen.
    ///
    /// # Errors
    /// They contradict each other; how.
    fn check(
        &self,
        answers: Option<&[AnsweredOf<Self>]>,
        data: &BTreeMap<ShardId, SnapshotOf<Self>>,
    ) -> Result<String, String>;
}

/// YCSB+T over registers.
#[derive(Clone, Debug)]
pub struct RegisterSource {
    workload: Workload,
    generator: Generator,
}

impl RegisterSource {
    pub fn new(workload: Workload, seed: u64) -> RegisterSource {
        RegisterSource { workload, generator: Generator::new(workload, seed) }
    }
}

impl Source for RegisterSource {
    type Origin = Empty;

    fn origin(&self) -> Empty {
        Empty
    }

    fn with_seed(&self, seed: u64) -> Self {
        RegisterSource { workload: self.workload, generator: self.generator.with_seed(seed) }
    }

    fn first(&self) -> Vec<Operation> {
        first_writes(self.workload.keys).collect()
    }

    fn draw(&mut self) -> Operation {
        self.generator.draw()
    }

    fn check(
        &self,
        answers: Option<&[Answered]>,
        data: &BTreeMap<ShardId, <Registers as Application>::Snapshot>,
    ) -> Result<String, String> {
        let Some(answers) = answers else { return Ok("replicas are alike".to_owned()) };
        let values = data.values().flatten().map(|(key, value)| (*key, *value)).collect();
        answers::check(self.workload.kind, self.workload.keys, answers, &values)?;
        Ok(format!("{} answers and all values agree", answers.len()))
    }
}
