//! A permutation on a server: each step is begun when the one before it has been answered or waits, as by PostgreSQL's isolationtester. A
//! step whose session still waits follows when that has been answered.

use std::collections::VecDeque;

use postgres::{Client as Driver, NoTls};

use super::super::{Session, said};
use super::spec::{Permutation, Spec};
use crate::eventually::until;

/// A step with what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub session: usize,
    pub name: String,
    pub sql: String,
    /// Rows and counts, or SQLSTATE.
    pub answer: String,
    /// None: a marker says that it is seen or not.
    pub has_waited: Option<bool>,
}

/// Steps in the order in which they were begun, and the rows of all tables afterwards.
#[derive(Debug, PartialEq)]
pub struct Performance {
    pub told: Vec<Told>,
    pub rows: Vec<String>,
}

/// A server, how it says how many sessions wait, and how often in a row it must say the same.
pub struct Stage<'s> {
    pub url: &'s str,
    pub waiting: &'static str,
    pub looks: usize,
}

impl Stage<'_> {
    /// A lock is granted before its session has heard of it, so pg_stat_activity is late.
    pub fn postgres(url: &str) -> Stage<'_> {
        let waiting = "SELECT (SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted) \
                       + (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SafeSnapshot')";
        Stage { url, waiting, looks: 1 }
    }

    pub fn weir(url: &str) -> Stage<'_> {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        Stage { url, waiting, looks: 5 }
    }
}

/// Factor on the patience where the session of the next step is still busy: PostgreSQL never waits there.
const LOOKS_MORE: usize = 10;

const TABLES: &str = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename";

/// Answers of rows without an order are compared without one.
pub fn without_order(answer: &str) -> String {
    let mut words: Vec<&str> = answer.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

pub fn rows(control: &mut Driver) -> Vec<String> {
    let tables = said(control, TABLES);
    let names: Vec<&str> = tables.split(' ').filter(|word| !word.starts_with('(')).collect();
    names
        .into_iter()
        .map(|table| {
            format!("{table}: {}", without_order(&said(control, &format!("SELECT * FROM \"{table}\""))))
        })
        .collect()
}

pub fn is_state(answer: &str) -> bool {
    answer.len() == 5 && answer.chars().all(|one| one.is_ascii_digit() || one.is_ascii_uppercase())
}

/// Statements of a text, by the semicolons that are not in strings, comments or bodies.
pub fn statements(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quote: Option<String> = None;
    let mut rest = text;
    while let Some(one) = rest.chars().next() {
        let opens = ["--", "$body$", "$$", "'"].iter().find(|quote| rest.starts_with(**quote));
        let mut taken = one.len_utf8();
        match (&quote, opens) {
            (None, None) if one == ';' => all.push(String::new()),
            (None, Some(open)) => {
                taken = open.len();
                quote = Some(if *open == "--" { "\n".to_owned() } else { (*open).to_owned() });
            }
            (Some(end), _) if rest.starts_with(end.as_str()) => {
                taken = end.len();
                quote = None;
            }
            _ => {}
        }
        let last = all.last_mut().expect("one at least");
        last.push_str(if quote.is_none() && one == ';' { "" } else { &rest[..taken] });
        rest = &rest[taken..];
    }
    all.retain(|one| !one.trim().is_empty());
    all
}

pub fn in_one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why the tables of the spec cannot be made.
pub fn set_up(control: &mut Driver, spec: &Spec) -> Result<(), String> {
    for text in &spec.setups {
        // Not all definitions may be in one message with what writes.
        for sql in statements(text) {
            let answer = said(control, &sql);
            if is_state(&answer) {
                return Err(format!("{answer}: {}", in_one_line(&sql)));
            }
        }
    }
    Ok(())
}

pub fn tear_down(control: &mut Driver, spec: &Spec) {
    statements(spec.teardown.as_deref().unwrap_or_default()).iter().for_each(|sql| drop(said(control, sql)));
}

/// A session, whose steps may wait.
struct Player {
    session: Session,
    /// Places in `told` of the steps that it has not begun.
    queue: VecDeque<usize>,
    under_way: Option<usize>,
}

struct Play<'s> {
    stage: &'s Stage<'s>,
    control: Driver,
    players: Vec<Player>,
    told: Vec<Told>,
}

impl Play<'_> {
    /// Takes answers, and begins what may begin. Whether anything has happened.
    fn goes_on(&mut self) -> bool {
        let mut has_happened = false;
        for player in &mut self.players {
            if let Some(at) = player.under_way
                && let Ok(answer) = player.session.answers.try_recv()
            {
                self.told[at].answer = answer;
                player.under_way = None;
                has_happened = true;
            }
            if player.under_way.is_none()
                && let Some(at) = player.queue.pop_front()
            {
                player.session.send(&self.told[at].sql);
                player.under_way = Some(at);
                has_happened = true;
            }
        }
        has_happened
    }

    /// Until all have been answered, or wait; at the end, none waits.
    fn settle(&mut self, is_last: bool) {
        let mut same = 0;
        let is_queued = self.players.iter().any(|player| !player.queue.is_empty());
        let looks = self.stage.looks * if is_queued { LOOKS_MORE } else { 1 };
        until("all are answered, or wait", || {
            let has_happened = self.goes_on();
            let under_way = self.players.iter().filter(|player| player.under_way.is_some()).count();
            if under_way == 0 && self.players.iter().all(|player| player.queue.is_empty()) {
                return true;
            }
            let wait = !is_last && said(&mut self.control, self.stage.waiting) == format!("{under_way} (1)");
            same = if wait && !has_happened { same + 1 } else { 0 };
            same > looks
        });
        for player in &self.players {
            if let Some(at) = player.under_way
                && let Some(has_waited) = &mut self.told[at].has_waited
            {
                *has_waited = true;
            }
        }
    }

    fn setup(&mut self, session: usize, sql: Option<&str>) {
        for sql in statements(sql.unwrap_or_default()) {
            self.players[session].session.send(&sql);
            self.players[session].session.answer();
        }
    }
}

/// Tables are there before and are removed by the caller.
pub fn perform(stage: &Stage<'_>, spec: &Spec, permutation: &Permutation) -> Performance {
    let begin = |_| Player { session: Session::begin(stage.url), queue: VecDeque::new(), under_way: None };
    let mut play = Play {
        stage,
        control: Driver::connect(stage.url, NoTls).unwrap(),
        players: (0..spec.sessions.len()).map(begin).collect(),
        told: Vec::new(),
    };
    for (at, session) in spec.sessions.iter().enumerate() {
        play.setup(at, session.setup.as_deref());
    }
    for &(session, step, is_marked) in permutation {
        let step = &spec.sessions[session].steps[step];
        play.players[session].queue.push_back(play.told.len());
        play.told.push(Told {
            session,
            name: step.name.clone(),
            sql: step.sql.clone(),
            answer: String::new(),
            has_waited: (!is_marked).then_some(false),
        });
        play.settle(false);
    }
    play.settle(true);
    for (at, session) in spec.sessions.iter().enumerate() {
        play.setup(at, session.teardown.as_deref());
    }
    let rows = rows(&mut play.control);
    Performance { told: play.told, rows }
}
