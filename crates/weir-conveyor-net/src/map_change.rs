//! Changes of the map of slots in a database: made by a global operation with the rows that travel, and applied elsewhere
//! (docs/internals/conveyor.md, "Moving slots").

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use postgres::types::{ToSql, Type};
use postgres::{Client, Config, Error, NoTls, Transaction};
use weir_conveyor::epochs::{ServerId, VisitNumber};
use weir_conveyor::routing::{MapChange, MapRefusal, Routing, ServerSet, Slot};
use weir_conveyor::schema::{self, OutboxRow, RowChange};

use crate::connection::Tables;
use crate::operation::{Answer, MapJob, PlacedTable, SqlError};
use crate::sequences;

const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Reads the map. None: nobody has said which one is the first.
pub(crate) fn read_map(running: &mut Transaction<'_>) -> Result<Option<Routing>, Error> {
    let rows = running.query_typed(schema::READ_MAP, &[])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let servers = |index: usize| row.get::<_, Vec<i16>>(index).into_iter().map(|server| server as ServerId);
    let map = Routing::of_owners(row.get::<_, i64>(0) as u64, servers(1).collect());
    Ok(map.map(|mut map| {
        (map.absent, map.joining) = (servers(2).collect(), servers(3).collect());
        map
    }))
}

/// The map of a database.
///
/// # Errors
/// The server's.
pub fn map_of(config: &str) -> Result<Option<Routing>, Error> {
    let mut config = Config::from_str(config)?;
    // The thread that asks has to end within seconds, too.
    config.connect_timeout(CONNECT_MAX);
    read_map(&mut config.connect(NoTls)?.transaction()?)
}

/// Says which map is the first, unless it has changed since.
///
/// # Errors
/// The server's.
pub fn set_first_map(config: &str, first: &Routing) -> Result<(), Error> {
    let mut client = Client::connect(config, NoTls)?;
    let mut running = client.transaction()?;
    write_map(&mut running, &columns_of(first))?;
    running.commit()
}

fn write_map(running: &mut Transaction<'_>, columns: &[Option<String>]) -> Result<(), Error> {
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        columns.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
    running.query_typed(schema::SET_MAP, &parameters).map(drop)
}

/// Takes the map of another server, whatever map is there.
pub(crate) fn replace_map(running: &mut Transaction<'_>, map: &Routing) -> Result<(), Error> {
    running.batch_execute("UPDATE weir_conveyor.map SET version = -1")?;
    write_map(running, &columns_of(map))
}

/// Takes the map of a state update.
pub(crate) fn set_map(running: &mut Transaction<'_>, row: &OutboxRow) -> Result<(), Error> {
    write_map(running, &row.values)
}

/// Makes a sequence follow the map that the transaction has taken.
pub(crate) fn follow(
    running: &mut Transaction<'_>,
    server: ServerId,
    (sequence, row): (&str, &OutboxRow),
) -> Result<(), Error> {
    let last = row.values.first().and_then(|value| value.as_deref()?.parse().ok());
    let last = last.expect("an outbox has the last id of a sequence");
    match read_map(running)? {
        Some(map) => reroute(running, (server, &map), (sequence, last)),
        None => Ok(()),
    }
}

/// A server without slots gives no ids.
fn reroute(
    running: &mut Transaction<'_>,
    (server, map): (ServerId, &Routing),
    (sequence, last): (&str, i64),
) -> Result<(), Error> {
    let Some(ids) = map.generated_ids(server) else { return Ok(()) };
    match sequences::rerouted(running, sequence, ids, last)? {
        Some(statement) => running.batch_execute(&statement),
        None => Ok(()),
    }
}

/// Makes room for rows that move. Returns whether they are for this server.
pub(crate) fn clear(
    running: &mut Transaction<'_>,
    (server, tables): (ServerId, &Tables),
    relation: &str,
    row: &OutboxRow,
) -> Result<bool, Error> {
    if row.values.first() != Some(&Some(server.to_string())) {
        return Ok(false);
    }
    if let Some(column) = row.columns.first() {
        let sql = tables.get(relation).and_then(|table| table.clear(column));
        let sql = sql.expect("all servers have the tables and columns that an outbox names");
        running.query_typed(&sql, &[(&array(&row.key), Type::TEXT)])?;
    }
    Ok(true)
}

/// The texts of `version`, `owners`, `absent` and `joining`.
fn columns_of(map: &Routing) -> Vec<Option<String>> {
    let servers = |servers: &mut dyn Iterator<Item = ServerId>| {
        Some(array(&servers.map(|server| Some(server.to_string())).collect::<Vec<_>>()))
    };
    let set = |set: ServerSet| servers(&mut set.iter());
    let owners = servers(&mut map.owners().iter().copied());
    vec![Some(map.version.to_string()), owners, set(map.absent), set(map.joining)]
}

/// The text of an array of names and numbers.
fn array(values: &[Option<String>]) -> String {
    let escaped = |value: &String| format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
    let texts = values.iter().map(|value| value.as_ref().map_or_else(|| "NULL".to_owned(), escaped));
    format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
}

/// Changes the map, and writes it into the outbox of the visit with the rows that travel. The caller has locked the map.
pub(crate) fn run(
    running: &mut Transaction<'_>,
    (server, tables): (ServerId, &Tables),
    job: &MapJob,
    visit: VisitNumber,
) -> Result<Answer, Error> {
    let Some(map) = read_map(running)? else {
        return Ok(refused("the first map of slots is not installed: restart the agent"));
    };
    let next = match map.changed(server, &job.change) {
        Ok(next) => next,
        Err(refusal) => return Ok(refused(said(refusal))),
    };
    let mut sent = job.tables.iter().filter(|table| is_sent(table, &job.change));
    if let Some(table) = sent.find(|table| !is_movable(tables, table)) {
        return Ok(refused(&format!(
            "rows of {} cannot move: it has no primary key, or no such column as its placement names, or, where transactions are described by \
             hand, one that is no integer",
            table.relation
        )));
    }
    running.batch_execute(&schema::print_settings())?;
    let columns = columns_of(&next);
    write_map(running, &columns)?;
    let names = ["version", "owners", "absent", "joining"].map(|name| Some(name.to_owned()));
    let row = OutboxRow { change: RowChange::Map, key: Vec::new(), columns: Vec::new(), values: columns };
    send_row(running, visit, schema::MAP, &row, &names)?;
    send_sequences(running, (server, &next), job, visit)?;
    send_rows(running, tables, job, visit)?;
    Ok(Ok(Vec::new()))
}

/// Returns whether rows of the table travel with the change: those without a slot have a reason to if their server leaves.
fn is_sent(placed: &PlacedTable, change: &MapChange) -> bool {
    match change {
        MapChange::Leave { .. } => true,
        MapChange::Move(_) => placed.column.is_some(),
        MapChange::Add(_) | MapChange::Joined => false,
    }
}

fn is_movable(tables: &Tables, placed: &PlacedTable) -> bool {
    let Some(table) = tables.get(&placed.relation) else { return false };
    let Some(name) = &placed.column else { return true };
    let column = table.columns.iter().find(|column| column.name == *name);
    column.is_some_and(|column| column.is_integer() || !placed.is_by_hand)
}

/// Writes the last id of each sequence, and makes those here follow the map.
fn send_sequences(
    running: &mut Transaction<'_>,
    place: (ServerId, &Routing),
    job: &MapJob,
    visit: VisitNumber,
) -> Result<(), Error> {
    for sequence in job.sequences.iter().filter(|_| job.change.moves().is_some()) {
        let Some(last) = sequences::last_id(running, sequence)? else { continue };
        let values = vec![Some(last.to_string())];
        let row = OutboxRow { change: RowChange::Sequence, key: Vec::new(), columns: Vec::new(), values };
        send_row(running, visit, sequence, &row, &[Some("last".to_owned())])?;
        reroute(running, place, (sequence, last))?;
    }
    Ok(())
}

/// Writes the rows of each table, by their new owner.
fn send_rows(
    running: &mut Transaction<'_>,
    tables: &Tables,
    job: &MapJob,
    visit: VisitNumber,
) -> Result<(), Error> {
    let mut slots: BTreeMap<ServerId, Vec<Slot>> = BTreeMap::new();
    for (slot, to) in job.change.moves().into_iter().flatten() {
        slots.entry(*to).or_default().push(*slot);
    }
    for placed in &job.tables {
        match (&placed.column, &job.change) {
            (Some(_), _) => {
                for (to, slots) in &slots {
                    send_table(running, tables, placed, (visit, *to, slots))?;
                }
            }
            (None, MapChange::Leave { heir, .. }) => {
                send_table(running, tables, placed, (visit, *heir, &[]))?;
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Writes the rows of a table that go to one server.
fn send_table(
    running: &mut Transaction<'_>,
    tables: &Tables,
    placed: &PlacedTable,
    (visit, to, slots): (VisitNumber, ServerId, &[Slot]),
) -> Result<(), Error> {
    let Some(table) = tables.get(&placed.relation) else { return Ok(()) };
    let columns: Vec<String> = placed.column.iter().cloned().collect();
    let key: Vec<_> = slots.iter().map(|slot| Some(slot.to_string())).collect();
    let names: Vec<_> = columns.iter().cloned().map(Some).collect();
    let slots = array(&key);
    let row = OutboxRow { change: RowChange::Clear, key, columns, values: vec![Some(to.to_string())] };
    send_row(running, visit, &placed.relation, &row, &names)?;
    let sql = table.send(visit, placed.column.as_deref()).expect("the column was looked up");
    running.query_typed(&sql, &[(&slots, Type::TEXT)]).map(drop)
}

fn send_row(
    running: &mut Transaction<'_>,
    visit: VisitNumber,
    relation: &str,
    row: &OutboxRow,
    columns: &[Option<String>],
) -> Result<(), Error> {
    let texts = [
        relation.to_owned(),
        row.change.letter().to_string(),
        array(&row.key),
        array(columns),
        array(&row.values),
    ];
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        texts.iter().map(|text| (text as &(dyn ToSql + Sync), Type::TEXT)).collect();
    running.query_typed(&schema::send_row(visit), &parameters).map(drop)
}

fn refused(message: &str) -> Answer {
    Err(SqlError { sqlstate: "55000".to_owned(), message: message.to_owned() })
}

fn said(refusal: MapRefusal) -> &'static str {
    match refusal {
        MapRefusal::NotOwner => "a slot belongs to another server by now",
        MapRefusal::NotJoined => "a server that is to own slots is no member, or has not joined yet",
        MapRefusal::KeepsSlots => {
            "a server that leaves gives all its slots away: there is nobody to take them"
        }
        MapRefusal::IsMember => "the server is a member already",
        MapRefusal::Unknown => "there is no such server",
    }
}
