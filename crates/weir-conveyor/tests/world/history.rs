//! What was committed, applied and answered, and the checks of it.

use std::collections::{BTreeMap, BTreeSet};

use weir_conveyor::epochs::{ServerId, VisitNumber};
use weir_conveyor::message::{Outcome, Placement};
use weir_conveyor::routing::{MapChange, MapVersion};
use weir_conveyor::work::{License, WorkId};

use crate::world::application::{Answer, Number, Operation, Row, run_serially};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub text: String,
}

pub fn violation<T>(invariant: &'static str, text: String) -> Result<T, Violation> {
    Err(Violation { invariant, text })
}

/// An operation that has committed.
#[derive(Clone, Debug)]
pub struct Executed {
    pub operation: Operation,
    pub server: ServerId,
    pub license: Option<License>,
    /// The commit at that server.
    pub sequence: u64,
    pub answer: Answer,
    /// Rows that it has read, and the writers of the versions.
    pub reads: Vec<(Row, Number)>,
    pub writes: Vec<Row>,
}

/// Everything that has happened.
#[derive(Debug, Default)]
pub struct History {
    pub executed: Vec<Executed>,
    pub answered: Vec<(Number, Outcome<Answer>)>,
    /// By server: visits that were applied, in order, each with the work that has done so.
    applied: BTreeMap<ServerId, Vec<(VisitNumber, WorkId)>>,
}

impl History {
    pub fn applied(&mut self, server: ServerId, visit: VisitNumber, work: WorkId) {
        let applied = self.applied.entry(server).or_default();
        if applied.last() != Some(&(visit, work)) {
            applied.push((visit, work));
        }
    }

    pub fn applies(&self) -> usize {
        self.applied.values().map(Vec::len).sum()
    }

    /// Checks all that holds at any time, and returns a serial order of what was executed.
    pub fn check(&self) -> Result<Vec<&Executed>, Violation> {
        self.check_applied()?;
        self.check_answers()?;
        self.serial_order()
    }

    /// Every visit is applied once, in order.
    fn check_applied(&self) -> Result<(), Violation> {
        for (server, applied) in &self.applied {
            if let Some(pair) = applied.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                let text = format!("server {server} applies visit {} after visit {}", pair[1].0, pair[0].0);
                return violation("applied", text);
            }
        }
        Ok(())
    }

    /// Every operation is executed at most once; what was answered was executed, and what has failed was not.
    fn check_answers(&self) -> Result<(), Violation> {
        let mut executed = BTreeMap::new();
        for each in &self.executed {
            if executed.insert(each.operation.number, each).is_some() {
                return violation("once", format!("executed twice: {each:?}"));
            }
        }
        for (number, outcome) in &self.answered {
            let answer = executed.get(number).map(|each| &each.answer);
            let is_right = match outcome {
                Outcome::Answered(told) => answer == Some(told),
                Outcome::Starved | Outcome::TooLong | Outcome::NotBegun(_) | Outcome::WrongMap => {
                    answer.is_none()
                }
                Outcome::Unknown => true,
            };
            if !is_right {
                let text = format!("operation {number} was told {outcome:?}, and executed as {answer:?}");
                return violation("once", text);
            }
        }
        Ok(())
    }

    /// The order of the versions of each row. Stock is written by global operations, whose visits are ordered; a cart by the one server that has
    /// it by the map of the operation, and a log entry once.
    fn versions(&self) -> BTreeMap<Row, Vec<Number>> {
        let mut versions: BTreeMap<Row, Vec<(u64, u64, Number)>> = BTreeMap::new();
        for each in &self.executed {
            let visit = each.license.map_or(u64::MAX, |license| license.visit);
            for row in each.writes.iter().copied().collect::<BTreeSet<_>>() {
                let major = if matches!(row, Row::Stock(_)) { visit } else { each.operation.map };
                versions.entry(row).or_default().push((major, each.sequence, each.operation.number));
            }
        }
        let sorted = |mut list: Vec<(u64, u64, Number)>| {
            list.sort_unstable();
            [0].into_iter().chain(list.into_iter().map(|(_, _, number)| number)).collect()
        };
        versions.into_iter().map(|(row, list)| (row, sorted(list))).collect()
    }

    /// The multi-version serialization graph (Adya): for each operation those that come after it, and why.
    fn graph(&self) -> Result<BTreeMap<Number, BTreeMap<Number, String>>, Violation> {
        let versions = self.versions();
        let mut graph: BTreeMap<Number, BTreeMap<Number, String>> = BTreeMap::new();
        let mut add = |from: Number, to: Number, why: String| {
            if from != to && from != 0 {
                graph.entry(from).or_default().entry(to).or_insert(why);
            }
        };
        for (row, order) in &versions {
            order.windows(2).for_each(|pair| add(pair[0], pair[1], format!("ww {row:?}")));
        }
        // Each operation reads the map, which changes have written.
        let changes = self.executed.iter().filter(|each| each.operation.change.is_some());
        let changes: BTreeMap<MapVersion, Number> =
            changes.map(|each| (each.operation.map + 1, each.operation.number)).collect();
        for each in &self.executed {
            let Operation { number, map, .. } = each.operation;
            if let Some(change) = changes.get(&map) {
                add(*change, number, format!("wr map {map}"));
            }
            if let Some(change) = changes.get(&(map + 1)) {
                add(number, *change, format!("rw map {map}"));
            }
        }
        for each in &self.executed {
            let reader = each.operation.number;
            for (row, writer) in &each.reads {
                let order = versions.get(row).map_or(&[0][..], Vec::as_slice);
                let Some(place) = order.iter().position(|number| number == writer) else {
                    let text = format!("{reader} reads {row:?} of {writer}, which has not written it");
                    return violation("serializable", text);
                };
                add(*writer, reader, format!("wr {row:?}"));
                if let Some(next) = order.get(place + 1) {
                    add(reader, *next, format!("rw {row:?}"));
                }
            }
        }
        Ok(graph)
    }

    /// A serial order that is equivalent to what has happened.
    fn serial_order(&self) -> Result<Vec<&Executed>, Violation> {
        let graph = self.graph()?;
        let mut before: BTreeMap<Number, usize> =
            self.executed.iter().map(|each| (each.operation.number, 0)).collect();
        for to in graph.values().flat_map(BTreeMap::keys) {
            *before.entry(*to).or_default() += 1;
        }
        let mut free: BTreeSet<Number> =
            before.iter().filter(|(_, count)| **count == 0).map(|(number, _)| *number).collect();
        let mut order = Vec::new();
        while let Some(number) = free.pop_first() {
            order.push(number);
            before.remove(&number);
            for to in graph.get(&number).into_iter().flat_map(BTreeMap::keys) {
                let count = before.get_mut(to).expect("a successor is not placed before");
                *count -= 1;
                if *count == 0 {
                    free.insert(*to);
                }
            }
        }
        if !before.is_empty() {
            return violation("serializable", self.cycle(&graph, &before));
        }
        let by_number: BTreeMap<Number, &Executed> =
            self.executed.iter().map(|each| (each.operation.number, each)).collect();
        Ok(order.iter().map(|number| by_number[number]).collect())
    }

    /// One cycle of the graph, in words.
    fn cycle(
        &self,
        graph: &BTreeMap<Number, BTreeMap<Number, String>>,
        left: &BTreeMap<Number, usize>,
    ) -> String {
        // Everything that is left has a predecessor that is left: go back until something comes twice.
        let predecessor = |number: Number| {
            left.keys().copied().find(|from| graph.get(from).is_some_and(|to| to.contains_key(&number)))
        };
        let mut path = Vec::new();
        let mut next = left.keys().next().copied();
        while let Some(number) = next {
            if let Some(start) = path.iter().position(|each| *each == number) {
                path.drain(..start);
                break;
            }
            path.push(number);
            next = predecessor(number);
        }
        path.reverse();
        let mut text = String::from("a cycle:");
        for (index, number) in path.iter().enumerate() {
            let to = path[(index + 1) % path.len()];
            let why = graph.get(number).and_then(|all| all.get(&to)).map_or("", String::as_str);
            let each = self.executed.iter().find(|each| each.operation.number == *number);
            let place =
                each.map(|each| (each.server, each.license.map(|license| license.visit), each.sequence));
            text += &format!("\n  {number} at {place:?} before {to}: {why}");
        }
        text
    }
}

/// The end of a serial execution.
#[derive(Debug)]
pub struct Replayed {
    pub state: BTreeMap<Row, u64>,
    /// The server of the last writer of each row.
    pub servers: BTreeMap<Row, ServerId>,
}

/// Executes operations serially, and compares all answers.
pub fn replay(order: &[&Executed], mut state: BTreeMap<Row, u64>) -> Result<Replayed, Violation> {
    let mut servers: BTreeMap<Row, ServerId> = BTreeMap::new();
    for each in order {
        let answer = run_serially(&each.operation, &mut state);
        if answer != each.answer {
            let text = format!("serially {answer:?}, but {each:?}");
            return violation("answers", text);
        }
        // Log entries of a server that leaves go to another one.
        if let Some(MapChange::Leave { heir, .. }) = &each.operation.change {
            let is_log = |row: &Row| matches!(row, Row::Log(_));
            let left = servers.iter_mut().filter(|(row, server)| is_log(row) && **server == each.server);
            left.for_each(|(_, server)| *server = *heir);
        }
        for row in &each.writes {
            servers.insert(*row, each.operation.moves_to(*row).unwrap_or(each.server));
        }
    }
    Ok(Replayed { state, servers })
}

/// Local operations run at their server, and global ones in a visit.
pub fn check_places(executed: &[Executed]) -> Result<(), Violation> {
    for each in executed {
        let is_right = match each.operation.placement {
            Placement::Commutative => true,
            Placement::Local(server) => server == each.server,
            Placement::Global(server) => server == each.server && each.license.is_some(),
        };
        if !is_right {
            return violation("placed", format!("{each:?}"));
        }
    }
    Ok(())
}
