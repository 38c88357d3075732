//! The same statements on PostgreSQL 15 and on Weir's binder and executor: the same column types, rows and
//! SQLSTATEs. `testdata/sql/expressions.sql` holds the statements, one a line; `random.rs` makes more.

mod random;
mod regexes;
mod rows;

use std::fmt::Write;
use std::path::PathBuf;

use postgres::{Client, NoTls, SimpleQueryMessage};
use weir_bench::postgres::Server;
use weir_sql::bound::Statement;
use weir_sql::{Application, Sources};
use weir_txn::exec::{CompiledQuery, Cx, Frame, SlotAllocator};
use weir_txn::storage::Schema;
use weir_types::text::{parse_text, to_text};
use weir_types::{SqlType, Value};

use rows::{MemoryRows, NoEnvironment};

/// Answer to a statement: columns and rows in text, or the SQLSTATE.
#[derive(Debug, PartialEq)]
enum Answer {
    Rows { types: Vec<String>, rows: Vec<Vec<Option<String>>> },
    Error(String),
}

struct Both {
    _server: Server,
    client: Client,
    application: Application,
    rows: MemoryRows,
}

fn testdata(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sql").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Both {
    fn start() -> Both {
        let server = Server::start().expect("PostgreSQL starts");
        let mut client = Client::connect(&server.connection_string(), NoTls).expect("it can be reached");
        let schema = testdata("tables.sql");
        client.batch_execute(&schema).expect("PostgreSQL takes the schema");
        client.batch_execute(&testdata("rows.sql")).expect("PostgreSQL takes the rows");
        let mut sources = Sources::default();
        sources.add("tables.sql", schema);
        let application = weir_sql::load(sources).unwrap_or_else(|(sources, errors)| {
            let places: Vec<_> =
                errors.iter().map(|e| format!("{} {}", sources.place(e.span), e.message)).collect();
            panic!("the schema loads: {places:?}")
        });
        let mut rows = MemoryRows::new(Schema::new(&application.catalog));
        for table in &application.catalog.tables {
            for row in text_rows(&mut client, &format!("SELECT * FROM {}", table.name)).expect("rows") {
                let values = row.into_iter().zip(&table.columns).map(|(text, column)| match text {
                    None => Value::Null,
                    Some(text) => parse_text(&text, &column.ty).expect("PostgreSQL's text is valid"),
                });
                rows.insert(table.id, values.collect());
            }
        }
        Both { _server: server, client, application, rows }
    }

    fn postgres(&mut self, sql: &str, ordered: bool) -> Answer {
        let types = match self.client.prepare(sql) {
            Ok(statement) => statement.columns().iter().map(|c| c.type_().name().to_string()).collect(),
            Err(error) => return Answer::Error(state_of(&error)),
        };
        match text_rows(&mut self.client, sql) {
            Ok(rows) => Answer::Rows { types, rows: in_order(rows, ordered) },
            Err(error) => Answer::Error(state_of(&error)),
        }
    }

    fn weir(&self, sql: &str) -> (Answer, bool, String) {
        let bound = weir_sql::bind_statement(&self.application.catalog, sql, None);
        let query = match bound {
            Ok((Statement::Query(query), _)) => query,
            Ok(_) => panic!("only queries are compared: {sql}"),
            Err(error) => return (Answer::Error(error.state.to_string()), false, error.message),
        };
        let ordered = !query.order_by.is_empty();
        let mut slots = SlotAllocator::new(0);
        slots.begin_query(&query);
        let compiled =
            match CompiledQuery::compile(&query, weir_txn::storage::Rows::schema(&self.rows), &mut slots) {
                Ok(compiled) => compiled,
                Err(error) => return (Answer::Error(error.state().to_string()), ordered, error.to_string()),
            };
        let mut frame = Frame::new(&slots);
        let mut environment = NoEnvironment;
        let mut cx = Cx {
            frame: &mut frame,
            rows: &self.rows,
            transaction_time: 0.into(),
            environment: &mut environment,
        };
        let mut rows = Vec::new();
        let types: Vec<SqlType> = query.columns.iter().map(|column| column.ty.clone()).collect();
        let outcome = compiled.run(&mut cx, &mut |_, row| {
            let texts =
                row.iter().zip(&types).map(|(value, ty)| (!value.is_null()).then(|| to_text(value, ty)));
            rows.push(texts.collect());
            Ok(std::ops::ControlFlow::Continue(()))
        });
        match outcome {
            Ok(()) => {
                let types = types.iter().map(postgres_type).collect();
                (Answer::Rows { types, rows: in_order(rows, ordered) }, ordered, String::new())
            }
            Err(error) => (Answer::Error(error.state().to_string()), ordered, error.to_string()),
        }
    }

    /// Difference of the answers, in words; none if they agree.
    fn compare(&mut self, sql: &str) -> Option<String> {
        let (weir, ordered, message) = self.weir(sql);
        let postgres = self.postgres(sql, ordered);
        if weir == postgres {
            return None;
        }
        Some(format!("{sql}\n  PostgreSQL {postgres:?}\n  Weir       {weir:?} {message}\n"))
    }
}

fn in_order(mut rows: Vec<Vec<Option<String>>>, ordered: bool) -> Vec<Vec<Option<String>>> {
    if !ordered {
        rows.sort();
    }
    rows
}

fn state_of(error: &postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_string())
}

fn text_rows(client: &mut Client, sql: &str) -> Result<Vec<Vec<Option<String>>>, postgres::Error> {
    let messages = client.simple_query(sql)?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|column| row.get(column).map(str::to_string)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
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

#[test]
fn statements_answer_as_postgresql_answers() {
    let mut both = Both::start();
    let statements = testdata("expressions.sql");
    let mut differences = String::new();
    let (mut count, mut different) = (0, 0);
    for line in statements.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
        count += 1;
        if let Some(difference) = both.compare(line) {
            different += 1;
            let _ = write!(differences, "{difference}");
        }
    }
    println!("{} answered alike", count - different);
    assert!(different == 0, "{different} of {count} statements differ:\n{differences}");
    assert!(count > 400, "several hundred statements are promised");
}

#[test]
fn random_queries_answer_as_postgresql_answers() {
    let mut both = Both::start();
    let mut differences = String::new();
    let mut different = 0;
    for seed in 0..600 {
        let sql = random::query(seed);
        if let Some(difference) = both.compare(&sql) {
            different += 1;
            let _ = write!(differences, "seed {seed}: {difference}");
        }
    }
    assert!(different == 0, "{different} of the random queries differ:\n{differences}");
}
