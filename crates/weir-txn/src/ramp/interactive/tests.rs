//! Transactions whose statements derive writes for other shards, with scripted replies.

use weir_sql::catalog::TableId;
use weir_types::memory::WorkingMemory;
use weir_types::{Notice, Severity, Value};

use super::*;
use crate::message::{
    Age, Attempt, Callee, GlobalKey, ParentChange, QueryReads, ReadQuery, Setting, WhyParent,
};

const TXN: TxnId = TxnId { coordinator: 7, sequence: 3 };
const FIRST: GlobalKey = GlobalKey { table: TableId(2), index: 1 };
const SECOND: GlobalKey = GlobalKey { table: TableId(2), index: 2 };

/// A value's owner is its remainder by this number.
const SHARDS: ShardId = 4;

fn add(value: i64, home: ShardId) -> Derived {
    Derived::Add { key: FIRST, values: vec![Value::Int(value)], home }
}

fn add_second(value: i64, home: ShardId) -> Derived {
    Derived::Add { key: SECOND, values: vec![Value::Int(value)], home }
}

fn remove(value: i64, home: ShardId) -> Derived {
    Derived::Remove { key: FIRST, values: vec![Value::Int(value)], home }
}

fn call(callee: Callee) -> Call {
    let memory = WorkingMemory::default();
    Call { callee, args: Vec::new(), transaction_time: 0.into(), schema_version: 0, memory }
}

fn error(state: SqlState) -> SqlError {
    SqlError::new(state, "scripted")
}

/// An action in words.
fn said(action: Action) -> String {
    let of_work = |work: &Work| match &work.call.callee {
        Callee::Derived(derived) => {
            let of = |one: &Derived| {
                let Value::Int(value) = one.values()[0] else { unreachable!() };
                match one {
                    Derived::Remove { key, home, .. }
                    | Derived::Add { key, home, .. }
                    | Derived::Propose { key, home, .. } => {
                        let sign = match one {
                            Derived::Add { .. } => '+',
                            Derived::Propose { .. } => '?',
                            _ => '-',
                        };
                        let second = if *key == SECOND { "'" } else { "" };
                        format!(" {sign}{value}{second} of {home}")
                    }
                    Derived::Children { .. } => format!(" children of {value}"),
                    Derived::Parent { .. } => format!(" parent {value}"),
                    other => format!(" {other:?}"),
                }
            };
            derived.iter().map(of).collect()
        }
        Callee::Constraints(_) => " checks".to_owned(),
        Callee::Serializable(_) => " and locks".to_owned(),
        Callee::Attempt(_, attempt) => format!(" {attempt:?}"),
        Callee::Reads(_) => " locks".to_owned(),
        _ => String::new(),
    };
    match action {
        Action::Send(shard, Request::Work { work, .. }) => {
            format!("{shard}: work {}{}", work.number, of_work(&work))
        }
        Action::Send(shard, Request::WorkAndBind { work, participants, .. }) => {
            format!("{shard}: work {}{} and bind {participants:?}", work.number, of_work(&work))
        }
        Action::Send(shard, Request::RollBackTo { number, after, opened, .. }) => {
            let unknown = if opened.is_none() { " if it is open" } else { "" };
            format!("{shard}: {number} roll back to {after}{unknown}")
        }
        Action::Send(shard, Request::Bind { participants, .. }) => format!("{shard}: bind {participants:?}"),
        Action::Send(shard, Request::Finish { participants, .. }) => {
            format!("{shard}: finish {participants:?}")
        }
        Action::Send(shard, Request::Commit { .. }) => format!("{shard}: commit"),
        Action::Send(shard, Request::Abort { .. }) => format!("{shard}: abort"),
        Action::Send(shard, other) => format!("{shard}: {other:?}"),
        Action::Answer(Ok(output)) => format!("answer {:?}", output.values),
        Action::Answer(Err(mut error)) => {
            let notices = error.notices_mut().len();
            let beside = if notices > 0 { format!(" and {notices} notices") } else { String::new() };
            format!("error {}{beside}", error.state())
        }
        Action::Retry => "again".to_owned(),
        Action::BeginAgain(attempt) => format!("again {attempt:?}"),
        Action::Settled => "settled".to_owned(),
    }
}

struct Script {
    machine: Interactive,
    out: Vec<Action>,
}

impl Script {
    fn begin(resends: bool) -> Script {
        let links = Links { shards: SHARDS, resends };
        Script { machine: Interactive::begin(TXN, begun(), links), out: Vec::new() }
    }

    fn alone(resends: bool, participants: &[ShardId], alone: Alone) -> Script {
        let mut out = Vec::new();
        let terms = (TXN, begun(), Links { shards: SHARDS, resends });
        let statement = (call(Callee::Procedure(0)), participants.to_vec(), None);
        let machine = Interactive::begin_alone(terms, statement, alone, &mut out);
        Script { machine, out }
    }

    fn statement(&mut self, participants: &[ShardId]) {
        self.machine.statement(call(Callee::Procedure(0)), participants.to_vec(), &mut self.out);
    }

    fn hear(&mut self, reply: Reply) {
        self.machine.on_reply(reply, &mut self.out);
    }

    /// A shard has done its share, and answers with its own number.
    fn worked(&mut self, shard: ShardId, number: u32, derived: &[Derived]) {
        let output = Output { values: vec![Value::Int(shard.into())], ..Output::default() };
        self.ended(shard, number, Ok((Answers::default(), output)), derived);
    }

    fn failed(&mut self, shard: ShardId, number: u32, state: SqlState) {
        self.ended(shard, number, Err(error(state)), &[]);
    }

    fn ended(
        &mut self,
        shard: ShardId,
        number: u32,
        result: Result<(Answers, Output), SqlError>,
        derived: &[Derived],
    ) {
        let reply = Reply::Worked { txn: TXN, shard, number, incarnation: 1, result };
        self.hear(reply.with_derived(derived.to_vec()).spoken().heard());
    }

    fn prepared(&mut self, shard: ShardId) {
        let (answers, timestamp) = (Answers::default(), Timestamp::default());
        self.hear(Reply::Prepared { txn: TXN, shard, answers, timestamp });
    }

    fn decided(&mut self) {
        let (output, timestamp) = (Output::default(), Timestamp::default());
        self.hear(Reply::Decided { txn: TXN, output, timestamp });
    }

    fn refused(&mut self, shard: ShardId, error: SqlError) {
        self.hear(Reply::Refused { txn: TXN, shard, error });
    }

    fn aborted(&mut self, shards: &[ShardId]) {
        shards.iter().for_each(|&shard| self.hear(Reply::Aborted { txn: TXN, shard }));
    }

    /// Checks what has been done since the last check.
    #[track_caller]
    fn does(&mut self, expected: &[&str]) {
        let said: Vec<String> = self.out.drain(..).map(said).collect();
        assert_eq!(said, expected);
    }
}

fn begun() -> Begun {
    Begun { age: Age { sequence: 3, coordinator: 7 }, at_ms: 1_000 }
}

/// A statement of shard 0 alone is in a round at shards 1 and 2.
fn in_a_round() -> Script {
    let mut script = Script::begin(true);
    begin_a_round(&mut script);
    script
}

fn begin_a_round(script: &mut Script) {
    script.statement(&[0]);
    script.worked(0, 1, &[add(1, 0), add_second(2, 0)]);
    script.does(&["0: work 1", "1: work 2 +1 of 0", "2: work 2 +2' of 0"]);
}

const COMMITS: Alone = Alone { look: None, may_begin_again: true, binds_with_last_round: false };
const BINDS: Alone = Alone { binds_with_last_round: true, ..COMMITS };

#[test]
fn what_all_participants_derive_is_carried_before_the_answer() {
    let mut script = Script::begin(true);
    script.statement(&[1, 2, 0]);
    script.does(&["1: work 1", "2: work 1"]);
    script.worked(2, 1, &[add(7, 2)]);
    script.worked(1, 1, &[add(3, 1), remove(2, 1)]);
    script.does(&["0: work 1"]);
    script.worked(0, 1, &[remove(3, 0)]);
    script.does(&["2: work 2 -2 of 1", "3: work 2 -3 of 0 +3 of 1 +7 of 2"]);
    assert!(script.machine.works());
    script.worked(3, 2, &[]);
    script.does(&[]);
    assert_eq!(script.machine.awaited(), [2]);
    script.worked(2, 2, &[]);
    script.does(&["answer [Int(0)]"]);
    script.machine.commit(None, &mut script.out);
    script.does(&["1: bind [1, 0, 3, 2]", "0: bind [1, 0, 3, 2]", "3: bind [1, 0, 3, 2]"]);
    [1, 0, 3].into_iter().for_each(|shard| script.prepared(shard));
    script.does(&["2: finish [1, 0, 3, 2]"]);
    script.decided();
    script.does(&["answer []", "1: commit", "0: commit", "3: commit"]);
}

#[test]
fn repeated_replies_and_requests_change_nothing() {
    let mut script = Script::begin(true);
    script.statement(&[1, 0]);
    script.worked(1, 1, &[add(2, 1)]);
    script.worked(1, 1, &[add(2, 1)]);
    script.worked(0, 1, &[add(3, 0)]);
    script.does(&["1: work 1", "0: work 1", "2: work 2 +2 of 1", "3: work 2 +3 of 0"]);
    script.worked(0, 1, &[add(3, 0)]);
    script.worked(3, 2, &[]);
    script.worked(3, 2, &[]);
    script.machine.send(&mut script.out);
    script.does(&["2: work 2 +2 of 1"]);
    script.worked(2, 2, &[]);
    script.worked(2, 2, &[]);
    script.does(&["answer [Int(0)]"]);
}

#[test]
fn an_answer_may_derive_again() {
    let mut script = in_a_round();
    script.worked(1, 2, &[remove(6, 1)]);
    script.worked(2, 2, &[remove(10, 2), add(5, 2)]);
    script.does(&["1: work 3 +5 of 2", "2: work 3 -6 of 1 -10 of 2"]);
    script.worked(1, 3, &[]);
    script.worked(2, 3, &[add(7, 2)]);
    script.does(&["3: work 4 +7 of 2"]);
    script.worked(3, 4, &[]);
    script.does(&["answer [Int(0)]"]);
}

#[test]
fn the_error_of_the_lowest_key_is_told() {
    for order in [[1, 2], [2, 1]] {
        let mut script = in_a_round();
        for shard in order {
            script.does(&[]);
            let state = [SqlState::UNIQUE_VIOLATION, SqlState::INTERNAL_ERROR][usize::from(shard - 1)];
            script.failed(shard, 2, state);
        }
        let asked = order.map(|shard| format!("{shard}: abort"));
        script.does(&["error 23505", "0: abort", &asked[0], &asked[1]]);
    }
}

#[test]
fn a_failed_round_is_rolled_back_to_the_savepoint_at_all_its_shards() {
    let mut script = Script::begin(true);
    script.machine.savepoint();
    begin_a_round(&mut script);
    script.worked(1, 2, &[]);
    script.failed(2, 2, SqlState::UNIQUE_VIOLATION);
    let all = ["0: 3 roll back to 0", "1: 3 roll back to 0", "2: 3 roll back to 0"];
    script.does(&["error 23505", all[0], all[1], all[2]]);
    script.machine.roll_back_to(0, &mut script.out);
    for shard in 0..3 {
        script.hear(Reply::RolledBack { txn: TXN, shard, number: 3, incarnation: 1 });
    }
    script.does(&["answer []"]);
    // What the failed statement has derived is forgotten, and so is its output.
    script.statement(&[0]);
    script.worked(0, 4, &[]);
    script.does(&["0: work 4", "answer [Int(0)]"]);
    script.machine.savepoint();
    script.statement(&[0]);
    script.worked(0, 5, &[add(3, 0)]);
    script.worked(3, 6, &[]);
    script.does(&["0: work 5", "3: work 6 +3 of 0", "answer [Int(0)]"]);
    script.machine.roll_back_to(1, &mut script.out);
    let of_all = [0, 1, 2, 3].map(|shard| format!("{shard}: 7 roll back to 4"));
    script.does(&[&of_all[0], &of_all[1], &of_all[2], &of_all[3]]);
}

#[test]
fn who_gives_up_in_a_round_leaves_nothing_at_its_shards() {
    let mut script = in_a_round();
    script.worked(1, 2, &[]);
    assert!(script.machine.give_up(&mut script.out));
    script.does(&["0: abort", "1: abort", "2: abort"]);
    let mut script = Script::begin(true);
    script.machine.savepoint();
    begin_a_round(&mut script);
    script.worked(1, 2, &[]);
    assert!(script.machine.give_up(&mut script.out));
    script.does(&["0: 3 roll back to 0", "1: 3 roll back to 0", "2: 3 roll back to 0 if it is open"]);
}

#[test]
fn a_round_is_interrupted_as_a_statement_is() {
    let mut script = in_a_round();
    assert_eq!(script.machine.statement_id(), (7, 3, 2));
    script.machine.interrupt(error(SqlState::QUERY_CANCELED), &mut script.out);
    script.does(&["error 57014", "0: abort", "1: abort", "2: abort"]);
    // The transaction is one of several statements: its client begins it again.
    let mut script = in_a_round();
    script.machine.interrupt(deadlock(), &mut script.out);
    script.does(&["error 40P01", "0: abort", "1: abort", "2: abort"]);
    let mut script = in_a_round();
    assert!(script.machine.roll_back(&mut script.out));
    script.does(&["0: abort", "1: abort", "2: abort"]);
    script.aborted(&[0, 1, 2]);
    script.does(&["settled"]);
}

#[test]
fn a_shard_that_has_forgotten_the_transaction_ends_it_in_a_round() {
    let busy = Reply::Busy { txn: TXN, shard: 1 };
    for reply in [busy, Reply::Refused { txn: TXN, shard: 1, error: forgotten() }] {
        let mut script = in_a_round();
        script.hear(reply);
        script.does(&["error 40001", "0: abort", "1: abort", "2: abort"]);
        assert!(script.machine.aborted().is_some());
    }
}

#[test]
fn more_than_a_message_carries_is_refused_before_it_is_sent() {
    let mut script = Script::begin(true);
    script.statement(&[0]);
    let values = vec![Value::text("x".repeat(9 << 20))];
    script.worked(0, 1, &[Derived::Add { key: FIRST, values, home: 0 }]);
    script.does(&["0: work 1", "error 54000", "0: abort"]);
}

#[test]
fn notices_of_the_statement_come_before_the_error_of_its_round() {
    let mut script = Script::begin(true);
    script.statement(&[0]);
    let notices = vec![Notice { severity: Severity::Notice, said: error(SqlState::SUCCESSFUL_COMPLETION) }];
    let output = Output { notices, ..Output::default() };
    script.ended(0, 1, Ok((Answers::default(), output)), &[add(1, 0)]);
    script.failed(1, 2, SqlState::UNIQUE_VIOLATION);
    script.does(&["0: work 1", "1: work 2 +1 of 0", "error 23505 and 1 notices", "0: abort", "1: abort"]);
}

/// Children are asked for when no entry is in the way any more, and parents when all else has been done.
#[test]
fn stages_follow_each_other() {
    let key = || vec![Value::Int(5)];
    let children = |at| {
        let change = ParentChange::Goes;
        Derived::Children { at, parent: TableId(2), reference: 0, old: key(), change }
    };
    let parent = |at| {
        let why = WhyParent::IsReferred;
        Derived::Parent { at, child: TableId(3), rule: 0, key: key(), why }
    };
    let mut script = Script::begin(true);
    script.statement(&[0]);
    script.worked(0, 1, &[parent(2), children(0), remove(1, 0), children(1)]);
    script.worked(1, 2, &[]);
    script.does(&["0: work 1", "1: work 2 -1 of 0", "0: work 3 children of 5", "1: work 3 children of 5"]);
    // A child has a key of its own.
    script.worked(0, 3, &[remove(3, 0)]);
    script.worked(1, 3, &[]);
    script.worked(3, 4, &[]);
    script.worked(2, 5, &[]);
    script.does(&["3: work 4 -3 of 0", "2: work 5 parent 5", "answer [Int(0)]"]);
}

#[test]
fn a_statement_alone_commits_and_is_answered_once_that_is_decided() {
    let mut script = Script::alone(true, &[1, 0], COMMITS);
    script.worked(1, 1, &[]);
    script.worked(0, 1, &[add(2, 0)]);
    script.does(&["1: work 1", "0: work 1", "2: work 2 +2 of 0"]);
    script.worked(2, 2, &[]);
    script.does(&["0: bind [0, 2, 1]", "2: bind [0, 2, 1]"]);
    script.prepared(0);
    script.prepared(2);
    script.does(&["1: finish [0, 2, 1]"]);
    assert!(script.machine.is_unanswered());
    script.decided();
    script.does(&["answer [Int(0)]", "0: commit", "2: commit"]);
    for shard in [0, 2] {
        script.hear(Reply::Committed { txn: TXN, shard });
    }
    script.does(&["settled"]);
    // With nothing to carry, and one participant.
    let mut script = Script::alone(false, &[3], COMMITS);
    script.worked(3, 1, &[]);
    script.does(&["3: work 1", "3: finish []"]);
    script.decided();
    script.does(&["answer [Int(3)]", "settled"]);
}

#[test]
fn the_shards_of_the_last_round_prepare_with_it() {
    let mut script = Script::alone(true, &[1, 0], BINDS);
    script.worked(1, 1, &[add(2, 1)]);
    script.worked(0, 1, &[add(3, 0)]);
    let last = ["2: work 2 +2 of 1 and bind [0, 2, 3, 1]", "3: work 2 +3 of 0 and bind [0, 2, 3, 1]"];
    script.does(&["1: work 1", "0: work 1", last[0], last[1], "0: bind [0, 2, 3, 1]"]);
    assert!(script.machine.works());
    script.prepared(3);
    script.prepared(0);
    script.machine.send(&mut script.out);
    script.does(&last[..1]);
    script.prepared(2);
    script.does(&["1: finish [0, 2, 3, 1]"]);
    script.decided();
    script.does(&["answer [Int(0)]", "0: commit", "2: commit", "3: commit"]);
}

/// The shard that decides prepares never: one that has nothing to do in the last round.
#[test]
fn a_shard_without_work_in_the_last_round_decides() {
    let mut script = Script::alone(true, &[1, 0], BINDS);
    script.worked(1, 1, &[]);
    script.worked(0, 1, &[add(1, 0)]);
    script.does(&["1: work 1", "0: work 1", "1: work 2 +1 of 0 and bind [1, 0]"]);
    script.prepared(1);
    script.does(&["0: finish [1, 0]"]);
    // Both have something to do.
    let mut script = Script::alone(true, &[1, 0], BINDS);
    script.worked(1, 1, &[add(4, 1)]);
    script.worked(0, 1, &[add(1, 0)]);
    script.does(&["1: work 1", "0: work 1", "0: work 2 +4 of 1", "1: work 2 +1 of 0"]);
}

#[test]
fn only_the_last_round_prepares() {
    let parent = |value: i64| Derived::Parent {
        at: 3,
        child: TableId(2),
        rule: 0,
        key: vec![Value::Int(value)],
        why: WhyParent::IsReferred,
    };
    let mut script = Script::alone(true, &[0], BINDS);
    script.worked(0, 1, &[add(1, 0), parent(9)]);
    script.worked(1, 2, &[]);
    let last = "3: work 3 parent 9 and bind [1, 3, 0]";
    script.does(&["0: work 1", "1: work 2 +1 of 0", last, "1: bind [1, 3, 0]"]);
    // Proposals may be answered with a row, deferred checks come behind the round, and many writes may take long.
    let mut script = Script::alone(true, &[0], BINDS);
    script.worked(0, 1, &[propose(1, 0)]);
    script.does(&["0: work 1", "1: work 2 ?1 of 0"]);
    let look = Some(call(Callee::Constraints(Setting::end())));
    let mut script = Script::alone(true, &[0], Alone { look, ..BINDS });
    script.worked(0, 1, &[add(1, 0)]);
    script.does(&["0: work 1", "1: work 2 +1 of 0"]);
    let mut script = Script::alone(true, &[0], BINDS);
    script.worked(0, 1, &vec![add(1, 0); 65]);
    assert!(matches!(script.out[..], [_, Action::Send(1, Request::Work { .. })]));
}

#[test]
fn a_transaction_whose_last_round_does_not_prepare_aborts() {
    let in_the_last_round = |resends, alone| {
        let mut script = Script::alone(resends, &[0], alone);
        script.worked(0, 1, &[add(1, 0), add_second(2, 0)]);
        let (first, second) =
            ("1: work 2 +1 of 0 and bind [1, 2, 0]", "2: work 2 +2' of 0 and bind [1, 2, 0]");
        script.does(&["0: work 1", first, second]);
        script
    };
    let busy = |shard| Reply::Busy { txn: TXN, shard };
    // The error of the lowest key, when all have answered.
    let mut script = in_the_last_round(true, BINDS);
    script.failed(2, 2, SqlState::FOREIGN_KEY_VIOLATION);
    script.does(&[]);
    script.failed(1, 2, SqlState::UNIQUE_VIOLATION);
    script.does(&["error 23505", "0: abort", "1: abort", "2: abort"]);
    script.aborted(&[0, 1, 2]);
    script.does(&["settled"]);
    // One withdraws.
    let mut script = in_the_last_round(true, BINDS);
    script.prepared(1);
    script.hear(busy(2));
    script.does(&["again", "0: abort", "1: abort", "2: abort"]);
    let mut script = in_the_last_round(false, BINDS);
    script.hear(busy(2));
    script.does(&[]);
    script.prepared(1);
    script.does(&["again", "0: abort", "1: abort", "2: abort", "settled"]);
    // One has derived more.
    let mut script = in_the_last_round(true, BINDS);
    script.worked(1, 2, &[add(5, 1)]);
    script.prepared(2);
    script.does(&["again", "0: abort", "1: abort", "2: abort"]);
    // The client cancels it, or gives up.
    let mut script = in_the_last_round(true, BINDS);
    script.machine.cancel(error(SqlState::QUERY_CANCELED), &mut script.out);
    script.does(&["error 57014", "0: abort", "1: abort", "2: abort"]);
    let mut script = in_the_last_round(true, BINDS);
    assert!(script.machine.give_up(&mut script.out));
    script.does(&["0: abort", "1: abort", "2: abort"]);
}

#[test]
fn deferred_checks_come_before_the_commit_of_a_statement_alone() {
    let look = Some(call(Callee::Constraints(Setting::end())));
    let mut script = Script::alone(true, &[0], Alone { look, ..COMMITS });
    script.worked(0, 1, &[add(1, 0)]);
    script.worked(1, 2, &[]);
    script.does(&["0: work 1", "1: work 2 +1 of 0", "0: work 3 checks"]);
    script.worked(0, 3, &[]);
    script.does(&["1: work 3 checks"]);
    let mut failing = Script { machine: script.machine, out: Vec::new() };
    failing.failed(1, 3, SqlState::FOREIGN_KEY_VIOLATION);
    failing.does(&["error 23503", "0: abort", "1: abort"]);
    failing.aborted(&[0, 1]);
    failing.does(&["settled"]);
}

#[test]
fn a_statement_alone_keeps_its_output_through_the_deferred_checks() {
    let look = Some(call(Callee::Constraints(Setting::end())));
    let mut script = Script::alone(true, &[2], Alone { look, ..COMMITS });
    script.worked(2, 1, &[]);
    let output = Output { values: vec![Value::Int(99)], ..Output::default() };
    script.ended(2, 2, Ok((Answers::default(), output)), &[]);
    script.decided();
    script.does(&["2: work 1", "2: work 2 checks", "2: finish []", "answer [Int(2)]", "settled"]);
}

#[test]
fn a_statement_alone_begins_again_where_its_client_need_not_know() {
    let in_a_round = |may_begin_again| {
        let mut script = Script::alone(true, &[0], Alone { may_begin_again, ..COMMITS });
        script.worked(0, 1, &[add(1, 0)]);
        script.does(&["0: work 1", "1: work 2 +1 of 0"]);
        script
    };
    for (may, said) in [(true, "again"), (false, "error 40P01")] {
        let mut script = in_a_round(may);
        script.machine.interrupt(deadlock(), &mut script.out);
        script.does(&[said, "0: abort", "1: abort"]);
        script.aborted(&[0, 1]);
        script.does(&["settled"]);
    }
    // The deciding shard has forgotten it, and so it has not committed.
    for (may, said) in [(true, "again"), (false, "error 40001")] {
        let mut script = in_a_round(may);
        script.worked(1, 2, &[]);
        script.prepared(1);
        script.does(&["1: bind [1, 0]", "0: finish [1, 0]"]);
        script.refused(0, forgotten());
        script.does(&[said, "0: abort", "1: abort"]);
    }
    // Neither is the like of it that the statement itself raises, nor another refusal.
    let mut script = in_a_round(true);
    script.failed(1, 2, SqlState::DEADLOCK_DETECTED);
    script.does(&["error 40P01", "0: abort", "1: abort"]);
    let mut script = Script::alone(true, &[0], COMMITS);
    script.failed(0, 1, SqlState::SERIALIZATION_FAILURE);
    script.does(&["0: work 1", "error 40001", "0: abort"]);
    // An owner says so if the home has forgotten it.
    let mut script = in_a_round(true);
    script.failed(1, 2, SqlState::SERIALIZATION_FAILURE);
    script.does(&["again", "0: abort", "1: abort"]);
    let mut script = in_a_round(true);
    script.refused(1, error(SqlState::FEATURE_NOT_SUPPORTED));
    script.does(&["error 0A000", "0: abort", "1: abort"]);
}

#[test]
fn a_statement_alone_is_cancelled_until_its_commit_is_asked_for() {
    let mut script = Script::alone(true, &[0], COMMITS);
    let cancel =
        |script: &mut Script| script.machine.cancel(error(SqlState::QUERY_CANCELED), &mut script.out);
    cancel(&mut script);
    script.does(&["0: work 1", "error 57014", "0: abort"]);
    cancel(&mut script);
    script.does(&[]);
    let binding = || {
        let mut script = Script::alone(true, &[0], COMMITS);
        script.worked(0, 1, &[add(1, 0)]);
        script.worked(1, 2, &[]);
        script.does(&["0: work 1", "1: work 2 +1 of 0", "1: bind [1, 0]"]);
        assert_eq!(script.machine.awaited(), [1]);
        script
    };
    let mut script = binding();
    cancel(&mut script);
    script.does(&["error 57014", "0: abort", "1: abort"]);
    let mut script = binding();
    assert!(script.machine.give_up(&mut script.out));
    script.does(&["0: abort", "1: abort"]);
    let mut script = binding();
    script.prepared(1);
    script.does(&["0: finish [1, 0]"]);
    assert_eq!(script.machine.awaited(), [0]);
    cancel(&mut script);
    script.does(&[]);
    assert!(!script.machine.give_up(&mut script.out));
    script.decided();
    script.does(&["answer [Int(0)]", "1: commit"]);
}

/// Over lossless links an ABORT is not acknowledged, and no timer repeats a request.
#[test]
fn an_abort_over_lossless_links_is_over_at_once() {
    let mut script = Script::alone(false, &[0], COMMITS);
    script.worked(0, 1, &[add(1, 0)]);
    script.failed(1, 2, SqlState::UNIQUE_VIOLATION);
    let told = ["0: work 1", "1: work 2 +1 of 0", "error 23505", "0: abort", "1: abort", "settled"];
    script.does(&told);
    let mut script = Script::begin(false);
    script.statement(&[0]);
    script.failed(0, 1, SqlState::UNIQUE_VIOLATION);
    script.does(&["0: work 1", "error 23505", "0: abort"]);
    assert!(script.machine.roll_back(&mut script.out));
    script.does(&["settled"]);
}

/// A shard withdraws from the statement of a younger transaction: the others are heard first.
#[test]
fn who_withdraws_over_lossless_links_waits_for_the_others() {
    let busy = |shard| Reply::Busy { txn: TXN, shard };
    let mut script = Script::alone(false, &[1, 2, 0], COMMITS);
    script.hear(busy(1));
    script.does(&["1: work 1", "2: work 1"]);
    script.worked(2, 1, &[]);
    script.does(&["again", "2: abort", "1: abort", "settled"]);
    let mut script = Script::alone(false, &[0], COMMITS);
    script.worked(0, 1, &[add(1, 0), add(2, 0)]);
    script.hear(busy(2));
    script.does(&["0: work 1", "1: work 2 +1 of 0", "2: work 2 +2 of 0"]);
    script.failed(1, 2, SqlState::UNIQUE_VIOLATION);
    script.does(&["error 23505", "0: abort", "1: abort", "2: abort", "settled"]);
    let mut script = Script::alone(false, &[0], Alone { may_begin_again: false, ..COMMITS });
    script.hear(busy(0));
    script.does(&["0: work 1", "error 40001", "0: abort", "settled"]);
}

#[test]
fn a_serializable_query_is_locked_at_all_its_shards_at_the_same_time() {
    let mut script = Script::begin(true);
    script.machine.set_serializable(true);
    let nothing = Arc::new(ReadQuery { tables: Vec::new(), parts: None, schema_version: 0 });
    let queries: BTreeMap<ShardId, Arc<ReadQuery>> = [0, 2].map(|shard| (shard, nothing.clone())).into();
    let reads = QueryReads::call_of(&queries, 0, 0.into());
    script.machine.statement(reads, vec![0, 2], &mut script.out);
    script.does(&["0: work 1 locks", "2: work 1 locks"]);
    script.worked(2, 1, &[]);
    script.does(&[]);
    assert_eq!(script.machine.awaited(), [0]);
    script.worked(0, 1, &[]);
    script.does(&["answer []"]);
    script.statement(&[1, 0]);
    script.does(&["1: work 2 and locks"]);
    script.machine.interrupt(deadlock(), &mut script.out);
    script.does(&["error 40001", "2: abort", "0: abort", "1: abort"]);
}

fn propose(value: i64, home: ShardId) -> Derived {
    Derived::Propose { key: FIRST, values: vec![Value::Int(value)], home }
}

fn begin_again(attempt: Attempt) -> Derived {
    Derived::BeginAgain { table: FIRST.table, attempt }
}

fn rolled_back(script: &mut Script, number: u32, shards: &[ShardId]) {
    for &shard in shards {
        script.hear(Reply::RolledBack { txn: TXN, shard, number, incarnation: 1 });
    }
}

/// A statement is undone, and run where a row is that it conflicts with; where that has gone, it is run at its home again.
#[test]
fn a_statement_that_meets_a_row_of_another_shard_begins_again_there() {
    let mut script = Script::alone(true, &[0], COMMITS);
    script.worked(0, 1, &[propose(1, 0), add_second(2, 0)]);
    script.worked(1, 2, &[begin_again(Attempt::AtConflict(3))]);
    // The error of another key does not count: the row is not inserted.
    script.failed(2, 2, SqlState::UNIQUE_VIOLATION);
    let undone = [0, 1, 2].map(|shard| format!("{shard}: 3 roll back to 0"));
    script.does(&[
        "0: work 1",
        "1: work 2 ?1 of 0",
        "2: work 2 +2' of 0",
        &undone[0],
        &undone[1],
        &undone[2],
    ]);
    assert!(script.machine.works());
    rolled_back(&mut script, 3, &[2, 0, 1]);
    script.does(&["3: work 4 AtConflict(3)"]);
    script.worked(3, 4, &[begin_again(Attempt::AtHome)]);
    let undone = [0, 1, 2, 3].map(|shard| format!("{shard}: 5 roll back to 0"));
    script.does(&[&undone[0], &undone[1], &undone[2], &undone[3]]);
    rolled_back(&mut script, 5, &[0, 1, 2, 3]);
    script.does(&["0: work 6"]);
    script.worked(0, 6, &[propose(1, 0)]);
    script.worked(1, 7, &[]);
    script.does(&[
        "1: work 7 ?1 of 0",
        "1: bind [1, 2, 3, 0]",
        "2: bind [1, 2, 3, 0]",
        "3: bind [1, 2, 3, 0]",
    ]);
}

/// The owners are asked before an error of the insertion stands.
#[test]
fn an_error_stands_where_no_owner_knows_of_a_row() {
    let mut script = Script::begin(true);
    script.machine.savepoint();
    script.statement(&[0]);
    script.worked(0, 1, &[propose(1, 0), begin_again(Attempt::Unopposed)]);
    script.does(&["0: work 1", "1: work 2 ?1 of 0"]);
    script.worked(1, 2, &[]);
    script.does(&["0: 3 roll back to 0", "1: 3 roll back to 0"]);
    rolled_back(&mut script, 3, &[0, 1]);
    script.does(&["0: work 4 Unopposed"]);
    script.failed(0, 4, SqlState::UNIQUE_VIOLATION);
    script.does(&["error 23505", "0: 5 roll back to 0", "1: 5 roll back to 0"]);
}

#[test]
fn a_statement_that_is_being_undone_can_be_interrupted() {
    let being_undone = || {
        let mut script = Script::alone(true, &[0], COMMITS);
        script.worked(0, 1, &[begin_again(Attempt::AtConflict(2))]);
        script.does(&["0: work 1", "0: 2 roll back to 0"]);
        script
    };
    let mut script = being_undone();
    script.machine.cancel(error(SqlState::QUERY_CANCELED), &mut script.out);
    script.does(&["error 57014", "0: abort"]);
    let mut script = being_undone();
    assert!(script.machine.give_up(&mut script.out));
    script.does(&["0: abort"]);
    let mut script = being_undone();
    script.refused(0, forgotten());
    script.does(&["again", "0: abort"]);
}
