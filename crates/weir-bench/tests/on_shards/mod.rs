//! Statements as clients send them, on shards in this process: queries are gathered, writes are calls of their text.

use std::sync::Arc;

use postgres::Client;
use weir_sim::Simulation;
use weir_sql::bound::{OutputColumn, Query, Statement};
use weir_sql::remote_read::RemoteRead;
use weir_sql::sub_statements::PieceParameter;
use weir_sql::{Application, BoundText, ParsedText, Sources, Text, bind_text, lift_constants};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::NoFaults;
use weir_txn::message;
use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, Event, FetchedRead};
use weir_txn::shard::Node;
use weir_types::memory::WorkingMemory;
use weir_types::text::{parse_text, to_text};
use weir_types::{SqlError, SqlState, SqlType, Value};

pub type Row = Vec<Option<String>>;

/// Answer to a statement: names and types of its columns, rows in text and their number (or the number of rows written); or the SQLSTATE,
/// with a message for the report of a failure.
#[derive(Clone, Debug)]
pub enum Answer {
    Rows { columns: Vec<(String, String)>, rows: Vec<Row>, count: u64 },
    Error(String, String),
}

impl Answer {
    pub fn in_order(mut self, ordered: bool) -> Answer {
        if let (Answer::Rows { rows, .. }, false) = (&mut self, ordered) {
            rows.sort();
        }
        self
    }

    pub fn is_like(&self, other: &Answer) -> bool {
        match (self, other) {
            (Answer::Error(one, _), Answer::Error(other, _)) => one == other,
            (
                Answer::Rows { columns, rows, count },
                Answer::Rows { columns: others, rows: other_rows, count: other_count },
            ) => columns == others && rows == other_rows && count == other_count,
            _ => false,
        }
    }

    fn of(error: &SqlError) -> Answer {
        Answer::Error(error.state().to_string(), error.to_string())
    }
}

pub struct OnShards {
    application: Application,
    program: Arc<Program>,
    simulation: Simulation,
    /// Number of transactions that have been begun.
    transactions: u64,
    is_in_transaction: bool,
    memory: WorkingMemory,
}

impl OnShards {
    /// With the tables of `prelude` and the rows that `filled` has in them.
    pub fn start(prelude: &str, shards: u16, filled: &mut Client) -> OnShards {
        let schema = prelude.split_once("\n-- rows\n").map_or(prelude, |(schema, _)| schema);
        let mut sources = Sources::default();
        sources.add("schema.sql", schema);
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let plan = weir_analysis::analyze(&application).plan;
        let program = Program::compile(&application, &plan, shards).expect("the tables compile");
        let program = Arc::new(program.with_texts(&application, &plan));
        let mut simulation = Simulation::new(&program, 1, 1, 1, NoFaults);
        for table in &application.catalog.tables {
            let messages =
                filled.simple_query(&format!("SELECT * FROM {}", table.name)).expect("the table is there");
            for message in messages {
                let postgres::SimpleQueryMessage::Row(row) = message else { continue };
                let value = |(at, column): (usize, &weir_sql::catalog::Column)| match row.get(at) {
                    None => Value::Null,
                    Some(text) => parse_text(text, &column.ty).expect("PostgreSQL's text is a value"),
                };
                let values: Vec<Value> = table.columns.iter().enumerate().map(value).collect();
                let load = Node::load_row(&mut simulation.nodes, &program, table.id, &values);
                load.expect("the row fits");
            }
        }
        let memory = WorkingMemory::default();
        OnShards { application, program, simulation, transactions: 0, is_in_transaction: false, memory }
    }

    /// From now on every statement that looks at rows runs beside the steps of its shards, pauses at rows, and has no working memory: what
    /// it sorts or hashes is written to temporary files.
    pub fn pause_at_rows(&mut self) {
        self.simulation.pause_at_rows();
        self.memory = WorkingMemory { sort_bytes: 0, hash_bytes: 0, files_bytes_max: None };
    }

    /// Number of statements that have paused at rows.
    pub fn paused(&self) -> u64 {
        self.simulation.worked
    }

    /// Begins a transaction: the statements that follow belong to it.
    pub fn begin(&mut self) {
        self.transactions += 1;
        self.is_in_transaction = true;
    }

    pub fn roll_back(&mut self) -> Result<(), SqlError> {
        self.is_in_transaction = false;
        match self.simulation.ask(Begin::Within(self.transactions, Order::RollBack)) {
            Event::Answered(result) => result.map(|_| ()),
            other => panic!("an answer to something else: {other:?}"),
        }
    }

    fn ask(&mut self, order: Order) -> Event {
        let begin = match order {
            order if self.is_in_transaction => Begin::Within(self.transactions, order),
            Order::Call(call) => Begin::Call(call),
            Order::Read(gather, values) => Begin::Read(gather, values),
            other => panic!("only in a transaction: {other:?}"),
        };
        self.simulation.ask(begin)
    }

    /// The answer, and whether its rows have an order.
    pub fn run(&mut self, sql: &str) -> (Answer, bool) {
        let statement = match bind_text(&self.application.catalog, &self.application.procedures, sql, &[]) {
            Ok((BoundText::Statement(statement), _)) => *statement,
            Ok(_) => return (Answer::Error("a call".to_owned(), String::new()), false),
            Err(wrong) => {
                let words = format!("{} ({})", wrong.message, wrong.hint.unwrap_or_default());
                return (Answer::Error(wrong.state.to_string(), words), false);
            }
        };
        match &statement {
            Statement::Query(query) => {
                let ordered = !query.order_by.is_empty();
                let rows =
                    self.query(sql, query, &statement).and_then(|(gather, values)| self.read(gather, values));
                let columns = statement.columns();
                (
                    rows.map_or_else(
                        |error| Answer::of(&error),
                        |rows| given(&columns, &rows, rows.len() as u64),
                    ),
                    ordered,
                )
            }
            _ => (self.write(sql, &statement).unwrap_or_else(|error| Answer::of(&error)), false),
        }
    }

    /// As a client prepares it.
    fn query(
        &self,
        sql: &str,
        query: &Query,
        statement: &Statement,
    ) -> Result<(Arc<Gather>, Vec<Value>), SqlError> {
        // A statement that cannot be run is refused before constants are looked for.
        Gather::compile(query, 0, &self.program)?;
        let parsed = ParsedText::of(sql).map_err(|wrong| SqlError::new(wrong.state, wrong.message))?;
        let lifted = lift_constants(&self.application.catalog, &parsed, statement, &[]);
        if let Some(lifted) = lifted
            && let Ok(gather) = self.program.query(&lifted.text)
        {
            return Ok((gather, lifted.values));
        }
        let own = Text { sql: sql.to_owned(), types: Vec::new() };
        self.program.query(&own).map(|gather| (gather, Vec::new())).map_err(|wrong| wrong.error)
    }

    fn read(&mut self, gather: Arc<Gather>, values: Vec<Value>) -> Result<Vec<Vec<Value>>, SqlError> {
        let gather = Arc::new((*gather).clone().with_memory(self.memory));
        match self.ask(Order::Read(gather, values)) {
            Event::ReadDone { result, .. } => result.and_then(FetchedRead::rows),
            other => panic!("an answer to something else: {other:?}"),
        }
    }

    fn write(&mut self, sql: &str, statement: &Statement) -> Result<Answer, SqlError> {
        let (text, args) = match self.text(sql, statement, &[]) {
            Ok(text) => text,
            Err(error) => match self.apart(sql, statement)? {
                Some(apart) => apart,
                None => return Err(error),
            },
        };
        let call = message::Call {
            callee: message::Callee::Text(Arc::new(text)),
            args,
            transaction_time: 0.into(),
            schema_version: 0,
            memory: self.memory,
        };
        let Event::Answered(result) = self.ask(Order::Call(call)) else {
            panic!("{sql}: an answer to something else")
        };
        let output = result?;
        let Some(Value::Int(count)) = output.values.first() else { panic!("{sql}: no count") };
        Ok(given(&statement.columns(), &output.rows, *count as u64))
    }

    /// Text to run, and the values of its parameters after those of these types.
    fn text(
        &self,
        sql: &str,
        statement: &Statement,
        types: &[SqlType],
    ) -> Result<(Text, Vec<Value>), SqlError> {
        let refusal = |text: &Text| match self.program.text(text) {
            Ok(compiled) => match &compiled.procedure.participants.unsupported {
                Some(why) if self.program.shards > 1 => {
                    Some(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, why.clone()))
                }
                _ => None,
            },
            Err(wrong) => Some(wrong.error),
        };
        let parsed = ParsedText::of(sql).map_err(|wrong| SqlError::new(wrong.state, wrong.message))?;
        let lifted = lift_constants(&self.application.catalog, &parsed, statement, types);
        if let Some(lifted) = lifted.filter(|lifted| refusal(&lifted.text).is_none()) {
            return Ok((lifted.text, lifted.values));
        }
        let own = Text { sql: sql.to_owned(), types: types.to_vec() };
        refusal(&own).map_or_else(|| Ok((own.clone(), Vec::new())), Err)
    }

    /// Reads the remote rows first, and passes them to the statement.
    fn apart(&mut self, sql: &str, statement: &Statement) -> Result<Option<(Text, Vec<Value>)>, SqlError> {
        let is_partitioned = |table| self.program.partition(table).is_some();
        let parsed = ParsedText::of(sql).map_err(|wrong| SqlError::new(wrong.state, wrong.message))?;
        let apart = RemoteRead::of(&self.application.catalog, &parsed, (statement, &[]), &is_partitioned);
        let Some(RemoteRead { read, write, parameters }) = apart else { return Ok(None) };
        let bind = |sql: &str, types: &[SqlType]| {
            let (bound, _) = bind_text(&self.application.catalog, &[], sql, types)
                .map_err(|wrong| SqlError::new(wrong.state, wrong.message))?;
            match bound {
                BoundText::Statement(statement) => Ok(*statement),
                BoundText::Call { .. } => panic!("a call: {sql}"),
            }
        };
        let types: Vec<SqlType> = parameters.iter().map(|(_, ty)| ty.clone()).collect();
        let (reading, writing) = (bind(&read, &[])?, bind(&write, &types)?);
        let Statement::Query(query) = &reading else { panic!("{read} reads") };
        let (text, constants) = self.text(&write, &writing, &types)?;
        let (gather, values) = self.query(&read, query, &reading)?;
        let rows = self.read(gather, values)?;
        let value = |(parameter, ty): &(PieceParameter, SqlType)| {
            let (PieceParameter::Column { column, .. }, SqlType::Array(element)) = (parameter, ty) else {
                panic!("{write} is given columns")
            };
            let of = &query.columns[*column].ty;
            let values = rows.iter().map(|row| match (&row[*column], of) {
                (value, SqlType::Array(_)) if !value.is_null() => Value::text(to_text(value, of)),
                (value, _) => value.clone(),
            });
            Value::array((**element).clone(), values.collect())
        };
        let args = parameters.iter().map(value).chain(constants).collect();
        Ok(Some((text, args)))
    }
}

fn given(columns: &[OutputColumn], rows: &[Vec<Value>], count: u64) -> Answer {
    let text =
        |(value, column): (&Value, &OutputColumn)| (!value.is_null()).then(|| to_text(value, &column.ty));
    let rows = rows.iter().map(|row| row.iter().zip(columns).map(text).collect()).collect();
    let columns = columns.iter().map(|column| (column.name.clone(), postgres_type(&column.ty))).collect();
    Answer::Rows { columns, rows, count }
}

/// As `pg_type.typname` has it.
fn postgres_type(ty: &SqlType) -> String {
    match ty {
        SqlType::Bool => "bool".into(),
        SqlType::Int2 => "int2".into(),
        SqlType::Int4 => "int4".into(),
        SqlType::Int8 => "int8".into(),
        SqlType::Numeric(_) => "numeric".into(),
        SqlType::Float4 => "float4".into(),
        SqlType::Float8 => "float8".into(),
        SqlType::Varchar(_) => "varchar".into(),
        SqlType::Char(_) => "bpchar".into(),
        SqlType::Timestamp => "timestamp".into(),
        SqlType::Timestamptz => "timestamptz".into(),
        SqlType::Array(element) => format!("_{}", postgres_type(element)),
        other => other.to_string(),
    }
}
