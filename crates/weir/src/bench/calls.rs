//! The calls of an application as a workload of servers: prepared CALLs over PostgreSQL's protocol, from one thread of clients.
//!
//! Each server of Weir loads the rows that workload.toml describes; PostgreSQL is given the rows of one of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::NoTls;
use postgres::types::{Format as Encoding, IsNull, ToSql, Type, private::BytesMut};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::Statement;
use weir_bench::{CallGenerator, Workload};
use weir_sql::bound::{Parameter, ParameterMode};
use weir_sql::{Application, Reading};
use weir_types::Value;
use weir_types::text::to_text;

use crate::application::{Loaded, workload_text};
use crate::bench::pgbench::{Pgbench, Script};
use crate::bench::servers::{Address, Server, Servers, Target, failed};
use crate::bench::side_by_side::{Load, Measured};
use crate::input;
use crate::live::causes;
use crate::output::{Failure, print_remark, write_file};

/// An application whose procedures are called.
pub struct Calls {
    /// Its directory, with which servers of Weir begin.
    pub path: PathBuf,
    application: Arc<Application>,
    workload: Arc<Workload>,
    /// Only calls of this procedure count.
    count: Option<String>,
    /// pgbench calls one procedure by that script, instead of the calls that workload.toml describes.
    by_pgbench: Option<(Pgbench, Script<'static>)>,
    /// Each call is a transaction at SERIALIZABLE, and is repeated after 40001 and 40P01 until it ends otherwise.
    serializable: bool,
}

impl Calls {
    /// `name`: a directory, or an application that the program has within it, whose files are written to the folder.
    pub fn of(name: &str, count: Option<&str>, folder: &Path) -> Result<Calls, Failure> {
        let path = match input::shipped(name) {
            None => PathBuf::from(name),
            Some((sources, (_, workload))) => {
                let path = folder.join("application");
                std::fs::create_dir_all(&path)
                    .map_err(|error| failed(&path.display().to_string(), &error))?;
                for file in &sources.files {
                    write_file(
                        &path.join(Path::new(&file.name).file_name().unwrap_or_default()),
                        &file.text,
                    )?;
                }
                write_file(&path.join("workload.toml"), &workload)?;
                for (name, script) in input::shipped_scripts() {
                    write_file(&path.join(name), script)?;
                }
                path
            }
        };
        let mut loaded = Loaded::from_paths(std::slice::from_ref(&path), Reading::Strict)?;
        let (file, text) = workload_text(&loaded, &path)?;
        let workload = Arc::new(loaded.workload(file, text, &[])?);
        let application = Arc::new(loaded.application);
        let procedures: Vec<&str> = application.procedures.iter().map(|one| one.name.as_str()).collect();
        if let Some(unknown) = count.filter(|name| !procedures.contains(name)) {
            return Err(Failure::input(format!(
                "weir bench {name}: error: --count {unknown}: there is no such procedure\nhint: the procedures are: {}",
                procedures.join(", ")
            )));
        }
        let (count, by_pgbench) = (count.map(str::to_owned), None);
        Ok(Calls { path, application, workload, count, by_pgbench, serializable: false })
    }

    /// The same at SERIALIZABLE.
    pub fn serializable(self) -> Calls {
        Calls { serializable: true, ..self }
    }

    /// The same, with pgbench as the client: it runs the procedure's script, PROCEDURE.pgbench beside workload.toml, by prepared statements.
    pub fn by_pgbench(self, procedure: &str, programs: PathBuf) -> Result<Calls, Failure> {
        let path = self.path.join(format!("{procedure}.pgbench"));
        if !path.is_file() {
            return Err(Failure::input(format!(
                "weir bench: error: --set pgbench={procedure}: there is no {}\nhint: write a script of pgbench that calls the procedure",
                path.display()
            )));
        }
        let client = Pgbench { programs, protocol: "prepared" };
        let by_pgbench = Some((client, Script::Text(input::read_text(&path)?)));
        Ok(Calls { by_pgbench, ..self })
    }

    /// Fills PostgreSQL, if it is among the servers, from one of Weir's.
    pub fn prepare(&self, servers: &Servers) -> Result<(), Failure> {
        let weir = servers.all.iter().find(|server| server.target != Target::Postgres);
        let postgres = servers.get(&Target::Postgres);
        match (weir, postgres) {
            (Some(weir), Some(postgres)) => self.fill(&weir.address, &postgres.address),
            _ => Ok(()),
        }
    }

    /// The schema, the procedures and the rows of Weir's tables go to PostgreSQL as they are.
    fn fill(&self, weir: &Address, postgres: &Address) -> Result<(), Failure> {
        let (mut own, mut other) = (weir.connect()?, postgres.connect()?);
        for file in ["schema.sql", "procedures.sql"] {
            let text = input::read_text(&self.path.join(file))?;
            other.batch_execute(&text).map_err(|error| failed(file, &causes(&error)))?;
        }
        for table in self.workload.load_order() {
            let name = &self.application.catalog.table(*table).name;
            let wrong = |error: &dyn std::fmt::Display| failed(&format!("the rows of {name}"), error);
            let mut rows = own.copy_out(&format!("COPY {name} TO STDOUT")).map_err(|error| wrong(&error))?;
            let mut writer =
                other.copy_in(&format!("COPY {name} FROM STDIN")).map_err(|error| wrong(&error))?;
            std::io::copy(&mut rows, &mut writer).map_err(|error| wrong(&error))?;
            writer.finish().map_err(|error| wrong(&error))?;
        }
        other.batch_execute("ANALYZE").map_err(|error| failed("ANALYZE", &error))
    }

    pub fn measure(
        &self,
        server: &Server,
        folder: &Path,
        load: &Load,
        seed: u64,
    ) -> Result<Measured, Failure> {
        if let Some((client, script)) = &self.by_pgbench {
            return client.measure(server, folder, script, (load, seed));
        }
        // All connections are one thread's: the servers are to have the machine.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed("the runtime of the clients", &error))?;
        let time = Duration::from_secs_f64(load.seconds);
        runtime.block_on(async {
            let mut clients = JoinSet::new();
            let start = Arc::new(Barrier::new(load.clients as usize));
            for number in 0..load.clients {
                let generator = CallGenerator::new(&self.workload, seed, number.into());
                let (url, application) = (server.address.url(), self.application.clone());
                let (count, start) = (self.count.clone(), start.clone());
                let serializable = self.serializable;
                clients.spawn(async move {
                    let connection = Calling::open(&url, &application, serializable).await;
                    start.wait().await;
                    connection?.call_for(time, generator, count.as_deref()).await
                });
            }
            let (mut times_us, mut aborted) = (Vec::new(), 0);
            while let Some(ended) = clients.join_next().await {
                let (own, rolled_back) = ended.map_err(|error| failed("a client", &error))??;
                times_us.extend(own);
                aborted += rolled_back;
            }
            let throughput = times_us.len() as f64 / load.seconds;
            Ok(Measured { throughput, completed: times_us.len() as u64, aborted, times_us, late: Vec::new() })
        })
    }

    /// Checks the application's assertions on Weir afterwards.
    pub fn check(&self, servers: &Servers) -> Result<(), Failure> {
        let Some(weir) = servers.get(&Target::Weir) else { return Ok(()) };
        let mut client = weir.address.connect()?;
        let assertions = &self.application.assertions;
        let mut broken = Vec::new();
        for assertion in assertions {
            let row = client.query_one(&format!("SELECT {}", assertion.text), &[]);
            let holds: bool = row.map_err(|error| failed(&assertion.name, &causes(&error)))?.get(0);
            if !holds {
                broken.push(assertion.name.as_str());
            }
        }
        if !broken.is_empty() {
            return Err(failed("assertions that do not hold", &broken.join(", ")));
        }
        print_remark(&format!("weir: {0} of {0} assertions hold", assertions.len()));
        Ok(())
    }
}

/// A value as its type's text, whatever type that is.
#[derive(Debug)]
struct Written(Option<String>);

impl ToSql for Written {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Encoding {
        Encoding::Text
    }

    postgres::types::to_sql_checked!();
}

/// The call of a procedure: a text with a parameter for each argument.
fn call_text(application: &Application, procedure: usize) -> String {
    let procedure = &application.procedures[procedure];
    let mut number = 0;
    let argument = |mode| match mode {
        ParameterMode::Out => "NULL".to_owned(),
        _ => {
            number += 1;
            format!("${number}")
        }
    };
    let arguments: Vec<String> = procedure.parameters.iter().map(|one| one.mode).map(argument).collect();
    format!("CALL {}({})", procedure.name, arguments.join(", "))
}

/// Nothing has happened, because of other transactions.
fn is_to_be_repeated(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| matches!(code.code(), "40001" | "40P01"))
}

/// A connection that calls the procedures of an application.
struct Calling {
    application: Arc<Application>,
    client: tokio_postgres::Client,
    /// By procedure.
    prepared: Vec<Statement>,
    serializable: bool,
}

impl Calling {
    async fn open(url: &str, application: &Arc<Application>, serializable: bool) -> Result<Calling, Failure> {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.map_err(|error| failed(url, &error))?;
        // Its errors are those of the calls.
        tokio::spawn(connection);
        if serializable {
            let set = client.batch_execute("SET default_transaction_isolation = 'serializable'").await;
            set.map_err(|error| failed("the isolation level", &causes(&error)))?;
        }
        let mut prepared = Vec::new();
        for procedure in 0..application.procedures.len() {
            let statement = client.prepare(&call_text(application, procedure)).await;
            prepared.push(statement.map_err(|error| failed("a CALL cannot be prepared", &error))?);
        }
        Ok(Calling { application: application.clone(), client, prepared, serializable })
    }

    /// At SERIALIZABLE, until it is no failure of serialization.
    async fn call(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<(), tokio_postgres::Error> {
        loop {
            match self.client.query(statement, values).await {
                Err(error) if self.serializable && is_to_be_repeated(&error) => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Durations of the counted calls, in microseconds, and the number that were rolled back.
    async fn call_for(
        self,
        time: Duration,
        mut generator: CallGenerator,
        count: Option<&str>,
    ) -> Result<(Vec<f64>, u64), Failure> {
        let until = Instant::now() + time;
        let (mut times, mut aborted) = (Vec::new(), 0);
        while Instant::now() < until {
            let call = generator.next_call().map_err(|error| failed("the workload", &error))?;
            let procedure = &self.application.procedures[call.procedure];
            let inputs = procedure.parameters.iter().filter(|one| one.mode != ParameterMode::Out);
            let written = |(value, parameter): (&Value, &Parameter)| {
                Written((!value.is_null()).then(|| to_text(value, &parameter.ty)))
            };
            let values: Vec<Written> = call.args.iter().zip(inputs).map(written).collect();
            let begun = Instant::now();
            let values: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|one| one as &(dyn ToSql + Sync)).collect();
            let outcome = self.call(&self.prepared[call.procedure], &values).await;
            let is_counted = count.is_none_or(|name| name == procedure.name);
            match outcome {
                Ok(_) if is_counted => times.push(begun.elapsed().as_secs_f64() * 1e6),
                Ok(_) => {}
                Err(error) if error.as_db_error().is_some() => aborted += u64::from(is_counted),
                Err(error) => return Err(failed(&procedure.name, &error)),
            }
        }
        Ok((times, aborted))
    }
}
