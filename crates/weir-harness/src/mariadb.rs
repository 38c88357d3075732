//! A private MariaDB server, to compare with.
//!
//! It has its own data folder under the system's temporary one, listens on a socket in there and nowhere else, and ends with the value that
//! started it. As with the PostgreSQL servers of [`crate::postgres`], COMMIT does not wait for the disk unless that is asked for.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::folder::Folder;
use crate::postgres::is_root;

/// A running server. Dropping it stops the server and removes its data.
#[derive(Debug)]
pub struct Server {
    process: Child,
    folder: Folder,
}

/// The server's programs: it, what makes its data folder, and what that one runs.
const PROGRAMS: [&str; 3] = ["mariadbd", "mariadb-install-db", "my_print_defaults"];

/// The setting with which COMMIT waits for the disk.
pub const DURABLE: &str = "innodb-flush-log-at-trx-commit=1";

/// The command that installs them on Debian.
pub const INSTALL: &str = "apt-get install mariadb-server-core mariadb-client-core";

const PROGRAM_FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

const START_ATTEMPTS: u32 = 600;
const START_PAUSE: Duration = Duration::from_millis(50);

impl Server {
    /// Creates a data folder and starts a server over it.
    ///
    /// # Errors
    /// The programs are not installed, or one of them fails; the message says what it said.
    pub fn start() -> io::Result<Server> {
        Server::start_with(&[])
    }

    /// As [`Server::start`], with settings such as [`DURABLE`] or `port=3307`; it listens on a port of the loopback interface only if they name one.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(settings: &[&str]) -> io::Result<Server> {
        let [server, install, defaults] = PROGRAMS.map(program);
        let (server, install, _) = (server?, install?, defaults?);
        let folder = Folder::new("mariadb")?;
        let within = folder.path();
        let data = within.join("data");
        let output = Command::new(install)
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(format!("--datadir={}", data.display()))
            .args(user_argument()?)
            // Servers that begin at the same time give their temporary tables the same names.
            .env("TMPDIR", within)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            // It complains on standard output, too.
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            return Err(io::Error::other(format!("mariadb-install-db failed:\n{said}")));
        }
        let log = std::fs::File::create(within.join("log"))?;
        let listens = settings.iter().any(|setting| setting.starts_with("port="));
        let network = if listens { "--bind-address=127.0.0.1" } else { "--skip-networking" };
        let process = Command::new(server)
            .args(["--no-defaults", "--innodb-flush-log-at-trx-commit=0", network])
            .args(settings.iter().map(|setting| format!("--{setting}")))
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", within.join("socket").display()))
            .arg(format!("--tmpdir={}", within.display()))
            .arg(format!("--pid-file={}", within.join("pid").display()))
            .args(user_argument()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut server = Server { process, folder };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The socket that it listens on. Its user `root` has no password.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        for _ in 0..START_ATTEMPTS {
            if self.process.try_wait()?.is_some() {
                break;
            }
            if std::os::unix::net::UnixStream::connect(self.socket()).is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!("MariaDB did not start:\n{log}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-TERM").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// Whether the server's programs are installed.
pub fn is_installed() -> bool {
    PROGRAMS.iter().all(|name| program(name).is_ok())
}

fn program(name: &str) -> io::Result<PathBuf> {
    let found = PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    found.ok_or_else(|| {
        let what = format!("{name} is not installed: `{INSTALL}` installs MariaDB");
        io::Error::new(io::ErrorKind::NotFound, what)
    })
}

/// The server runs as root only when it is told so.
fn user_argument() -> io::Result<Option<&'static str>> {
    Ok(is_root()?.then_some("--user=root"))
}
