//! Transactions of several statements, message by message (soundness S5, S14; docs/internals/items.md).

use weir_core::participant::READER_DELAY_MS_MAX;

use super::*;
use crate::Isolation;

impl Stage {
    fn begin_statement(&mut self, client: usize, tag: u64, name: &str) {
        let mut out = Orders::default();
        self.clients[client].read(1_000, tag, vec![key(name)], Vec::new(), &mut out);
        self.take(client, out);
    }

    /// A statement of one item without a race: values, and number of message rounds.
    fn statement(&mut self, client: usize, tag: u64, name: &str) -> Option<(Vec<String>, u32)> {
        self.begin_statement(client, tag, name);
        for _ in 0..3 {
            self.deliver_to(client, &[0, 1]);
        }
        self.told(tag).map(|(read, rounds)| (values(&read), rounds.0))
    }

    /// Number of restarts that the statement is answered with.
    fn restarted(&mut self, client: usize, tag: u64, name: &str) -> usize {
        self.begin_statement(client, tag, name);
        std::mem::take(&mut self.done).iter().filter(|(_, done)| matches!(done, Done::Restart)).count()
    }
}

/// Two statements of one transaction: what the first one saw of T0 the second sees too, and T1 came later, for both.
#[test]
fn a_second_statement_agrees_with_the_first() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 3);
        stage.write(0, &[("x", Write::Add(1)), ("y", Write::Add(1))]);
        stage.deliver_to(0, &[0, 1, 1]);
        let tag = 1_000;
        stage.clients[2].open(tag, Isolation::ReadAtomic);
        // What is on no shard that it reads tells nothing, and yet T0 is named.
        let told = stage.statement(2, tag, "x");
        assert_eq!(told, Some((vec!["1".into()], 2)), "{variant:?}: shard 0 has T0 only prepared");
        stage.write(1, &[("x", Write::Add(10)), ("y", Write::Add(10))]);
        for _ in 0..2 {
            stage.deliver_to(1, &[0, 1]);
        }
        stage.let_drain(&[0, 1]);
        for name in ["y", "x"] {
            assert_eq!(stage.statement(2, tag, name), Some((vec!["1".into()], 1)), "{variant:?} {name}");
        }
        stage.check_story(&format!("statements-{}", variant.name()));
        stage.clients[2].roll_back(tag);
        assert_eq!(stage.read_now(2, &["x", "y"]).0, ["11", "11"]);
    }
}

/// Read committed: each statement is atomic, independent of the others.
#[test]
fn read_committed_is_atomic_per_statement() {
    for variant in VARIANTS {
        let mut stage = Stage::new(variant, 2);
        let tag = 1_000;
        stage.clients[1].open(tag, Isolation::ReadCommitted);
        for (add, expected) in [(1, "1"), (10, "11")] {
            stage.write(0, &[("x", Write::Add(add)), ("y", Write::Add(add))]);
            stage.deliver_to(0, &[0, 1, 1]);
            for name in ["y", "x"] {
                let (seen, _) = stage.statement(1, tag, name).expect("it is told");
                // On its own, x is not known to have been written.
                assert!(name == "x" || seen == [expected], "{variant:?} {seen:?}");
            }
            stage.deliver_all();
            assert_eq!(stage.statement(1, tag, "x").expect("it is told").0, [expected]);
        }
    }
}

/// A transaction reads its own buffered writes, and sends them at the commit.
#[test]
fn a_transaction_sees_what_it_has_buffered() {
    let mut stage = Stage::new(Variant::Fast, 1);
    let tag = 1_000;
    stage.clients[0].open(tag, Isolation::ReadAtomic);
    assert_eq!(stage.statement(0, tag, "x").expect("it is told").0, ["⊥"]);
    stage.clients[0].write(tag, key("x"), Write::Add(5)).expect("it is the first");
    let refused = stage.clients[0].write(tag, key("x"), Write::Insert("a".into()));
    assert!(refused.expect_err("it is another merge").to_string().contains("commit between them"));
    assert_eq!(stage.statement(0, tag, "x").expect("it is told").0, ["5"]);
    let mut out = Orders::default();
    stage.clients[0].commit(1_000, tag, &mut out);
    stage.take(0, out);
    stage.deliver_all();
    assert!(stage.told(tag).is_some() && !stage.clients[0].is_open(tag));
    assert_eq!(stage.read_now(0, &["x"]).0, ["5"]);
    // Every further statement is answered with a restart.
    assert_eq!(stage.restarted(0, tag, "x"), 1);
}

/// An idle interactive transaction delays no other one: its cut is kept no longer than the bound.
#[test]
fn an_idle_transaction_is_let_go() {
    let mut stage = Stage::new(Variant::Fast, 1);
    let tag = 1_000;
    stage.clients[0].open(tag, Isolation::ReadAtomic);
    stage.statement(0, tag, "x").expect("it is told");
    let mut out = Orders::default();
    stage.clients[0].on_timer(1_000 + READER_DELAY_MS_MAX, &mut out);
    assert!(out.done.is_empty() && stage.clients[0].is_idle());
    assert_eq!(stage.restarted(0, tag, "x"), 1);
}
