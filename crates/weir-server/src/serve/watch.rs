//! Figures of a node's shards. Each shard is asked in a turn; without requests nothing is computed.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use weir_core::ids::ShardId;
use weir_core::machine::{Figures, OrderFigures};
use weir_observe::{Check, Page, Source};

use super::group::{GroupPlace, GroupState};
use super::log::LogFigures;
use super::shard_loop::{Arrival, Inbox};
use crate::embedded::now_ms;

/// A shard that has not answered within this is not well.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a shard is not well that answers.
const FULL: &str = "no room for its log: writes are refused (53100) until there is, reads go on";

#[derive(Clone)]
pub struct Watch(Arc<[Watched]>);

struct Watched {
    shard: ShardId,
    at: At,
    /// None: it keeps none.
    log: Option<Arc<LogFigures>>,
}

/// Where the shard is asked.
enum At {
    Here(Arc<Inbox>),
    /// Here, while this node leads its group.
    Group(Arc<GroupPlace>),
}

impl Watched {
    /// None: another node leads its group.
    fn inbox(&self) -> Option<Arc<Inbox>> {
        match &self.at {
            At::Here(inbox) => Some(inbox.clone()),
            At::Group(place) => place.inbox(),
        }
    }

    fn group(&self) -> Option<GroupState> {
        match &self.at {
            At::Here(_) => None,
            At::Group(place) => Some(place.state()),
        }
    }
}

impl Watch {
    pub(super) fn new(
        shards: impl Iterator<Item = (ShardId, Arc<Inbox>, Option<Arc<LogFigures>>)>,
        groups: impl Iterator<Item = (ShardId, Arc<GroupPlace>)>,
    ) -> Watch {
        let alone = shards.map(|(shard, inbox, log)| Watched { shard, at: At::Here(inbox), log });
        let groups = groups.map(|(shard, place)| {
            let log = Some(place.figures.clone());
            Watched { shard, at: At::Group(place), log }
        });
        Watch(alone.chain(groups).collect())
    }

    /// None: it does not answer, or is not led from here.
    fn ask(&self) -> Vec<(&Watched, Option<Figures>)> {
        let question = |watched: &Watched| {
            let (answer, answered) = mpsc::channel();
            if let Some(inbox) = watched.inbox() {
                inbox.send(Arrival::Question(answer));
            }
            answered
        };
        let asked: Vec<_> = self.0.iter().map(|watched| (watched, question(watched))).collect();
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        asked.into_iter().map(|(watched, answered)| (watched, answered.recv_timeout(left()).ok())).collect()
    }
}

impl Source for Watch {
    fn tell(&self, page: &mut Page) {
        for (watched, figures) in self.ask() {
            let shard = watched.shard.to_string();
            let labels = [("shard", shard.as_str())];
            let group = watched.group();
            if group.as_ref().is_none_or(|group| group.leads) {
                let up = f64::from(u8::from(figures.is_some()));
                page.gauge("weir_shard_up", "Whether the shard answers.", &labels, up);
            }
            if let Some(group) = &group {
                tell_group(page, &labels, group);
            }
            if let Some(figures) = figures {
                tell_figures(page, &shard, &figures);
            }
            if let Some(log) = &watched.log {
                tell_log(page, &labels, log);
            }
        }
    }

    fn health(&self) -> Vec<Check> {
        let wrong = |watched: &Watched, figures: Option<Figures>| match figures {
            None if watched.group().is_some_and(|group| !group.leads) => {
                let has_leader = watched.group().is_some_and(|group| group.leader.is_some());
                (!has_leader).then(|| "its replica group has no leader that is known here".to_owned())
            }
            None => Some(format!("it has not answered within {} s", PATIENCE.as_secs())),
            Some(figures) if figures.disk_is_full => Some(FULL.to_owned()),
            Some(_) => None,
        };
        let check = |(watched, figures): (&Watched, Option<Figures>)| Check {
            part: format!("shard {}", watched.shard),
            wrong: wrong(watched, figures),
        };
        self.ask().into_iter().map(check).collect()
    }
}

fn tell_figures(page: &mut Page, shard: &str, figures: &Figures) {
    for table in &figures.tables {
        let labels = [("shard", shard), ("table", table.name.as_str())];
        page.gauge("weir_table_rows", "Rows of the table on the shard.", &labels, table.rows as f64);
        let help = "Memory of the table's rows and indexes on the shard, about.";
        page.gauge("weir_table_bytes", help, &labels, table.bytes as f64);
    }
    let labels = [("shard", shard)];
    for (name, help, value) in [
        (
            "weir_open_transactions",
            "Transactions of several statements that have worked there.",
            figures.open,
        ),
        ("weir_prepared_transactions", "Transactions that are prepared and not decided.", figures.prepared),
        ("weir_waiting_requests", "Requests that wait for what another transaction holds.", figures.waiting),
    ] {
        page.gauge(name, help, &labels, value as f64);
    }
    let help = "How far the timestamps of the shard are ahead of its clock: the clock was, or is, wrong.";
    let ahead_ms = figures.clock_ms.saturating_sub(now_ms());
    page.gauge("weir_clock_ahead_seconds", help, &labels, ahead_ms as f64 / 1e3);
    let help = "Whether writes are refused because there is no room for the log.";
    page.gauge("weir_shard_disk_full", help, &labels, f64::from(u8::from(figures.disk_is_full)));
    for (name, help, value) in [
        ("weir_shard_commits_total", "Transactions that have written there.", figures.done.commits),
        ("weir_waits_total", "Requests that had to wait for another transaction.", figures.done.waits),
        (
            "weir_guard_withdrawals_total",
            "Requests that were told to come again, because another transaction held a guard or a row.",
            figures.done.withdrawals,
        ),
    ] {
        page.counter(name, help, &labels, value as f64);
    }
    if let Some(order) = &figures.order {
        tell_order(page, &labels, order);
    }
}

fn tell_order(page: &mut Page, labels: &[(&'static str, &str)], order: &OrderFigures) {
    let help = "Operations of the order of calls that were executed there.";
    page.counter("weir_order_executed_total", help, labels, order.executed as f64);
    for (name, help, value) in [
        ("weir_order_epoch", "Epoch of the sequencer: it grows when that starts again.", order.epoch as f64),
        (
            "weir_order_waiting",
            "Operations of the order that wait for locks, votes or earlier operations.",
            order.waiting as f64,
        ),
        (
            "weir_order_entered",
            "Transactions under locks that have their places in the order. Calls behind them wait.",
            order.entered as f64,
        ),
        ("weir_order_aside", "Packets of the sequencer that came before an earlier one.", order.aside as f64),
    ] {
        page.gauge(name, help, labels, value);
    }
}

fn tell_group(page: &mut Page, labels: &[(&'static str, &str)], group: &GroupState) {
    let leads = f64::from(u8::from(group.leads));
    for (name, help, value) in [
        ("weir_group_leads", "Whether this node leads the shard's replica group.", leads),
        ("weir_group_term", "Raft's term of the group: it grows with each election.", group.term as f64),
        ("weir_group_voters", "Members that vote.", group.voters as f64),
        (
            "weir_group_learners",
            "Members with a new disk that do not replace the lost one yet.",
            group.learners as f64,
        ),
        ("weir_group_last_index", "Index of the last entry of the group's log here.", group.last as f64),
        ("weir_group_committed_index", "Up to where that log is committed.", group.committed as f64),
    ] {
        page.gauge(name, help, labels, value);
    }
}

fn tell_log(page: &mut Page, labels: &[(&'static str, &str)], log: &LogFigures) {
    let counters = [
        ("weir_log_bytes_total", "Bytes written to the log, without snapshots.", &log.bytes),
        ("weir_log_batches_total", "Writes to the log: each has the records of one turn.", &log.batches),
        ("weir_log_snapshots_total", "Segments of the log that were begun with a snapshot.", &log.snapshots),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, labels, counter.get() as f64);
    }
    let help = "How long the disk took to have what was written.";
    page.histogram("weir_log_sync_seconds", help, labels, &log.syncs.counts());
}
