//! A private PostgreSQL server: the oracle for SQL semantics, and the database to compare speed with.
//!
//! It has its own data folder under the system's temporary one, listens on a socket in there and nowhere
//! else, and ends with the value that started it. Collation is C and the encoding UTF-8, as in Weir.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::folder::Folder;

/// A running server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub struct Server {
    process: Child,
    folder: Folder,
    port: u16,
    settings: Vec<String>,
}

/// Where Debian and others put the server's programs, newest supported version first.
const PROGRAM_FOLDERS: [&str; 3] =
    ["/usr/lib/postgresql/15/bin", "/usr/pgsql-15/bin", "/usr/local/pgsql/bin"];

/// PostgreSQL's own.
const PORT: u16 = 5432;

const START_ATTEMPTS: u32 = 600;
const START_PAUSE: Duration = Duration::from_millis(50);

impl Server {
    /// Creates a cluster and starts it.
    ///
    /// # Errors
    /// If the programs are not installed, or initdb or the server fails; the message says what it said.
    pub fn start() -> io::Result<Server> {
        Server::start_with(&[])
    }

    /// As [`Server::start`], with settings such as `log_statement=all`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(settings: &[&str]) -> io::Result<Server> {
        Server::start_at(PORT, settings)
    }

    /// Starts a server with that port, which names its socket. It listens on the port only if the settings contain an address.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_at(port: u16, settings: &[&str]) -> io::Result<Server> {
        let programs = program_folder()?;
        let folder = Folder::new("postgres")?;
        let as_other_user = is_root()?;
        if as_other_user {
            run(Command::new("chown").arg("postgres:").arg(folder.path()))?;
        }
        let data = folder.path().join("data");
        let mut initdb = program(&programs.join("initdb"), as_other_user);
        initdb.args(["--username=postgres", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync"]);
        run(initdb.arg("-D").arg(&data).current_dir(folder.path()))?;
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let process = spawn(folder.path(), port, &settings)?;
        let mut server = Server { process, folder, port, settings };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Ends the server at once, as a crash of its process does, and starts it again with its data: it recovers from its log.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn crash(&mut self) -> io::Result<()> {
        run(Command::new("kill").arg("-QUIT").arg(self.process.id().to_string()))?;
        self.process.wait()?;
        self.process = spawn(self.folder.path(), self.port, &self.settings)?;
        self.wait_until_ready()
    }

    /// For any client library that takes `key=value` pairs.
    pub fn connection_string(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.folder.path().display(), self.port)
    }

    /// Where it keeps its data, and its logs.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Process id of the server.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let ready = self.folder.path().join(format!(".s.PGSQL.{}", self.port));
        for _ in 0..START_ATTEMPTS {
            if self.process.try_wait()?.is_some() {
                break;
            }
            if ready.exists() && pid_file_says_ready(&self.folder.path().join("data/postmaster.pid")) {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!("PostgreSQL did not start:\n{log}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fast shutdown, as `pg_ctl stop` asks for it.
        let _ = Command::new("kill").arg("-INT").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// Starts the program over a folder that initdb has made.
fn spawn(folder: &Path, port: u16, settings: &[String]) -> io::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"))?;
    let constant = ["listen_addresses=", "timezone=UTC", "fsync=off"];
    let port = format!("port={port}");
    let settings = constant.into_iter().chain([port.as_str()]).chain(settings.iter().map(String::as_str));
    program(&program_folder()?.join("postgres"), is_root()?)
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(settings.flat_map(|setting| ["-c", setting]))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

/// The last line of the file that the server keeps about itself.
fn pid_file_says_ready(path: &Path) -> bool {
    std::fs::read_to_string(path)
        .is_ok_and(|text| text.lines().last().is_some_and(|line| line.trim() == "ready"))
}

/// Where the server's programs are: in the folder that WEIR_POSTGRES_BIN names, or else where packages put them.
///
/// # Errors
/// They are not installed; the message has the remedy.
pub fn program_folder() -> io::Result<PathBuf> {
    let folders = match std::env::var_os("WEIR_POSTGRES_BIN") {
        Some(named) => vec![PathBuf::from(named)],
        None => PROGRAM_FOLDERS.iter().map(PathBuf::from).collect(),
    };
    folders.into_iter().find(|folder| folder.join("initdb").exists()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "PostgreSQL 15 is not installed: `apt-get install postgresql-15` installs it, and \
             WEIR_POSTGRES_BIN names the folder of initdb if it is elsewhere",
        )
    })
}

pub(crate) fn is_root() -> io::Result<bool> {
    let output = Command::new("id").arg("-u").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim() == "0")
}

/// The server refuses to run as root; Debian's package has made a user for it.
fn program(path: &Path, as_other_user: bool) -> Command {
    if !as_other_user {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    command
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?} failed:\n{said}")))
}
