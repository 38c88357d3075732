//! `weir dump`: what a server has as SQL that PostgreSQL and Weir load, read over PostgreSQL's protocol at one moment.
//!
//! Knows the system catalog and nothing of Weir's insides: what is dumped is what any client sees.

mod objects;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use postgres::{Client, NoTls, Transaction};
use weir_types::function::double_quoted;

use crate::cli::DumpArguments;
use crate::live;
use crate::output::{Failure, print_remark};
use objects::{Constraint, Objects, Table};

/// Marks a dump in progress: a definition waits for all transactions in flight and blocks later ones. It is rolled back.
const BARRIER: &str = "weir_dump_is_under_way";

pub fn execute(arguments: &DumpArguments) -> Result<(), Failure> {
    let config = live::config("weir dump", &arguments.server)?;
    let failed = |what: &dyn std::fmt::Display| Failure::Check(Some(format!("weir dump: error: {what}")));
    let mut client: Client = config.connect(NoTls).map_err(|error| failed(&live::causes(&error)))?;
    let mut out = open(arguments.out.as_deref())?;
    let parts = Parts { schema: !arguments.data_only, data: !arguments.schema_only };
    let dumped = dump(&mut client, parts, &mut out).and_then(|remarks| {
        out.flush()?;
        Ok(remarks)
    });
    let remarks = dumped.map_err(|problem| match problem {
        Problem::Server(error) => failed(&live::causes(&error)),
        // The reader has closed the pipe.
        Problem::Output(error) => failed(&format!("cannot write: {error}")),
    })?;
    remarks.iter().for_each(|remark| print_remark(&format!("weir dump: {remark}")));
    Ok(())
}

fn open(path: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(io::stdout()))) };
    let file = File::create(path).map_err(|error| {
        let hint = "name a file in a directory that exists and is yours";
        Failure::input(format!("{}: error: cannot write: {error}\nhint: {hint}", path.display()))
    })?;
    Ok(Box::new(BufWriter::new(file)))
}

enum Problem {
    Server(postgres::Error),
    Output(io::Error),
}

impl From<postgres::Error> for Problem {
    fn from(error: postgres::Error) -> Problem {
        Problem::Server(error)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Output(error)
    }
}

/// Parts to dump.
#[derive(Clone, Copy)]
struct Parts {
    schema: bool,
    data: bool,
}

/// Writes the dump; returns remarks for the user.
fn dump(client: &mut Client, parts: Parts, out: &mut dyn Write) -> Result<Vec<String>, Problem> {
    client.batch_execute("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0")?;
    let mut transaction = client.transaction()?;
    transaction.batch_execute(&format!("CREATE SCHEMA {BARRIER}"))?;
    let objects = Objects::read(&mut transaction, BARRIER)?;
    out.write_all(BEGIN.as_bytes())?;
    if parts.schema {
        write_before_data(&objects, out)?;
    }
    if parts.data {
        for table in objects.tables_in_order() {
            write_rows(&mut transaction, table, out)?;
        }
    }
    if parts.schema {
        write_after_data(&objects, out)?;
    }
    if parts.data {
        write_places(&objects, out)?;
    }
    transaction.rollback()?;
    let sequences = objects.sequence_remarks.into_iter().filter(|_| parts.data);
    Ok(objects.remarks.into_iter().filter(|_| parts.schema).chain(sequences).collect())
}

/// Where sequences go on.
fn write_places(objects: &Objects, out: &mut dyn Write) -> Result<(), Problem> {
    for (sequence, next) in &objects.places {
        writeln!(out, "SELECT setval({sequence}, {next}, false);\n")?;
    }
    Ok(())
}

const BEGIN: &str = "-- A dump of Weir: load it with psql -v ON_ERROR_STOP=1 into an empty database of PostgreSQL 15 or of Weir.

SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;

";

fn write_before_data(objects: &Objects, out: &mut dyn Write) -> Result<(), Problem> {
    for text in objects.schemas.iter().chain(&objects.types).chain(&objects.sequences) {
        writeln!(out, "{text};\n")?;
    }
    for table in &objects.tables {
        write_table(table, out)?;
    }
    for text in objects.owners.iter().chain(&objects.early_comments) {
        writeln!(out, "{text};\n")?;
    }
    for (table, constraint) in objects.foreign_keys(true) {
        write_foreign_key(table, constraint, out)?;
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut dyn Write) -> Result<(), Problem> {
    let columns =
        table.columns.iter().map(|column| format!("{} {}", double_quoted(&column.name), column.definition));
    let keys = table.constraints.iter().filter(|one| one.parent.is_none());
    let keys = keys.map(|one| format!("CONSTRAINT {} {}", double_quoted(&one.name), one.definition));
    let lines: Vec<String> = columns.chain(keys).map(|line| format!("\n    {line}")).collect();
    writeln!(out, "CREATE TABLE {} ({}\n);\n", table.name, lines.join(","))?;
    Ok(())
}

fn write_foreign_key(table: &Table, constraint: &Constraint, out: &mut dyn Write) -> Result<(), Problem> {
    let (name, text) = (double_quoted(&constraint.name), &constraint.definition);
    writeln!(out, "ALTER TABLE {} ADD CONSTRAINT {name} {text};\n", table.name)?;
    Ok(())
}

fn write_rows(transaction: &mut Transaction<'_>, table: &Table, out: &mut dyn Write) -> Result<(), Problem> {
    let columns = table.columns.iter().filter(|column| !column.is_generated);
    let columns: Vec<String> = columns.map(|column| double_quoted(&column.name)).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let (name, columns) = (&table.name, columns.join(", "));
    let mut rows = transaction.copy_out(&format!("COPY (SELECT {columns} FROM {name}) TO STDOUT"))?;
    let mut buffer = vec![0; 64 << 10];
    let mut is_empty = true;
    loop {
        let count = rows.read(&mut buffer).map_err(Problem::Output)?;
        if count == 0 {
            break;
        }
        if std::mem::take(&mut is_empty) {
            writeln!(out, "COPY {name} ({columns}) FROM stdin;")?;
        }
        out.write_all(&buffer[..count])?;
    }
    if !is_empty {
        writeln!(out, "\\.\n")?;
    }
    Ok(())
}

fn write_after_data(objects: &Objects, out: &mut dyn Write) -> Result<(), Problem> {
    for (table, constraint) in objects.foreign_keys(false) {
        write_foreign_key(table, constraint, out)?;
    }
    let texts =
        objects.indexes.iter().chain(&objects.views).chain(&objects.routines).chain(&objects.comments);
    for text in texts {
        writeln!(out, "{};\n", text.trim_end().trim_end_matches(';'))?;
    }
    Ok(())
}
