//! The live Contention Level of a front end (docs/internals/cat.md): by procedure and mechanism, by table, and the hottest keys.
//!
//! Nothing is recorded until somebody may ask. From then on a transaction that is not in a recorded burst costs one atomic addition. Rows are those that statements name by their primary keys.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHasher};
use weir_cat::live::{Attempt, Burst, Kind, Live, Report, Sampling, Table};
use weir_client::{Prepared, Value};
use weir_observe::Page;

/// Procedures and kinds of statements that are told apart, and tables; further ones count as `other`.
const NAMES_MAX: usize = 1_000;

/// Keys whose text is kept, so that the hottest can be shown.
const TEXTS_MAX: usize = 8_192;

/// Hottest keys that are shown.
const HOTTEST: usize = 10;

/// Bytes of a key that are shown.
const TEXT_MAX: usize = 64;

/// Name of what is beyond [`NAMES_MAX`].
const OTHER: &str = "other";

/// The kind of a transaction of several statements.
const INTERACTIVE: (&str, &str) = ("interactive", "transaction");

#[derive(Debug)]
pub struct Contention {
    /// The server has a page of figures, so bursts are recorded.
    is_watched: AtomicBool,
    live: Live,
    since: Instant,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    kinds: BTreeMap<(&'static str, String), Kind>,
    tables: BTreeMap<String, Table>,
    texts: FxHashMap<(Table, u64), String>,
}

/// A transaction that is recorded, while it runs.
#[derive(Debug)]
pub struct Recording {
    burst: Burst,
    begin_ns: u64,
    kind: Option<Kind>,
    accesses: Vec<(Table, u64)>,
}

impl Default for Contention {
    fn default() -> Contention {
        Contention::new(Sampling::DEFAULT)
    }
}

impl Contention {
    /// Shows what [`Contention::tell`] tells, with throughput: of `weir serve`, and of `weir conveyor`.
    pub const PAGE: &str = include_str!("page.html");

    pub fn new(sampling: Sampling) -> Contention {
        Contention {
            is_watched: AtomicBool::new(false),
            live: Live::new(sampling),
            since: Instant::now(),
            names: Mutex::default(),
        }
    }

    /// Bursts are recorded from now on: a page of figures shows them.
    pub fn watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// A transaction begins. None, and mostly: it is not recorded.
    #[inline]
    pub fn begin(&self) -> Option<Box<Recording>> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return None;
        }
        let burst = self.live.begin()?;
        Some(Box::new(Recording { burst, begin_ns: self.now_ns(), kind: None, accesses: Vec::new() }))
    }

    /// A statement of a recorded transaction has run with these values.
    pub(crate) fn note(
        &self,
        recording: &mut Recording,
        prepared: &Prepared,
        values: &[Value],
        is_alone: bool,
    ) {
        let mut names = self.names();
        let (mechanism, name) = match is_alone {
            true => (prepared.mechanism(), prepared.name()),
            false => INTERACTIVE,
        };
        recording.kind.get_or_insert_with(|| names.kind(mechanism, name));
        prepared.each_accessed_row(values, &mut |key| {
            let table = names.table(prepared.table_of(&key));
            let object = key.hash();
            if !names.keeps_text((table, object), || text_of(key.values)) {
                names.forget_texts(&self.live.hot_objects());
            }
            recording.accesses.push((table, object));
        });
    }

    /// A recorded transaction accesses the row of a table with that key, as it is shown.
    pub fn note_row(&self, recording: &mut Recording, table: &str, key: &str) {
        let mut names = self.names();
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let object = (names.table(table), hasher.finish());
        if !names.keeps_text(object, || key.chars().take(TEXT_MAX).collect()) {
            names.forget_texts(&self.live.hot_objects());
        }
        recording.accesses.push(object);
    }

    /// Names a recorded transaction.
    pub fn name(&self, recording: &mut Recording, mechanism: &'static str, name: &str) {
        recording.kind = Some(self.names().kind(mechanism, name));
    }

    /// A recorded transaction has ended. One that has named no row is not counted.
    pub fn end(&self, recording: Recording, aborted: bool) {
        let Recording { burst, begin_ns, kind, accesses } = recording;
        let Some(kind) = kind.filter(|_| !accesses.is_empty()) else { return };
        self.live.end(burst, Attempt { kind, begin_ns, end_ns: self.now_ns(), aborted, accesses });
    }

    pub fn tell(&self, page: &mut Page) {
        let report = self.live.report(HOTTEST);
        let names = self.names();
        tell_levels(page, &report, &names);
        let tables: BTreeMap<Table, &str> =
            names.tables.iter().map(|(name, number)| (*number, name.as_str())).collect();
        for (object, accesses, over) in &report.hottest {
            let (Some(table), Some(key)) = (tables.get(&object.0), names.texts.get(object)) else { continue };
            let labels = [("table", *table), ("key", key.as_str())];
            let help = "Recorded accesses of the hottest rows, which may be too high by weir_hot_key_error.";
            page.gauge("weir_hot_key_accesses", help, &labels, *accesses as f64);
            let help = "By how much the recorded accesses of a hot row may be too high.";
            page.gauge("weir_hot_key_error", help, &labels, *over as f64);
        }
    }

    fn now_ns(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn kind(&mut self, mechanism: &'static str, name: &str) -> Kind {
        let mut key = (mechanism, name.to_ascii_lowercase());
        let known = self.kinds.len();
        if known >= NAMES_MAX && !self.kinds.contains_key(&key) {
            key.1 = OTHER.to_owned();
        }
        *self.kinds.entry(key).or_insert(known as Kind)
    }

    fn table(&mut self, name: &str) -> Table {
        if let Some(table) = self.tables.get(name) {
            return *table;
        }
        let known = self.tables.len();
        let name = if known < NAMES_MAX { name } else { OTHER };
        *self.tables.entry(name.to_owned()).or_insert(known as Table)
    }

    /// Returns whether there is room for the text of a key.
    fn keeps_text(&mut self, object: (Table, u64), text: impl FnOnce() -> String) -> bool {
        let has_room = self.texts.len() < TEXTS_MAX;
        if has_room {
            self.texts.entry(object).or_insert_with(text);
        }
        has_room || self.texts.contains_key(&object)
    }

    /// Makes room: only keys that may be the hottest ones keep their texts.
    fn forget_texts(&mut self, hot: &BTreeSet<(Table, u64)>) {
        self.texts.retain(|object, _| hot.contains(object));
    }
}

/// A key as it is shown: values with commas in between, cut where it is long.
fn text_of(key: &[Value]) -> String {
    let value = |value: &Value| match value {
        Value::Int(value) => value.to_string(),
        Value::Text(text) => text.to_string(),
        value => format!("{value:?}"),
    };
    let text = key.iter().map(value).collect::<Vec<_>>().join(",");
    text.chars().take(TEXT_MAX).collect()
}

fn tell_levels(page: &mut Page, report: &Report, names: &Names) {
    for ((mechanism, name), kind) in &names.kinds {
        let Some(measured) = report.by_kind.get(kind) else { continue };
        let labels = [("mechanism", *mechanism), ("name", name.as_str())];
        let help = "Contention Level: recorded accesses to rows that a concurrent transaction accessed too, of all recorded ones.";
        page.gauge("weir_contention_level", help, &labels, measured.contention.level());
        let help = "Share of the recorded transactions that were aborted.";
        let aborts = measured.aborts as f64 / measured.attempts.max(1) as f64;
        page.gauge("weir_recorded_abort_rate", help, &labels, aborts);
        for (metric, help, value) in [
            (
                "weir_recorded_transactions_total",
                "Transactions that were recorded for the Contention Level.",
                measured.attempts,
            ),
            (
                "weir_recorded_accesses_total",
                "Accesses of recorded transactions.",
                measured.contention.accesses,
            ),
            (
                "weir_common_accesses_total",
                "Accesses of recorded transactions to rows that a concurrent one accessed too.",
                measured.contention.common,
            ),
        ] {
            page.counter(metric, help, &labels, value as f64);
        }
    }
    for (table, number) in &names.tables {
        let Some(contention) = report.by_table.get(number) else { continue };
        let labels = [("table", table.as_str())];
        let help = "Contention Level of the accesses to a table's rows.";
        page.gauge("weir_table_contention_level", help, &labels, contention.level());
    }
    let help = "Contention Level over all recorded transactions.";
    page.gauge("weir_contention_level_of_all", help, &[], report.all.contention.level());
    let help = "Accesses and transactions that were not recorded, for there were too many.";
    page.counter("weir_recordings_left_out_total", help, &[], report.left_out as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_text() {
        assert_eq!(text_of(&[Value::Int(7), Value::text("a")]), "7,a");
        assert_eq!(text_of(&[Value::text("x".repeat(100))]).len(), TEXT_MAX);
    }

    #[test]
    fn names_beyond_the_limit_are_one() {
        let mut names = Names::default();
        let first = names.kind("ramp", "P0");
        for number in 1..NAMES_MAX {
            names.kind("ramp", &format!("P{number}"));
        }
        let other = names.kind("ramp", "one more");
        assert_eq!(names.kind("ramp", "another one"), other);
        assert_eq!((names.kind("ramp", "P0"), first == other), (first, false));
    }

    #[test]
    fn hot_keys_keep_their_texts() {
        let mut names = Names::default();
        let keeps = |names: &mut Names, object: u64| names.keeps_text((1, object), || object.to_string());
        assert!((0..TEXTS_MAX as u64).all(|object| keeps(&mut names, object)));
        assert!(!keeps(&mut names, 1 << 40) && keeps(&mut names, 7));
        names.forget_texts(&BTreeSet::from([(1, 7), (1, 1 << 50)]));
        assert!(keeps(&mut names, 1 << 40));
        let left: BTreeSet<_> = names.texts.into_keys().collect();
        assert_eq!(left, BTreeSet::from([(1, 7), (1, 1 << 40)]));
    }

    #[test]
    fn rows_of_others_are_told() {
        let contention = Contention::new(Sampling { burst: 8, one_of: 1 });
        contention.watch();
        let begun: Vec<_> = (0..2).map(|_| contention.begin().expect("all are recorded")).collect();
        for mut recording in begun {
            contention.note_row(&mut recording, "cart", "7,1");
            contention.name(&mut recording, "global", "checkout");
            contention.end(*recording, true);
        }
        let mut page = Page::default();
        contention.tell(&mut page);
        let text = page.into_text();
        for line in [
            "weir_contention_level{mechanism=\"global\",name=\"checkout\"} 1\n",
            "weir_recorded_abort_rate{mechanism=\"global\",name=\"checkout\"} 1\n",
            "weir_hot_key_accesses{table=\"cart\",key=\"7,1\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn recorded_transactions_are_told() {
        let contention = Contention::new(Sampling { burst: 8, one_of: 1 });
        assert!(contention.begin().is_none(), "nobody asks");
        contention.watch();
        let both: Vec<Recording> = (0..2)
            .map(|_| {
                let mut recording = *contention.begin().expect("all are recorded");
                let mut names = contention.names();
                recording.kind = Some(names.kind("ramp", "Pay"));
                let table = names.table("account");
                assert!(names.keeps_text((table, 5), || text_of(&[Value::Int(42)])));
                recording.accesses.push((table, 5));
                recording
            })
            .collect();
        both.into_iter().for_each(|recording| contention.end(recording, false));
        // A statement that names no row is not counted.
        let empty = *contention.begin().expect("all are recorded");
        contention.end(empty, true);
        let mut page = Page::default();
        contention.tell(&mut page);
        let text = page.into_text();
        for line in [
            "weir_contention_level{mechanism=\"ramp\",name=\"pay\"} 1\n",
            "weir_recorded_abort_rate{mechanism=\"ramp\",name=\"pay\"} 0\n",
            "weir_recorded_transactions_total{mechanism=\"ramp\",name=\"pay\"} 2\n",
            "weir_table_contention_level{table=\"account\"} 1\n",
            "weir_hot_key_accesses{table=\"account\",key=\"42\"} 2\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
