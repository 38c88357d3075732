//! Whole queries with less and less memory: what has no room in it is in temporary files, and the rows are the same.

use std::fmt::Write;
use std::ops::{ControlFlow, Range};

use weir_sql::Catalog;
use weir_sql::bound::Statement;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, SqlState, Value};

use super::CompiledQuery;
use crate::exec::context::{Cx, Frame};
use crate::exec::slots::SlotAllocator;
use crate::exec::write::operation::NoEnvironment;
use crate::storage::temporary::{InMemory, TemporaryFiles};
use crate::storage::{IndexId, KeyBytes, KeyRange, NoRows, RowRef, Rows, Schema, Visit};

type Row = Vec<Value>;

const NO_TABLES: &NoRows = &NoRows;

/// No tables, but files.
struct WithFiles<'f>(Option<&'f InMemory>);

impl Rows for WithFiles<'_> {
    fn schema(&self) -> &Schema {
        NO_TABLES.schema()
    }

    fn temporary_files(&self) -> Option<&dyn TemporaryFiles> {
        self.0.map(|files| files as &dyn TemporaryFiles)
    }

    fn get(&self, _: TableId, _: IndexId, _: &KeyBytes) -> Option<RowRef> {
        None
    }

    fn range(
        &self,
        _: TableId,
        _: IndexId,
        _: &KeyRange,
        _: bool,
        _: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        Ok(ControlFlow::Continue(()))
    }

    fn scan(&self, _: TableId, _: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, _: TableId, _: RowRef, _: ColumnIndex) -> Value {
        Value::Null
    }

    fn row_count(&self, _: TableId) -> usize {
        0
    }
}

fn run(sql: &str, files: Option<&InMemory>) -> Result<Vec<Row>, SqlError> {
    let bound = weir_sql::bind_statement(&Catalog::default(), sql, None);
    let (Statement::Query(query), _) = bound.unwrap_or_else(|wrong| panic!("{sql}: {wrong:?}")) else {
        panic!("{sql} is no query")
    };
    let mut slots = SlotAllocator::new(0);
    slots.begin_query(&query);
    let compiled = CompiledQuery::compile(&query, NO_TABLES.schema(), &mut slots)?;
    let (mut frame, rows) = (Frame::new(&slots), WithFiles(files));
    let mut cx =
        Cx { frame: &mut frame, rows: &rows, transaction_time: 0.into(), environment: &mut NoEnvironment };
    let mut found = Vec::new();
    compiled.run(&mut cx, &mut |_, row| {
        found.push(row.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some(files) = files {
        assert_eq!(files.bytes_now(), 0, "{sql}: the files have gone with the query");
    }
    Ok(found)
}

fn files_of(sort_bytes: usize, hash_bytes: usize) -> InMemory {
    InMemory::of(WorkingMemory { sort_bytes, hash_bytes, ..WorkingMemory::default() })
}

/// The rows are the same with all memories, of which the small ones need files.
fn check(sql: &str) -> Vec<Row> {
    let expected = run(sql, None).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    for (bytes, has_files) in [(1 << 30, false), (64 << 10, true), (1_000, true), (0, true)] {
        let files = files_of(bytes, 1 << 30);
        let found = run(sql, Some(&files)).unwrap_or_else(|error| panic!("{sql}, {bytes}: {error:?}"));
        assert_eq!(found.len(), expected.len(), "{sql}, {bytes}");
        let different = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(different, None, "{sql}, {bytes}");
        assert_eq!(files.files.get() > 0, has_files, "{sql}, {bytes}");
    }
    expected
}

fn number(rows: &[Row]) -> i64 {
    match rows {
        [row] => match row[..] {
            [Value::Int(number)] => number,
            _ => panic!("{row:?}"),
        },
        _ => panic!("{rows:?}"),
    }
}

#[test]
fn rows_of_with_are_read_by_each_reference() {
    let all = "SELECT g, repeat('x', g % 50) AS t FROM generate_series(1, 5000) g";
    assert_eq!(check(&format!("WITH w AS ({all}) SELECT g, t FROM w")).len(), 5_000);
    let joined = format!("WITH w AS ({all}) SELECT count(*) FROM w a JOIN w b ON a.g = b.g + 1");
    assert_eq!(number(&check(&joined)), 4_999);
    // A reader within a reader, and one that stops.
    let nested = format!(
        "WITH w AS ({all}) SELECT a.g, (SELECT sum(b.g) FROM (SELECT g FROM w WHERE g > a.g LIMIT 2) b) FROM w a
         WHERE a.g < 40"
    );
    let rows = check(&nested);
    assert_eq!(rows[4], [Value::Int(5), Value::Int(13)]);
    let of_others = format!(
        "WITH w AS ({all}), v AS (SELECT g FROM w WHERE g > 10) SELECT count(*) FROM v, w WHERE w.g = v.g"
    );
    assert_eq!(number(&check(&of_others)), 4_990);
}

#[test]
fn rows_of_recursive_with() {
    let counted =
        "WITH RECURSIVE r (n, t) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, t || 'x' FROM r WHERE n < 600)
         SELECT n, t FROM r";
    assert_eq!(check(counted).len(), 600);
    // Each round has a thousand rows.
    let wide = "WITH RECURSIVE r (n, round) AS (SELECT g, 0 FROM generate_series(1, 1000) g
         UNION ALL SELECT n + 1, round + 1 FROM r WHERE round < 5) SELECT count(*) FROM r a JOIN r b USING (n, round)";
    assert_eq!(number(&check(wide)), 6_000);
    let distinct = "WITH RECURSIVE r (n) AS (SELECT g FROM generate_series(1, 1000) g
         UNION SELECT n * 7 % 3001 FROM r) SELECT count(*), min(n), max(n) FROM r";
    assert_eq!(check(distinct)[0], [Value::Int(3_000), Value::Int(1), Value::Int(3_000)]);
}

#[test]
fn rows_of_subqueries_that_are_compared() {
    let compared = "SELECT count(*) FROM generate_series(1, 20) g WHERE g * 500 >= ALL (SELECT h FROM generate_series(1, 4000) h)";
    assert_eq!(number(&check(compared)), 13);
    let any = "SELECT count(*) FROM generate_series(1, 20) g WHERE g * 500 <= ANY (SELECT h FROM generate_series(1, 4000) h)";
    assert_eq!(number(&check(any)), 8);
}

#[test]
fn files_of_with_and_of_windows_have_a_limit() {
    let memory = WorkingMemory { sort_bytes: 0, files_bytes_max: Some(20_000), ..WorkingMemory::default() };
    for sql in [
        "WITH w AS (SELECT g FROM generate_series(1, 10000) g) SELECT count(*) FROM w a, w b WHERE a.g = b.g",
        "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10000) SELECT count(*) FROM r",
        "SELECT sum(c) FROM (SELECT count(*) OVER () AS c FROM generate_series(1, 10000) g) x",
    ] {
        let files = InMemory::of(memory);
        let state = run(sql, Some(&files)).map_err(|error| error.state());
        assert_eq!(state, Err(SqlState::CONFIGURATION_LIMIT_EXCEEDED), "{sql}");
        assert_eq!(files.bytes_now(), 0, "{sql}");
    }
}

#[test]
fn windows_over_partitions_that_have_no_room() {
    let from = "FROM generate_series(1, 2000) g";
    for functions in [
        "row_number() OVER (ORDER BY g % 100), g",
        "rank() OVER w, dense_rank() OVER w, percent_rank() OVER w, cume_dist() OVER w, ntile(7) OVER w",
        "count(*) OVER w, sum(g) OVER w, min(g) OVER w, max(g) OVER w, avg(g) OVER w",
        "lag(g) OVER w, lag(g, 3, 0) OVER w, lead(g) OVER w, lead(g, 5, -1) OVER w, lag(g, g % 9) OVER w",
        "sum(g) OVER (ORDER BY g DESC ROWS UNBOUNDED PRECEDING), count(*) OVER ()",
        "sum(g) OVER (ORDER BY g ROWS 3 PRECEDING), max(g) OVER (ORDER BY g ROWS BETWEEN 2 FOLLOWING AND 9 FOLLOWING)",
        "first_value(g) OVER w, last_value(g) OVER w, nth_value(g, 4) OVER w",
        "sum(g) OVER (ORDER BY g RANGE BETWEEN 10 PRECEDING AND 5 FOLLOWING EXCLUDE CURRENT ROW)",
        "count(*) OVER (PARTITION BY g % 10), count(*) OVER (ORDER BY g % 7), count(*) FILTER (WHERE g > 9) OVER w",
        "count(*) OVER (PARTITION BY g), lag(g) OVER (PARTITION BY g % 700 ORDER BY g)",
    ] {
        let window = "WINDOW w AS (PARTITION BY g % 2 ORDER BY g % 100)";
        assert_eq!(check(&format!("SELECT {functions} {from} {window}")).len(), 2_000);
    }
}

/// Functions that look no further than the current row and a few rows around it need no room for a partition.
#[test]
fn windows_that_look_at_few_rows_keep_few() {
    let sql = "SELECT sum(r) FROM (SELECT row_number() OVER w + rank() OVER w + lag(g, 2, 0) OVER w + lead(g, 2, 0) OVER w
         + count(*) OVER (w ROWS UNBOUNDED PRECEDING) + sum(g) OVER (w ROWS 5 PRECEDING) AS r
         FROM generate_series(1, 20000) g WINDOW w AS (ORDER BY -g)) x";
    let memory = WorkingMemory { sort_bytes: 1 << 20, ..WorkingMemory::default() };
    let files = InMemory::of(memory);
    run(sql, Some(&files)).unwrap();
    let sort_alone = InMemory::of(memory);
    run(
        "SELECT sum(g) FROM (SELECT g FROM generate_series(1, 20000) g ORDER BY -g OFFSET 0) x",
        Some(&sort_alone),
    )
    .unwrap();
    assert_eq!((files.files.get(), sort_alone.files.get()), (1, 1), "the file of the sort is the only one");
}

/// One end of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    First,
    Preceding(i64),
    Current,
    Following(i64),
    Last,
}

impl End {
    fn rank(self) -> usize {
        match self {
            End::First => 0,
            End::Preceding(_) => 1,
            End::Current => 2,
            End::Following(_) => 3,
            End::Last => 4,
        }
    }

    fn text(self) -> String {
        match self {
            End::First => "UNBOUNDED PRECEDING".to_owned(),
            End::Preceding(rows) => format!("{rows} PRECEDING"),
            End::Current => "CURRENT ROW".to_owned(),
            End::Following(rows) => format!("{rows} FOLLOWING"),
            End::Last => "UNBOUNDED FOLLOWING".to_owned(),
        }
    }

    /// Distance from the current row, group or key; none: it is not bounded.
    fn distance(self) -> Option<i64> {
        match self {
            End::First | End::Last => None,
            End::Preceding(distance) => Some(-distance),
            End::Current => Some(0),
            End::Following(distance) => Some(distance),
        }
    }
}

const ENDS: [End; 7] = [
    End::First,
    End::Preceding(2),
    End::Preceding(1),
    End::Current,
    End::Following(1),
    End::Following(3),
    End::Last,
];

/// Sorted rows by definition: the key of each, and its group.
struct Model {
    keys: Vec<Option<i64>>,
    groups: Vec<i64>,
    is_descending: bool,
    nulls_first: bool,
}

impl Model {
    /// Where `other` is as seen from `row`, in the unit; none: at no distance that can be told.
    fn distance(&self, unit: &str, row: usize, other: usize) -> Option<i64> {
        match unit {
            "ROWS" => Some(other as i64 - row as i64),
            "GROUPS" => Some(self.groups[other] - self.groups[row]),
            _ => match (self.keys[row], self.keys[other]) {
                (Some(of), Some(key)) => Some(if self.is_descending { of - key } else { key - of }),
                _ => None,
            },
        }
    }

    /// Rows in the frame of a row.
    fn frame(&self, (unit, start, end, exclusion): (&str, End, End, &str), row: usize) -> Vec<usize> {
        let group = |at: usize| self.groups[at];
        let within = |of: End, other: usize, is_start: bool| {
            let Some(most) = of.distance() else { return true };
            if of == End::Current && unit == "RANGE" {
                return if is_start { group(other) >= group(row) } else { group(other) <= group(row) };
            }
            match self.distance(unit, row, other) {
                Some(distance) => {
                    if is_start {
                        distance >= most
                    } else {
                        distance <= most
                    }
                }
                None if self.keys[row].is_none() => {
                    if is_start {
                        group(other) >= group(row)
                    } else {
                        group(other) <= group(row)
                    }
                }
                None => is_start != self.nulls_first,
            }
        };
        let excluded = |other: usize| match exclusion {
            "CURRENT ROW" => other == row,
            "GROUP" => group(other) == group(row),
            "TIES" => group(other) == group(row) && other != row,
            _ => false,
        };
        let all = 0..self.keys.len();
        all.filter(|&at| within(start, at, true) && within(end, at, false) && !excluded(at)).collect()
    }
}

fn ints(value: &Value) -> Vec<usize> {
    match value {
        Value::Array(array) => array.values.iter().map(|value| int(value).expect("no NULL")).collect(),
        _ => Vec::new(),
    }
}

fn int(value: &Value) -> Option<usize> {
    match value {
        Value::Int(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// All frames over keys with ties and NULLs, beside their definition. Row numbers are the arguments, so that results say what they saw.
#[test]
fn frames_are_what_their_definition_says() {
    let keys: Vec<Option<i64>> =
        [4, -1, 2, 2, 9, -1, 3, 5, 5, 5, 8, 2].map(|key| (key >= 0).then_some(key)).into();
    for (direction, is_descending, nulls_first) in [
        ("", false, false),
        (" DESC", true, true),
        (" NULLS FIRST", false, true),
        (" DESC NULLS LAST", true, false),
    ] {
        let sort_key = |key: &Option<i64>| {
            let signed = key.map(|key| if is_descending { -key } else { key });
            (key.is_none() != nulls_first, signed)
        };
        let mut sorted = keys.clone();
        sorted.sort_by_key(sort_key);
        let mut groups = vec![0];
        for pair in sorted.windows(2) {
            groups.push(groups[groups.len() - 1] + i64::from(pair[0] != pair[1]));
        }
        let mut values = String::new();
        for (number, key) in sorted.iter().enumerate() {
            let key = key.map_or("NULL::int".to_owned(), |key| key.to_string());
            let _ = write!(values, "{}({key}, {number})", if number == 0 { "" } else { ", " });
        }
        let model = Model { keys: sorted, groups, is_descending, nulls_first };
        for unit in ["ROWS", "RANGE", "GROUPS"] {
            for (start, end) in ENDS.iter().flat_map(|start| ENDS.map(|end| (*start, end))) {
                let may_be = start.rank() <= end.rank() && start != End::Last && end != End::First;
                for exclusion in ["NO OTHERS", "CURRENT ROW", "GROUP", "TIES"].iter().filter(|_| may_be) {
                    let over = format!(
                        "(ORDER BY k{direction} {unit} BETWEEN {} AND {} EXCLUDE {exclusion})",
                        start.text(),
                        end.text()
                    );
                    let sql = format!(
                        "SELECT array_agg(n) OVER w, first_value(n) OVER w, last_value(n) OVER w, nth_value(n, 2) OVER w,
                         count(*) OVER w FROM (VALUES {values}) v (k, n) WINDOW w AS {over}"
                    );
                    for memory in [None, Some(files_of(0, 0))] {
                        for (row, found) in run(&sql, memory.as_ref()).unwrap().iter().enumerate() {
                            let frame = model.frame((unit, start, end, exclusion), row);
                            assert_eq!(ints(&found[0]), frame, "{sql}: row {row}");
                            assert_eq!(int(&found[1]), frame.first().copied(), "{sql}: row {row}");
                            assert_eq!(int(&found[2]), frame.last().copied(), "{sql}: row {row}");
                            assert_eq!(int(&found[3]), frame.get(1).copied(), "{sql}: row {row}");
                            assert_eq!(int(&found[4]), Some(frame.len()), "{sql}: row {row}");
                        }
                    }
                }
            }
        }
    }
}

/// Ranks, buckets and neighbours beside their definition.
#[test]
fn ranks_and_neighbours_are_what_their_definition_says() {
    let peers: [Range<i64>; 4] = [0..1, 1..4, 4..6, 6..7];
    let keys = peers.iter().enumerate().flat_map(|(at, rows)| rows.clone().map(move |row| (at, row)));
    let values: Vec<String> = keys.map(|(at, row)| format!("({at}, {row}, {})", row % 3 - 1)).collect();
    let sql = format!(
        "SELECT n, row_number() OVER w, rank() OVER w, dense_rank() OVER w, ntile(3) OVER w, lag(n, 2, -9) OVER w,
         lead(n) OVER w, lag(n, d, -9) OVER w, percent_rank() OVER w, cume_dist() OVER w
         FROM (VALUES {}) v (k, n, d) WINDOW w AS (ORDER BY k)",
        values.join(", ")
    );
    for memory in [None, Some(files_of(0, 0))] {
        for found in run(&sql, memory.as_ref()).unwrap() {
            let Value::Int(row) = found[0] else { panic!("{found:?}") };
            let (group, peers) = peers.iter().enumerate().find(|(_, peers)| peers.contains(&row)).unwrap();
            let other = |at: i64, otherwise| if (0..7).contains(&at) { Value::Int(at) } else { otherwise };
            let expected = [
                Value::Int(row),
                Value::Int(row + 1),
                Value::Int(peers.start + 1),
                Value::Int(group as i64 + 1),
                Value::Int([1, 1, 1, 2, 2, 3, 3][row as usize]),
                other(row - 2, Value::Int(-9)),
                other(row + 1, Value::Null),
                other(row - (row % 3 - 1), Value::Int(-9)),
                Value::Float8(peers.start as f64 / 6.0),
                Value::Float8(peers.end as f64 / 7.0),
            ];
            assert_eq!(found, expected, "row {row}");
        }
    }
}
