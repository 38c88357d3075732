//! The part of an ordered transaction that one shard executes, and the registers as the application of its replicas.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_ordered::application::Application;
use weir_ordered::footprint::{Access as Locked, Footprint};
use weir_ordered::packet::Index;

use super::super::operation::{Access, Answer, Key, Operation, Reads, Registers, Value};

/// Work of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A whole operation: an independent transaction.
    Execute(Operation),
    /// The preliminary part of a general transaction: it tells what the participants need of each other, and writes nothing.
    Read(Operation),
    /// The conclusory part, with what all participants have read.
    Write(Operation, Reads),
}

impl Work {
    pub fn operation(&self) -> &Operation {
        match self {
            Work::Execute(operation) | Work::Read(operation) | Work::Write(operation, _) => operation,
        }
    }
}

impl Application for Registers {
    type Operation = Work;
    type Answer = Answer;
    type Snapshot = BTreeMap<Key, Value>;

    fn execute(&mut self, index: Index, work: &Work) -> Answer {
        let (operation, reads) = match work {
            Work::Read(operation) => return self.export(operation),
            Work::Execute(operation) => (operation, &[][..]),
            Work::Write(operation, reads) => (operation, &reads[..]),
        };
        let part = self.part(operation, reads);
        self.write(index, &part.writes);
        part.answer
    }

    fn footprint(&self, work: &Work) -> Footprint {
        let (shard, placement) = self.place();
        Footprint::of(work.operation().accesses_at(shard, placement).map(|(key, access)| {
            let access = if access == Access::Read { Locked::Read } else { Locked::Write };
            (key..=key, access)
        }))
    }

    fn roll_back(&mut self, to: Index) {
        Registers::roll_back(self, to);
    }

    fn forget(&mut self, up_to: Index) {
        Registers::forget(self, up_to);
    }

    fn snapshot(&self, at: Index) -> BTreeMap<Key, Value> {
        let mut then = self.clone();
        then.roll_back(at);
        then.values()
    }

    fn restore(&mut self, at: Index, snapshot: &BTreeMap<Key, Value>) {
        self.reset(at, snapshot);
    }
}

#[cfg(test)]
mod unit_tests {
    use super::super::super::operation::{Action, Placement};
    use super::*;

    const PLACEMENT: Placement = Placement { shards: 2 };

    #[test]
    fn registers_are_an_application_of_ordered_transactions() {
        let mut registers = Registers::new(0, PLACEMENT);
        let modify = Work::Execute(Operation::new([Action::Modify(0, 5)]));
        assert_eq!(registers.execute(1, &modify), [(0, 5)]);
        assert_eq!(registers.execute(2, &modify), [(0, 160)]);
        assert_eq!(registers.snapshot(1), [(0, 5)].into());
        Application::roll_back(&mut registers, 1);
        assert_eq!(registers.read(0), 5);
        registers.restore(9, &[(2, 3)].into());
        assert_eq!((registers.read(0), registers.read(2)), (0, 3));
    }

    #[test]
    fn a_swap_over_two_shards_reads_then_writes_under_locks_of_its_keys() {
        let mut registers = Registers::new(0, PLACEMENT);
        registers.write(1, &[(0, 4)]);
        let swap = Operation::new([Action::Swap(0, 1)]);
        assert_eq!(registers.execute(2, &Work::Read(swap.clone())), [(0, 4)]);
        assert_eq!(registers.execute(3, &Work::Write(swap.clone(), vec![(0, 4), (1, 9)])), [(0, 9)]);
        assert_eq!(registers.footprint(&Work::Read(swap)), Footprint::of([(0..=0, Locked::Write)]));
    }
}
