//! The arguments of every command, with their help.
//!
//! Only what works today is listed: an option that does nothing is worse than none.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_bench::scale::Network;
use weir_cat_bench::target::Level;

use crate::{sim, ways_out};

const AFTER: &str = "\
Exit codes: 0 all is well; 1 a check failed; 2 the input or the usage is wrong.

Example:
  weir run examples/tpcc --shards 4 --seconds 20";

/// A database that coordinates only where an invariant of the application needs it.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = AFTER, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Standard output is one JSON document, whatever comes.
    pub fn prints_json(&self) -> bool {
        match &self.command {
            Command::Analyze(arguments) => arguments.format == AnalyzeFormat::Json && arguments.out.is_none(),
            Command::Run(arguments) => arguments.format == Format::Json,
            Command::Bench(arguments) => arguments.format == Format::Json,
            Command::Explain(arguments) => arguments.format == Format::Json,
            Command::Reproduce(arguments) => arguments.format == Format::Json,
            Command::Calibrate(_)
            | Command::Serve(_)
            | Command::Conveyor(_)
            | Command::Dump(_)
            | Command::Sim(_)
            | Command::History(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say which transactions need coordination, for which invariant, and the cheapest way to keep it
    Analyze(AnalyzeArguments),
    /// Analyse an application, run it on an embedded cluster, and check every invariant afterwards
    Run(RunArguments),
    /// Run a workload under several protocols, or on servers of Weir and PostgreSQL, in turns, and compare them
    Bench(BenchArguments),
    /// Measure the papers' tables and figures anew: data, a picture, and the paper's figure beside ours
    Reproduce(ReproduceArguments),
    /// Measure what the steps of the protocols take on this machine: what `weir bench --simulate` charges
    Calibrate(CalibrateArguments),
    /// Serve the shards of one node of a cluster
    Serve(ServeArguments),
    /// Run one agent beside a PostgreSQL server: several servers carry an application together, serializably
    Conveyor(ConveyorArguments),
    /// Write what a server has as SQL that PostgreSQL and Weir load
    Dump(DumpArguments),
    /// Run a cluster in virtual time, under faults, seed by seed, and check what its clients were told
    Sim(SimArguments),
    /// Decide a recorded history, or export it for other checkers
    History(HistoryArguments),
    /// Say what a kind of finding means and how to mend it
    Explain(ExplainArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnalyzeFormat {
    Text,
    Json,
    Html,
    /// SARIF 2.1.0
    Sarif,
    /// GitHub's annotations
    Github,
    Markdown,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir analyze examples/tpcc
  weir analyze schema.sql procedures.sql --format json --out plan.json
  weir analyze examples/tpcc --format html --out report.html
  weir analyze . --format sarif --out weir.sarif --baseline known.json --fail-on warning,WEIR-U01
  weir analyze examples/tpcw --weights calls-per-hour.toml
  weir analyze --from postgres://me@localhost/shop invariants.sql
  weir analyze schema.sql --log postgresql.log")]
pub struct AnalyzeArguments {
    /// A directory with schema.sql, procedures.sql and invariants.sql, or of migrations; or SQL files in load order
    #[arg(required_unless_present = "from", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Read the schema and the routines of a running PostgreSQL server, before any PATH; the password is in
    /// PGPASSWORD. Nothing is written, and no row is read
    #[arg(long, value_name = "postgres://USER@HOST/DATABASE")]
    pub from: Option<String>,
    /// A log of PostgreSQL's statements (stderr, csvlog or jsonlog; log_statement = 'all' or
    /// log_min_duration_statement = 0): its transactions are analysed as often as they were called; may be repeated
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// Seconds that the server may take for an answer
    #[arg(
        long,
        value_name = "S",
        default_value = "30",
        requires = "from",
        value_parser = positive_seconds,
        allow_negative_numbers = true
    )]
    pub timeout: f64,
    /// How often each procedure is called: `name = number` line by line, or a workload.toml with its [mix]
    ///
    /// Conflicts between procedures that are called often weigh more when parameters are chosen to route by.
    /// Without it the [mix] of a workload.toml beside the schema counts, and without one all are called alike.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Answer for insert, update and delete of every table, also where there are procedures
    #[arg(long)]
    pub every_table: bool,
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnalyzeFormat,
    /// Write there instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also say what multi-master replication of PostgreSQL (last-update-wins rows) would do to the transactions
    #[arg(long)]
    pub active_active: bool,
    /// Findings of an earlier `--format json` or `--format sarif` do not count; new ones fail
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Exit with 1 if there is a finding this severe (note, warning, error), or of this kind (WEIR-A01)
    #[arg(long, value_name = "SEVERITY|ID,…", value_delimiter = ',', value_parser = ways_out::parse_threshold)]
    pub fail_on: Vec<ways_out::Threshold>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir run examples/tpcc --shards 4 --seconds 20 --report run.html
  weir run examples/tpcc --set warehouses=1 --set remote_lines=1.0 --transactions 50000 --seed 7
  weir analyze examples/tpcc --format json --out plan.json
  weir run examples/tpcc --replay plan.json#c_3_3_2_10/delivery")]
pub struct RunArguments {
    /// A directory with schema.sql, procedures.sql, invariants.sql and optionally workload.toml
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// How transactions that need no coordination are made visible
    #[arg(long, value_name = "NAME", default_value = "ramp-fast")]
    pub protocol: String,
    /// Run it on a cluster that carries it: weir:FILE with its cluster file, which says seed and settings
    #[arg(long, value_name = "URL", conflicts_with_all = ["replay", "settings", "seed", "shards"])]
    pub target: Option<String>,
    /// Also write the plan, the diagrams of the verdicts and plots of the run as one page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Replay a counterexample instead: a `witness` of `weir analyze --format json`, or the whole of it and which
    #[arg(long, value_name = "FILE.json[#INVARIANT/TRANSACTION]", conflicts_with = "report")]
    pub replay: Option<String>,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Clone, Debug, Args)]
pub struct ClusterArguments {
    /// Shards; they and their clients share at most as many threads as there are cores [default: 4; 1 of a server that `weir bench`
    /// starts, 3 of the protocols of eris.txt]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=256),
        allow_negative_numbers = true
    )]
    pub shards: Option<u16>,
    /// Calls in flight at once [default: enough to keep the shards busy; 16 connections of a server, 256 of the protocols of
    /// eris.txt, 9 of several PostgreSQL servers]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000),
        allow_negative_numbers = true
    )]
    pub clients: Option<u32>,
    /// How long to run, after loading [default: 10; 5 on a server and of the protocols of eris.txt, each time]
    #[arg(
        long,
        value_name = "S",
        conflicts_with = "transactions",
        value_parser = positive_seconds,
        allow_negative_numbers = true
    )]
    pub seconds: Option<f64>,
    /// Run this many calls instead of for a time
    #[arg(
        long,
        value_name = "N",
        value_parser = calls,
        allow_negative_numbers = true
    )]
    pub transactions: Option<u64>,
    /// Seed of everything that chance decides: data, mix and parameters
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub seed: u64,
    /// Change a name that workload.toml lists under [set]; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE,…", value_parser = name_and_value, value_delimiter = ',')]
    pub settings: Vec<(String, String)>,
}

impl ClusterArguments {
    pub fn shards(&self) -> u16 {
        self.shards.unwrap_or(4)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Workloads under Weir's protocols and their comparators (--protocol):
  tpcc:             TPC-C's procedures, on shards of this process; so is a DIRECTORY with an
                    application
  ycsb:             items, on shards of this process, on --processes, on a cluster, or simulated
                    (--simulate)
  ycsb-t, tpcc:     the protocols of eris.txt: --protocol ordered,lock-store,nt-ur --replicas 3
Workloads by SQL, on any --target:
  cat:              the experiment of the CAT theorem
  ycsb, ycsb-t:     YCSB and YCSB+T
  smallbank:        SmallBank
  tpcw, rubis:      a bookstore and an auction site
  tpcc:             with --way statements, or on MariaDB or SQLite
On several PostgreSQL servers (--target conveyor:3,2pc:3,readonly:3,postgres):
  tpcw, rubis, conveyor-micro
On servers that are started for it (--target weir:,postgres,baseline:PROGRAM):
  pgbench:          its TPC-B: --set scale=16, protocol=simple, extended or prepared; with
                    statements of its own: pgbench-select, -update, -index, -join-2, -join-4,
                    -order, -transaction, -delete
  DIRECTORY, tpcc:  calls of an application (--count); at SERIALIZABLE, repeated after 40001:
                    --set isolation=serializable; by pgbench: --set pgbench=PROCEDURE, whose
                    script PROCEDURE.pgbench is in the directory
  beside:           what others notice of long statements: --set other=select, update, connect
                    or cancel, memory=1GiB, rows=200000
  ycsb-jdbc:        reads of YCSB by a client in Java: --set driver=FILE (of the JDBC driver),
                    rows=100000
  copy, insert-select, copy-out, select-rows:
                    rows into a table by COPY or INSERT ... SELECT, and out of it: --set
                    rows=1000000
  statements, savepoints:
                    transactions of single-row statements through psql, in the second with a
                    SAVEPOINT before each: --set statements=50000
  keys:             one row by pgbench, of a table with unique keys: --set keys=1,
                    operation=insert, select, select-key, update or update-key
Calculated:
  commitment:       the most commits a second of one item if each takes an atomic commitment:
                    --servers, --protocol c-2pc or d-2pc, --simulate lan or wan, --round-trips,
                    --set median_us=120,p99_us=900 (delays of your messages), delays=Pareto,
                    regions=virginia+oregon

Examples:
  weir bench tpcc --protocol ramp-fast,none
  weir bench tpcc --sweep remote_lines=0,0.5,1 --seconds 5 --format json
  weir bench ycsb --protocol none,ramp-fast,ramp-small,ramp-hybrid,lwlr --sweep read_share=1,0.5,0
  weir bench ycsb --processes 3 --clients 32 --protocol ramp-fast
  weir bench ycsb --simulate lan --servers 5,10,25,50,100 --set keys=uniform --protocol none,ramp-fast
  weir bench pgbench                                  # durable servers in turns: --target weir:,postgres
  weir bench pgbench-select --target weir:,postgres --repeat 3 --seconds 2 --set scale=4
  weir bench copy --target weir:,baseline:./weir-1.0 --set rows=100000
  weir bench examples/tpcc --target weir:,postgres --count new_order --format json
  weir bench cat --target weir:,postgres,mariadb --isolation serializable --sweep zipf=0,0.6,0.9,1.2 --html cat.html
  weir bench ycsb --target weir:,postgres,sqlite: --rate 2000 --warmup 2
  weir bench cat --target postgres,weir: --way statements --advise
  weir bench ycsb --target weir: --record load.jsonl; weir bench --trace load.jsonl --target postgres,mariadb --speed 1
  weir bench tpcw --target weir:,postgres,mariadb,sqlite: --set mix=ordering --isolation serializable
  weir bench smallbank --target mysql://me:secret@db.example:3306/test --set hot=0.9 --sweep clients=1,4,16
  weir bench ycsb-t --protocol ordered,lock-store --set kind=mrmw,distributed=0.2 --replicas 3
  weir bench tpcw --target conveyor:3,2pc:3,postgres
  weir bench commitment --servers 2,3,5 --set median_us=120,p99_us=900

Servers are started for it, on free ports of the loopback interface and in folders of their own, and end with it. PostgreSQL 15 and
pgbench must be there: apt-get install postgresql-15, or WEIR_POSTGRES_BIN names their folder.")]
pub struct BenchArguments {
    /// One of the workloads below, or a directory with a workload.toml; a wrong --set says which settings it has
    #[arg(
        value_name = "WORKLOAD",
        required = false,
        required_unless_present = "trace",
        default_value_if("trace", ArgPredicate::IsPresent, "trace")
    )]
    pub workload: String,
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Protocols to compare, each in turn; `none` keeps the counters and drops atomic visibility, ramp-hybrid:BITS:HASHES (ycsb) has
    /// another Bloom filter than ramp-hybrid:256:4. Of ycsb-t and tpcc also those of eris.txt: ordered, ordered-global, lock-store,
    /// granola, tapir, nt-ur [default: ramp-fast,none; with --processes ramp-fast,ramp-small,ramp-hybrid]
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    pub protocol: Vec<String>,
    /// Targets that are compared instead, each in turn; ratios are of the first server to each other one (of protocols: of each other one to the
    /// first). Servers that are started for it:
    /// weir: (this program), postgres, baseline:PROGRAM (an earlier Weir). For ycsb clusters that run: weir:FILE with its cluster
    /// file, which says the protocol. By SQL also mariadb and sqlite: (a file of its own), sqlite:FILE, and servers that run:
    /// weir://USER@HOST:PORT/DATABASE, postgres://…, mysql://…, in which tables are made and dropped. Of tpcw, rubis and
    /// conveyor-micro also several PostgreSQL servers: conveyor:N with agents of `weir conveyor`, 2pc:N with two-phase commit,
    /// readonly:N with writes at one of them
    #[arg(long, value_name = "URL,URL,…", value_delimiter = ',', conflicts_with = "protocol")]
    pub target: Vec<String>,
    /// Of an application on servers: only the calls of this procedure count
    #[arg(long, value_name = "NAME")]
    pub count: Option<String>,
    /// Run on so many nodes instead (ycsb): processes of one shard each, over loopback, without logs, started for each run
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["target", "simulate"],
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub processes: Option<u16>,
    /// Run once for each of these values of a setting; by SQL also of clients and rate
    #[arg(long, value_name = "NAME=V1,V2,…", value_parser = name_and_values)]
    pub sweep: Option<(String, Vec<String>)>,
    /// How often each of the runs is repeated, interleaved; a ratio is the median over the repetitions [default: 1; 10 on servers, 3 of
    /// a workload by SQL and of several PostgreSQL servers]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000),
        allow_negative_numbers = true
    )]
    pub repeat: Option<u32>,
    /// Of ycsb: instead of running it, simulate servers (lan, or wan: in eight regions of the world), charged with what
    /// steps were once measured to take. The seconds are of virtual time [default: 0.05, on a WAN 1]. Of commitment: one of the two
    /// networks alone
    #[arg(long, value_name = "lan|wan", value_parser = network)]
    pub simulate: Option<Network>,
    /// How many servers are simulated, each with as many --clients [default: 1000] and its own shards [default: 5; of commitment 2 to 10]
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=2000)
    )]
    pub servers: Vec<u16>,
    /// Cores of each simulated server; each has a shard [default: 1]
    #[arg(
        long,
        value_name = "N",
        requires = "simulate",
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub cores: Option<u16>,
    /// The regions of --simulate wan: a line for each, its name and the milliseconds of a round trip to each region on the
    /// lines below [default: eight of EC2's]
    #[arg(long, value_name = "FILE", requires = "simulate")]
    pub round_trips: Option<PathBuf>,
    /// What steps take on another machine, as `weir calibrate` wrote it
    #[arg(long, value_name = "FILE", requires = "simulate")]
    pub prices: Option<PathBuf>,
    /// Of the protocols of eris.txt: replicas of each shard; nt-ur has one [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=9),
        allow_negative_numbers = true
    )]
    pub replicas: Option<u16>,
    /// Of a workload by SQL: start a server of Debian's packages as a further target (postgres, mariadb)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub start: Vec<String>,
    /// Of a workload by SQL: isolation level of the transactions, serializable, repeatable-read or read-committed [default: the
    /// database's own; a call on Weir has that of its plan]
    #[arg(long, value_name = "LEVEL")]
    pub isolation: Option<Level>,
    /// Of a workload by SQL: how a transaction reaches the database. MariaDB and SQLite run statements, and tpcc, tpcw and
    /// rubis have nothing else [default: calls]
    #[arg(long, value_enum, value_name = "WAY")]
    pub way: Option<BenchWay>,
    /// Of a workload by SQL: how long each run goes on before it is measured [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    pub warmup: Option<f64>,
    /// Of a workload by SQL: so many transactions a second of all clients together, whatever the database takes for them (open
    /// loop); latencies are from when a transaction was due
    #[arg(long, value_name = "N", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Of a workload by SQL: servers that are started do not have COMMIT wait for the disk
    #[arg(long)]
    pub no_sync: bool,
    /// Replay a recorded load, one line of JSON for each transaction, instead of a workload; --clients are as many as it was recorded
    /// of by default, and the run ends with it
    #[arg(long, value_name = "FILE.jsonl")]
    pub trace: Option<PathBuf>,
    /// Replay at the recorded times, so many times as fast (open loop), instead of as fast as the database allows
    #[arg(long, value_name = "TIMES", requires = "trace", value_parser = rate, allow_negative_numbers = true)]
    pub speed: Option<f64>,
    /// Of a workload by SQL: write what the first run has committed as such a recorded load, with its tables and rows
    #[arg(long, value_name = "FILE.jsonl")]
    pub record: Option<PathBuf>,
    /// Of a workload by SQL: also measure it without hot keys, and say which transactions lose by contention (the CAT wall), and
    /// by which of Weir's mechanisms they would not
    #[arg(long)]
    pub advise: bool,
    /// Of a workload by SQL: also write a page with plots
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BenchWay {
    /// BEGIN, a statement for each operation, COMMIT
    Statements,
    /// One call of a procedure
    #[default]
    Calls,
}

impl From<BenchWay> for weir_cat_bench::workload::Way {
    fn from(way: BenchWay) -> weir_cat_bench::workload::Way {
        match way {
            BenchWay::Statements => weir_cat_bench::workload::Way::Statements,
            BenchWay::Calls => weir_cat_bench::workload::Way::Calls,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir reproduce ramp-fig3 --out figures
  weir reproduce ramp-fig4 confluence-fig6 --quick
  weir reproduce all --out figures --format json

Figures, with a verdict for each claim: ramp-table1, ramp-fig2 … ramp-fig4, ramp-fig3-simulated, ramp-blocked-writes,
confluence-table2, confluence-fig3 … confluence-fig6, eris-fig6 …, elia-table1, elia-fig3-tpcw …, elia-table3, cat-fig1 … cat-fig8,
cat-wall; --list has all")]
pub struct ReproduceArguments {
    /// Which figures, or `all`
    #[arg(value_name = "ID", required_unless_present = "list")]
    pub ids: Vec<String>,
    /// Print the ids, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Measure for moments, to see that it works; the numbers say nothing
    #[arg(long, conflicts_with = "quick")]
    pub tiny: bool,
    /// Measure few points on small databases: `all` takes ten minutes, not two hours
    #[arg(long)]
    pub quick: bool,
    /// What steps take on another machine, as `weir calibrate` wrote it, for what is simulated
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Write ID.jsonl (a line for each point) and ID.svg there, and a page, index.html, when each figure is measured
    #[arg(long, value_name = "DIRECTORY")]
    pub out: Option<PathBuf>,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    pub seed: u64,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weir calibrate --out crates/weir-bench/src/scale/prices.json")]
pub struct CalibrateArguments {
    /// Write there instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// In seconds instead of minutes, with few items: to see that it works
    #[arg(long)]
    pub quick: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir explain WEIR-U01\n  weir explain dense-insert")]
pub struct ExplainArguments {
    /// As it stands in a verdict or a finding; without it, all of them are listed
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir serve --data /var/lib/weir                    # a database: psql -h 127.0.0.1 -p 5433 weir
  weir serve my-app --shards 2 --data data           # of an application: schema.sql, procedures.sql …
  weir serve --cluster cluster.toml --node a --data /var/lib/weir --listen 127.0.0.1:5433
  weir bench ycsb --target weir:cluster.toml

A cluster file with two nodes:
  protocol = \"ramp-fast\"                 # or ramp-small, ramp-hybrid, ramp-hybrid:BITS:HASHES
  [nodes.a]
  address = \"127.0.0.1:7401\"
  shards = [0, 2]
  [nodes.b]
  address = \"127.0.0.1:7402\"
  shards = [1]
A cluster carries items, or an application:
  [application]
  path = \"examples/tpcc\"
  seed = 1
  set = { warehouses = 4 }
Beyond loopback it also needs secret_file = \"FILE\" and
  [tls]
  authority = \"ca.pem\"
  certificate = \"own.pem\"
  key = \"own.key\"")]
pub struct ServeArguments {
    /// Directory of the application that the database begins with, without a cluster file. Without a directory there are no
    /// tables yet
    #[arg(value_name = "DIRECTORY", conflicts_with = "cluster")]
    pub application: Option<PathBuf>,
    /// Without a cluster file: how many shards
    #[arg(long, value_name = "N", conflicts_with = "cluster", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64), allow_negative_numbers = true)]
    pub shards: u16,
    /// The cluster file: which node holds which shard; the same for all nodes and clients
    #[arg(long, value_name = "FILE", requires = "node")]
    pub cluster: Option<PathBuf>,
    /// Which of its nodes this is
    #[arg(long, value_name = "NAME", requires = "cluster")]
    pub node: Option<String>,
    /// Where its shards keep their logs; without it everything is gone with the process
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// When a write is acknowledged [default: sync with --data, else memory]
    #[arg(long, value_enum)]
    pub durability: Option<ServeDurability>,
    /// A shard writes a snapshot of itself when its log is this long and at least twice as long as its last snapshot
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub snapshot_after: u64,
    /// Memory limit for the rows and indexes of the node's shards. Above it, statements that add data are refused (53200);
    /// reads and deletes go on [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// Accept times of other nodes up to this one, in milliseconds since 1970. For a cluster whose clocks were ahead and have been
    /// corrected
    #[arg(long, value_name = "MS")]
    pub clock_reached: Option<u64>,
    /// Start although other nodes or clients have seen newer data of this node's shards. The newer data is lost, and
    /// transactions over several shards may remain in part. Needed for one start only
    #[arg(long)]
    pub accept_older_data: bool,
    /// Memory limit for one statement: the rows that it keeps, sorts, joins, returns and writes. Above it, the statement
    /// fails with 53200 [default: half of --memory and at least 16MiB, else 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub statement_memory: Option<u64>,
    /// Speak PostgreSQL's protocol there [default without a cluster file: 127.0.0.1:5433]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Name of the database for clients of PostgreSQL's protocol
    #[arg(long, value_name = "NAME", default_value = "weir")]
    pub database: String,
    /// File whose first line is the password for clients of PostgreSQL's protocol. Without it no password is asked for
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Clients of PostgreSQL's protocol may speak TLS: the server's certificate, with what leads to its authority, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Most clients of PostgreSQL's protocol that may be connected at once. Further ones are refused with 53300
    #[arg(long, value_name = "NUMBER", requires = "listen", default_value_t = 10_000)]
    pub max_connections: usize,
    /// Answer there by HTTP: /metrics for Prometheus, /health for whoever watches that it runs, and with --listen at / a page
    /// of contention, aborts and throughput
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,
    /// How the log on standard error is written
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug or trace; the environment variable WEIR_LOG says it, too [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<tracing_subscriber::filter::LevelFilter>,
    /// Log statements of PostgreSQL's protocol that take so many milliseconds; 0 logs all. SET log_min_duration_statement
    /// says otherwise for a session
    #[arg(long, value_name = "MS")]
    pub log_slow: Option<u64>,
    /// Fill each table with a hundred invented rows, if there is no workload.toml
    #[arg(long, requires = "application")]
    pub demo_data: bool,
    /// Action when the files of DIRECTORY differ from those that --data was last migrated to: `apply` prints the
    /// differences and runs them as definitions, `show` prints them and ends
    #[arg(long, value_enum, default_value = "apply", requires = "data")]
    pub migrate: Migrate,
    /// Allow a migration to drop tables, sequences and columns with what is in them
    #[arg(long, requires = "data")]
    pub drop_data: bool,
    /// Listen beyond loopback without TLS or without a secret
    #[arg(long)]
    pub insecure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Migrate {
    Apply,
    Show,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    /// A JSON document a line
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir conveyor --config shop.toml --check-config
  weir conveyor --config shop.toml --server a
  weir conveyor --config shop.toml --server a --observe
  psql -h 127.0.0.1 -p 5501 -d conveyor -c 'SHOW TOKEN'")]
pub struct ConveyorArguments {
    /// The configuration: servers, agents, bounds; the same for all agents
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The server beside which this agent runs
    #[arg(long, value_name = "NAME", required_unless_present = "check_config")]
    pub server: Option<String>,
    /// Look at every server and at the application, and start nothing
    #[arg(long)]
    pub check_config: bool,
    /// Pass everything to the server as it is, and report how the traffic would classify
    #[arg(long, conflicts_with = "check_config")]
    pub observe: bool,
    /// Serve /metrics, /health and a page of contention, aborts and throughput over HTTP there
    #[arg(long, value_name = "ADDRESS", conflicts_with = "check_config")]
    pub http: Option<SocketAddr>,
    /// Allow --http beyond loopback
    #[arg(long)]
    pub insecure: bool,
    /// Form of the log, on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace or off [default: WEIR_LOG, or info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<tracing_subscriber::filter::LevelFilter>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
While it reads, writes wait. The password is in PGPASSWORD.

Examples:
  weir dump postgres://me@localhost:5433/weir > weir.sql
  weir dump postgres://me@localhost:5433/weir --out weir.sql
  psql -v ON_ERROR_STOP=1 -f weir.sql postgres://me@localhost/shop")]
pub struct DumpArguments {
    /// The server, which speaks PostgreSQL's protocol there
    #[arg(value_name = "postgres://USER@HOST:PORT/DATABASE")]
    pub server: String,
    /// Write there instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Without rows
    #[arg(long, conflicts_with = "data_only")]
    pub schema_only: bool,
    /// Rows, and where sequences go on, without the schema
    #[arg(long)]
    pub data_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServeDurability {
    /// Once the disk has it
    Sync,
    /// Once the operating system has it: a loss of power takes the last moments
    Relaxed,
    /// Never
    Memory,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir sim items --seeds 0..100
  weir sim examples/tpcc --seeds 0..20 --set remote_lines=0.5
  weir sim items --protocol ramp-small --seeds 7..8 --log seed-7.log
  weir sim items --seeds 0..50 --faults drop=0.05,duplicate=0.1,partition=2,clock=5000
  weir sim items --hours 1 --plot kept.svg")]
pub struct SimArguments {
    /// What its clients do: `items`, random transactions over keys; `relations`, rows with indexes, foreign keys
    /// and views; or a directory with schema.sql, procedures.sql, invariants.sql and optionally workload.toml
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,
    /// Shards; only with a directory [default: 1 to 4, as each seed says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16), allow_negative_numbers = true)]
    pub shards: Option<u16>,
    /// How many calls each seed makes; only with a directory
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub calls: usize,
    /// Change a name that workload.toml lists under [set]; may be repeated. Of the others, large whole numbers are made
    /// smaller until there are few enough rows
    #[arg(long = "set", value_name = "NAME=VALUE,…", value_parser = name_and_value, value_delimiter = ',')]
    pub settings: Vec<(String, String)>,
    /// Protocols over items, each with all seeds
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "ramp-fast,ramp-small,ramp-hybrid"
    )]
    pub protocol: Vec<String>,
    /// Everything follows from the seed; the last one is not run
    #[arg(
        long,
        value_name = "FROM..TO",
        default_value = "0..100",
        value_parser = sim::parse_seeds,
        allow_hyphen_values = true
    )]
    pub seeds: std::ops::Range<u64>,
    /// delay=MILLISECONDS (at most), drop=SHARE, duplicate=SHARE, reorder=0|1, partition=SECONDS (also one-way), slow=FACTOR,
    /// clock=MILLISECONDS (clocks differ and step), drift=PPM, year=YEAR (when clocks begin), crash=SECONDS (shards are down), sync=MILLISECONDS (a log takes), tail=0|1 (of an unsynced log some survives),
    /// snapshot=RECORDS, die=0|1 (coordinators), or none
    /// [default: drawn from each seed]
    #[arg(long = "faults", value_name = "NAME=N,…")]
    pub faults_text: Option<String>,
    /// Where the log of a seed that fails goes [default: weir-sim-PROTOCOL-SEED.log]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write the history of the last seed there, for `weir history`
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Instead of seeds, make one run of so many hours of virtual time, and report how much memory the nodes keep
    #[arg(long, value_name = "HOURS")]
    pub hours: Option<f64>,
    /// Like --hours, for one minute of virtual time
    #[arg(long, conflicts_with = "hours")]
    pub quick: bool,
    /// Draw what is kept over time there, as SVG (with --hours or --quick)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir sim items --seeds 7..8 --history history.jsonl
  weir history check history.jsonl
  weir history export --elle history.jsonl --out history.edn
  weir history export --operations history.jsonl --out history.txt")]
pub struct HistoryArguments {
    #[command(subcommand)]
    pub command: HistoryCommand,
}

#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Atomic reads, sessions, linearizable single items; exit code 1 if one of them does not hold
    Check {
        /// One transaction a line, as `weir sim --history` writes it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write the history in another checker's format
    Export {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Elle's EDN, model rw-register
        #[arg(long, required_unless_present = "operations", conflicts_with = "operations")]
        elle: bool,
        /// A line for each operation, as PolySI and Plume read it (their type `text`)
        #[arg(long)]
        operations: bool,
        /// Write there instead of to standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

fn network(text: &str) -> Result<Network, String> {
    Network::by_name(text).ok_or_else(|| "`lan` or `wan`".to_owned())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a number from 0 to {}", u64::MAX))
}

fn calls(text: &str) -> Result<u64, String> {
    number(text).ok().filter(|calls| *calls > 0).ok_or_else(|| format!("a number from 1 to {}", u64::MAX))
}

/// A number of bytes: `512KiB`, `64MiB`, `2GiB`, or bytes.
fn size(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("", 0)];
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .expect("everything ends with nothing");
    let number: u64 = number.trim().parse().map_err(|_| "write a size as 64MiB or 2GiB".to_owned())?;
    number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number && *bytes > 0)
        .ok_or("that is no size".to_owned())
}

fn positive_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("a number of seconds above 0 and at most 86400 (a day)".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0 to 86400 (a day)".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    weir_cat_bench::workbench::rate_of(text).map_err(|wrong| wrong.hint)
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, as in warehouses=20".to_owned()),
    }
}

fn name_and_values(text: &str) -> Result<(String, Vec<String>), String> {
    let right = "write NAME=V1,V2, as in remote_lines=0,1";
    let (name, values) = name_and_value(text).map_err(|_| right)?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) { Err(right.to_owned()) } else { Ok((name, values)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_are_names_and_values() {
        for (text, expected) in [
            ("a=1", Some(("a", "1"))),
            (" a = x=y ", Some(("a", "x=y"))),
            ("a", None),
            ("=1", None),
            ("a=", None),
        ] {
            let expected = expected.map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()));
            assert_eq!(name_and_value(text).ok(), expected, "{text}");
        }
    }
}
