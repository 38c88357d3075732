//! The application of the world: rows, and operations over them whose answers depend on everything that they read.
//!
//! Stock is written by global operations and read by all. Carts belong to a key, the partitioning parameter: operations of that key alone read
//! and write them. Log entries are written by commutative operations and read by nobody. So the classes are those of the paper's §3.2.

use std::collections::BTreeMap;

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::Placement;
use weir_conveyor::routing::{MapChange, MapVersion, Routing, RoutingValue, ServerSet, Slot};

use crate::chance::Chance;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    Stock(u8),
    Cart { key: u8, line: u8 },
    Log(Number),
}

impl Row {
    /// The slot whose owner alone has the row as it is. None: another rule holds.
    pub fn slot(self) -> Option<Slot> {
        match self {
            Row::Cart { key, .. } => Some(slot(key)),
            Row::Stock(_) | Row::Log(_) => None,
        }
    }
}

fn slot(key: u8) -> Slot {
    RoutingValue::Integer(i64::from(key)).slot()
}

/// Number of an operation; 0: the initial state.
pub type Number = u64;

/// The value of a row, and the operation that has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// None: deleted.
    pub value: Option<u64>,
    pub writer: Number,
}

/// A statement. A value that it writes is a function of all that its operation has read before, and of the value that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Select(Row),
    /// UPDATE: does nothing if the row is missing.
    Update(Row),
    /// INSERT … ON CONFLICT DO UPDATE.
    Upsert(Row),
    Delete(Row),
    /// Reads the row, which goes to another server as it is.
    Take(Row),
}

impl Statement {
    pub fn row(self) -> Row {
        let (Statement::Select(row)
        | Statement::Update(row)
        | Statement::Upsert(row)
        | Statement::Delete(row)
        | Statement::Take(row)) = self;
        row
    }

    /// The value that the statement leaves in its row, given the one that it finds. None: it writes nothing.
    pub fn write(self, found: Option<u64>, read: &[u64]) -> Option<Option<u64>> {
        match (self, found) {
            (Statement::Select(_) | Statement::Take(_), _)
            | (Statement::Update(_) | Statement::Delete(_), None) => None,
            (Statement::Delete(_), Some(_)) => Some(None),
            (Statement::Update(_) | Statement::Upsert(_), found) => Some(Some(mixed(found, read))),
        }
    }
}

/// What an operation has read, with what its statements have found.
pub type Answer = Vec<u64>;

/// What a statement tells of what it finds.
pub fn told(found: Option<u64>) -> u64 {
    found.unwrap_or(0)
}

fn mixed(found: Option<u64>, read: &[u64]) -> u64 {
    let all = read.iter().copied().chain([told(found)]);
    // FNV-1a over words, so that every value says where it comes from.
    all.fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub number: Number,
    /// The partitioning parameter.
    pub key: u8,
    pub placement: Placement,
    /// The map that says so.
    pub map: MapVersion,
    pub statements: Vec<Statement>,
    /// The map changes with it.
    pub change: Option<MapChange>,
}

impl Operation {
    /// The operation as it is placed under another map.
    pub fn placed(self, map: &Routing) -> Operation {
        let server = map.server(&RoutingValue::Integer(i64::from(self.key)));
        let placement = match self.placement {
            Placement::Commutative => Placement::Commutative,
            Placement::Local(_) => Placement::Local(server),
            Placement::Global(_) => Placement::Global(server),
        };
        Operation { placement, map: map.version, ..self }
    }

    /// The server to which the operation moves the row.
    pub fn moves_to(&self, row: Row) -> Option<ServerId> {
        self.change.as_ref()?.moves()?.get(&row.slot()?).copied()
    }
}

/// What a statement has changed in a row: a state update is made of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub row: Row,
    pub cell: Cell,
    /// The row was missing, so that it was inserted.
    pub is_insert: bool,
}

/// A state update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    Columns(Vec<Change>),
    /// The next map, and the rows that move, which take the place of what their new owners have.
    Map(Box<Routing>, Vec<(ServerId, Change)>),
    /// Only a planted bug sends statements.
    Statements(Operation),
}

/// The size of the application.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub servers: u16,
    /// Number of servers that are no members at first: the last ones.
    pub spares: u16,
    pub stocks: u8,
    pub keys: u8,
    pub lines: u8,
    /// Shares of operations, per mille; the others are local.
    pub global: u32,
    pub commutative: u32,
}

impl Shape {
    /// The first map.
    pub fn map(&self) -> Routing {
        let members: Vec<ServerId> = (0..self.servers - self.spares).collect();
        let absent: ServerSet = (self.servers - self.spares..self.servers).collect();
        let mut map = Routing::even(&members);
        map.absent = absent;
        map
    }

    /// The operation of that server that changes the map.
    pub fn change(&self, (number, by): (Number, ServerId), map: &Routing, change: MapChange) -> Operation {
        let moves = |key: &u8| change.moves().is_some_and(|moves| moves.contains_key(&slot(*key)));
        let lines = |key| (0..self.lines).map(move |line| Statement::Take(Row::Cart { key, line }));
        let statements = (0..self.keys).filter(moves).flat_map(lines).collect();
        let (placement, map) = (Placement::Global(by), map.version);
        Operation { number, key: 0, placement, map, statements, change: Some(change) }
    }

    /// The slots of keys that a server has.
    pub fn slots_of(&self, server: ServerId, map: &Routing) -> Vec<Slot> {
        (0..self.keys).map(slot).filter(|slot| map.owner(*slot) == server).collect()
    }

    /// The first state of every server.
    pub fn initial(&self) -> BTreeMap<Row, Cell> {
        (0..self.stocks)
            .map(|stock| (Row::Stock(stock), Cell { value: Some(u64::from(stock) + 1), writer: 0 }))
            .collect()
    }

    pub fn operation(&self, number: Number, map: &Routing, chance: &mut Chance) -> Operation {
        let key = chance.below(u64::from(self.keys)) as u8;
        let server = map.owner(slot(key));
        let kind = chance.below(1000) as u32;
        let (placement, statements) = if kind < self.global {
            (Placement::Global(server), self.global(key, chance))
        } else if kind < self.global + self.commutative {
            (Placement::Commutative, vec![Statement::Upsert(Row::Log(number))])
        } else {
            (Placement::Local(server), self.local(key, chance))
        };
        Operation { number, key, placement, map: map.version, statements, change: None }
    }

    fn stock(&self, chance: &mut Chance) -> Row {
        Row::Stock(chance.below(u64::from(self.stocks)) as u8)
    }

    fn cart(&self, key: u8, chance: &mut Chance) -> Row {
        Row::Cart { key, line: chance.below(u64::from(self.lines)) as u8 }
    }

    fn global(&self, key: u8, chance: &mut Chance) -> Vec<Statement> {
        let some = |chance: &mut Chance| match chance.below(6) {
            0 | 1 => Statement::Select(self.stock(chance)),
            2 => Statement::Select(self.cart(key, chance)),
            3 => Statement::Update(self.cart(key, chance)),
            4 => Statement::Delete(self.cart(key, chance)),
            _ => Statement::Update(self.stock(chance)),
        };
        let mut statements: Vec<_> = (0..chance.below(4)).map(|_| some(chance)).collect();
        statements.push(Statement::Update(self.stock(chance)));
        statements
    }

    fn local(&self, key: u8, chance: &mut Chance) -> Vec<Statement> {
        let reads_only = chance.per_mille(400);
        let some = |chance: &mut Chance| match (chance.below(5), reads_only) {
            (0 | 1, _) => Statement::Select(self.stock(chance)),
            (2, _) | (_, true) => Statement::Select(self.cart(key, chance)),
            (3, false) => Statement::Upsert(self.cart(key, chance)),
            (_, false) => Statement::Update(self.cart(key, chance)),
        };
        (0..chance.between(1, 4)).map(|_| some(chance)).collect()
    }
}

/// Runs an operation alone on a state.
pub fn run_serially(operation: &Operation, state: &mut BTreeMap<Row, u64>) -> Answer {
    let mut read = Vec::new();
    for statement in &operation.statements {
        let found = state.get(&statement.row()).copied();
        let write = statement.write(found, &read);
        read.push(told(found));
        match write {
            Some(Some(value)) => {
                state.insert(statement.row(), value);
            }
            Some(None) => {
                state.remove(&statement.row());
            }
            None => {}
        }
    }
    read
}
