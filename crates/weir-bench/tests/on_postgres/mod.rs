//! An example on a private PostgreSQL 15: its files as they are, and the rows of its workload.

use std::io::Write;
use std::sync::Arc;

use postgres::{Client, NoTls};
use weir_bench::postgres::Server;
use weir_bench::{Call, Workload};
use weir_sql::bound::ParameterMode;
use weir_sql::{Application, Sources};
use weir_types::Value;
use weir_types::text::to_text;

pub struct OnPostgres {
    pub client: Client,
    pub application: Application,
    pub workload: Arc<Workload>,
    /// Dropped last, which stops it.
    _server: Server,
}

/// Seed of the rows and the calls.
pub const SEED: u64 = 11;

impl OnPostgres {
    /// Loads the example's files as they are, and its rows.
    pub fn start(name: &str, overrides: &[(&str, &str)]) -> OnPostgres {
        let server = Server::start().expect("PostgreSQL starts");
        let mut client = Client::connect(&server.connection_string(), NoTls).expect("it accepts connections");
        let mut sources = Sources::default();
        for file in ["schema.sql", "procedures.sql", "invariants.sql"] {
            sources.add(format!("{name}/{file}"), read(name, file));
        }
        let loaded = weir_sql::load(sources);
        let mut application = loaded.unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        for file in ["schema.sql", "procedures.sql"] {
            client.batch_execute(&read(name, file)).unwrap_or_else(|error| panic!("{name}/{file}: {error}"));
        }
        let file = application.sources.add("workload.toml", read(name, "workload.toml"));
        let overrides: Vec<(String, String)> =
            overrides.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let workload = Workload::parse(&application, file, &overrides).expect("the workload is right");
        let mut example = OnPostgres { client, application, workload: Arc::new(workload), _server: server };
        example.load();
        example
    }

    fn load(&mut self) {
        for id in self.workload.load_order() {
            let table = self.application.catalog.table(*id);
            let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            let copy = format!("COPY {} ({}) FROM STDIN", table.name, names.join(", "));
            let mut writer = self.client.copy_in(&copy).expect("the table takes rows");
            let mut sink = |row: Vec<Value>| {
                let fields: Vec<String> = row
                    .iter()
                    .zip(&table.columns)
                    .map(|(value, column)| match value {
                        Value::Null => "\\N".to_string(),
                        value => to_text(value, &column.ty).replace('\\', "\\\\"),
                    })
                    .collect();
                writeln!(writer, "{}", fields.join("\t")).expect("the server reads");
                Ok(())
            };
            self.workload.load_rows(SEED, *id, &mut sink).expect("the rows fit");
            writer.finish().unwrap_or_else(|error| panic!("{}: {error}", table.name));
        }
    }
}

/// The text of one of the example's files.
pub fn read(example: &str, file: &str) -> String {
    let path = format!("{}/../../examples/{example}/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the example has it")
}

/// The call as a statement, its arguments as literals.
pub fn call_text(application: &Application, call: &Call) -> String {
    let procedure = &application.procedures[call.procedure];
    let mut inputs = call.args.iter();
    let args: Vec<String> = procedure
        .parameters
        .iter()
        .map(|parameter| {
            let input = if parameter.mode == ParameterMode::Out { None } else { inputs.next() };
            match input {
                None | Some(Value::Null) => "NULL".to_string(),
                Some(value) => {
                    format!("'{}'::{}", to_text(value, &parameter.ty).replace('\'', "''"), parameter.ty)
                }
            }
        })
        .collect();
    format!("CALL {}({})", procedure.name, args.join(", "))
}
