//! The steps of a plan as the statements of one batch, and the results of the batch as those of the work.

use std::collections::BTreeMap;
use std::sync::Arc;

use postgres::types::Type;
use weir_conveyor::epochs::{ServerId, VisitNumber};
use weir_conveyor::plan::{self, Isolation, Step};
use weir_conveyor::schema::{self, OutboxRow, RowChange, Sql};
use weir_conveyor::token::Visit;
use weir_conveyor::work::{DatabaseState, EpochRow, Work};

use crate::batch::BatchRow;
use crate::connection::Tables;
use crate::operation::{Job, SqlDone, SqlWork, StateUpdate};

/// The statements of a transaction. None: they depend on each other's results, or rows move with the map of slots.
pub(crate) fn statements(
    work: &SqlWork,
    transaction: &plan::Transaction<Job, StateUpdate>,
    tables: &Tables,
) -> Option<Vec<Sql>> {
    if transaction.isolation != Isolation::Serializable {
        return None;
    }
    let mut all = Vec::new();
    for step in &transaction.steps {
        match step {
            Step::ReadState => {}
            Step::Apply(update) => {
                for (relation, row) in &update.rows {
                    all.extend(of_row(tables, relation, row)?);
                }
            }
            Step::MovePosition { after, to } => {
                all.push(of_numbers(schema::MOVE_POSITION, [*after, *to]));
            }
            Step::Adopt(epoch) => all.push(of_numbers(schema::ADOPT, [*epoch])),
            Step::Fence(epoch, visit) => {
                all.push(of_numbers(schema::FENCE, [*epoch, *visit]));
            }
            Step::Close(license) => {
                all.push(of_numbers(schema::CLOSE, [license.epoch, license.visit]));
            }
            Step::ReadOutbox(visit) => all.push(of_numbers(schema::READ_OUTBOX, [*visit])),
            Step::DeleteOutbox { up_to } => {
                all.push(of_numbers(schema::DELETE_OUTBOX, [*up_to]));
            }
            _ => return None,
        }
    }
    if !matches!(work, Work::Read { .. } | Work::Truncate { .. }) {
        all.push(of_numbers(schema::READ_STATE, []));
    }
    Some(all)
}

/// A statement of the protocol, whose parameters are numbers.
fn of_numbers<const N: usize>(text: &str, numbers: [u64; N]) -> Sql {
    Sql { text: text.to_owned(), parameters: numbers.map(|number| Some(number.to_string())).into() }
}

fn of_row(tables: &Tables, relation: &str, row: &OutboxRow) -> Option<Vec<Sql>> {
    if !matches!(row.change, RowChange::Insert | RowChange::Update | RowChange::Delete) {
        return None;
    }
    let sql = tables.get(relation).and_then(|table| table.apply(row));
    Some(sql.expect("all servers have the tables and columns that an outbox names"))
}

/// The result of the work, by the rows of its last statement.
pub(crate) fn done(work: &SqlWork, rows: &[BatchRow]) -> SqlDone {
    match work {
        Work::Truncate { .. } => SqlDone::Truncated,
        Work::Read { visit, .. } => SqlDone::Contents(Arc::new(visit_of(*visit, rows))),
        Work::Adopt { .. } | Work::Fence { .. } => SqlDone::Row(state(rows).row),
        _ => SqlDone::State(state(rows)),
    }
}

/// Letter, key, columns and values of a row of an outbox.
type OutboxColumns = (i8, Vec<Option<String>>, Vec<String>, Vec<Option<String>>);

/// Rows of an outbox, by the transaction that has written them.
#[derive(Default)]
struct OutboxRows {
    count: usize,
    updates: BTreeMap<String, (usize, StateUpdate)>,
}

impl OutboxRows {
    /// Adds the next row.
    fn add(&mut self, transaction: String, relation: String, columns: OutboxColumns) {
        let (letter, key, columns, values) = columns;
        let change = RowChange::of_letter(char::from(letter as u8));
        let change = change.expect("an outbox has the letters of this version");
        let empty = || (0, StateUpdate { rows: Vec::new() });
        let (last, update) = self.updates.entry(transaction).or_insert_with(empty);
        *last = self.count;
        self.count += 1;
        update.rows.push((relation, OutboxRow { change, key, columns, values }));
    }

    /// State updates in the order of their last numbers. Transactions that write one row do so one after the other, and each has all its numbers
    /// behind those of the one before: so that is the order of the row's versions.
    fn updates(self) -> Vec<StateUpdate> {
        let mut updates: Vec<_> = self.updates.into_values().collect();
        updates.sort_by_key(|(last, _)| *last);
        updates.into_iter().map(|(_, update)| update).collect()
    }
}

fn visit_of(number: VisitNumber, rows: &[BatchRow]) -> Visit<StateUpdate> {
    let mut outbox = OutboxRows::default();
    for row in rows {
        let letter: i8 = row.get(2, &Type::CHAR);
        let array = |column| row.get(column, &Type::TEXT_ARRAY);
        let columns = row.get(4, &Type::TEXT_ARRAY);
        let [transaction, relation] = [0, 1].map(|column| row.get(column, &Type::TEXT));
        outbox.add(transaction, relation, (letter, array(3), columns, array(5)));
    }
    Visit { number, updates: outbox.updates() }
}

fn state(rows: &[BatchRow]) -> DatabaseState {
    let row = rows.first().expect("the state is one row");
    let number = |column| row.get::<i64>(column, &Type::INT8) as u64;
    let absent: Vec<i16> = row.get(5, &Type::INT2_ARRAY);
    DatabaseState {
        row: EpochRow { epoch: number(0), closed: number(1), closed_in: number(2) },
        applied: number(3),
        map: number(4),
        absent: absent.into_iter().map(|server| server as ServerId).collect(),
    }
}
