//! The part of an ordered transaction that one shard executes, and the data of a shard as the application of its replicas.

use serde::{Deserialize, Serialize};
use weir_ordered::application::Application as OrderedApplication;
use weir_ordered::footprint::{Access as Locked, Footprint};
use weir_ordered::packet::Index;

use super::super::application::{AnswerOf, Application, OneShot};
use super::super::operation::{Access, Operation, Reads};

/// Work of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "O: Serialize", deserialize = "O: Deserialize<'de>"))]
pub enum Work<O = Operation> {
    /// A whole operation: an independent transaction.
    Execute(O),
    /// The preliminary part of a general transaction: it tells what the participants need of each other, and writes nothing.
    Read(O),
    /// The conclusory part, with what all participants have read.
    Write(O, Reads),
}

impl<O> Work<O> {
    pub fn operation(&self) -> &O {
        match self {
            Work::Execute(operation) | Work::Read(operation) | Work::Write(operation, _) => operation,
        }
    }
}

/// The data of a shard, which replicas execute ordered transactions on.
#[derive(Clone, Debug)]
pub struct Executor<A>(pub A);

impl<A: Application> OrderedApplication for Executor<A> {
    type Operation = Work<A::Operation>;
    type Answer = AnswerOf<A>;
    type Snapshot = A::Snapshot;

    fn execute(&mut self, index: Index, work: &Work<A::Operation>) -> AnswerOf<A> {
        let (operation, reads) = match work {
            Work::Read(operation) => return A::Operation::answer_of_reads(self.0.export(operation)),
            Work::Execute(operation) => (operation, &[][..]),
            Work::Write(operation, reads) => (operation, &reads[..]),
        };
        self.0.execute(index, operation, reads)
    }

    fn footprint(&self, work: &Work<A::Operation>) -> Footprint {
        let (shard, placement) = self.0.place();
        Footprint::of(work.operation().accesses_at(shard, placement).map(|(key, access)| {
            let access = if access == Access::Read { Locked::Read } else { Locked::Write };
            (key..=key, access)
        }))
    }

    fn roll_back(&mut self, to: Index) {
        self.0.roll_back(to);
    }

    fn forget(&mut self, up_to: Index) {
        self.0.forget(up_to);
    }

    fn snapshot(&self, at: Index) -> A::Snapshot {
        let mut then = self.0.clone();
        then.roll_back(at);
        then.snapshot()
    }

    fn restore(&mut self, at: Index, snapshot: &A::Snapshot) {
        self.0.restore(at, snapshot);
    }
}

#[cfg(test)]
mod unit_tests {
    use super::super::super::operation::{Action, Placement, Registers};
    use super::*;

    const PLACEMENT: Placement = Placement { shards: 2 };

    #[test]
    fn registers_are_an_application_of_ordered_transactions() {
        let mut registers = Executor(Registers::new(0, PLACEMENT));
        let modify = Work::Execute(Operation::new([Action::Modify(0, 5)]));
        assert_eq!(registers.execute(1, &modify), [(0, 5)]);
        assert_eq!(registers.execute(2, &modify), [(0, 160)]);
        assert_eq!(registers.snapshot(1), [(0, 5)].into());
        registers.roll_back(1);
        assert_eq!(registers.0.read(0), 5);
        registers.restore(9, &[(2, 3)].into());
        assert_eq!((registers.0.read(0), registers.0.read(2)), (0, 3));
    }

    #[test]
    fn a_swap_over_two_shards_reads_then_writes_under_locks_of_its_keys() {
        let mut registers = Executor(Registers::new(0, PLACEMENT));
        registers.0.write(1, &[(0, 4)]);
        let swap = Operation::new([Action::Swap(0, 1)]);
        assert_eq!(registers.execute(2, &Work::Read(swap.clone())), [(0, 4)]);
        assert_eq!(registers.execute(3, &Work::Write(swap.clone(), vec![(0, 4), (1, 9)])), [(0, 9)]);
        assert_eq!(registers.footprint(&Work::Read(swap)), Footprint::of([(0..=0, Locked::Write)]));
    }
}
