//! A target is a system and the mechanism by which it carries the transactions.

use std::fmt;
use std::str::FromStr;

use crate::schema::Change;
use crate::workload::Way;

/// Isolation level of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Serializable,
    RepeatableRead,
    ReadCommitted,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Serializable, Level::RepeatableRead, Level::ReadCommitted];

    pub fn sql(self) -> &'static str {
        match self {
            Level::Serializable => "SERIALIZABLE",
            Level::RepeatableRead => "REPEATABLE READ",
            Level::ReadCommitted => "READ COMMITTED",
        }
    }

    pub fn name(self) -> String {
        self.sql().to_ascii_lowercase().replace(' ', "-")
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
            let names: Vec<String> = Level::ALL.into_iter().map(Level::name).collect();
            format!("`{text}` is no isolation level; the levels are: {}", names.join(", "))
        })
    }
}

/// A system and a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Transactions of several statements, which Weir carries by locks.
    WeirInteractive(Level),
    /// A procedure of increments: its plan needs no coordination.
    WeirConfluent,
    /// A procedure that reads, modifies and writes, declared serializable: its plan is the order of the sequencer.
    WeirOrdered,
    PostgresInteractive(Level),
    /// The procedure of increments in one call.
    PostgresCall(Level),
    MariaDbInteractive(Level),
}

impl Target {
    /// Those of the figures.
    pub const FIGURES: [Target; 9] = [
        Target::WeirConfluent,
        Target::WeirOrdered,
        Target::WeirInteractive(Level::Serializable),
        Target::PostgresInteractive(Level::Serializable),
        Target::PostgresInteractive(Level::RepeatableRead),
        Target::PostgresInteractive(Level::ReadCommitted),
        Target::PostgresCall(Level::Serializable),
        Target::MariaDbInteractive(Level::Serializable),
        Target::MariaDbInteractive(Level::RepeatableRead),
    ];

    pub fn is_weir(self) -> bool {
        matches!(self, Target::WeirInteractive(_) | Target::WeirConfluent | Target::WeirOrdered)
    }

    pub fn is_mariadb(self) -> bool {
        matches!(self, Target::MariaDbInteractive(_))
    }

    /// How its writers change a value.
    pub fn change(self) -> Change {
        if self == Target::WeirOrdered { Change::Modify } else { Change::Increment }
    }

    /// The way by which its transactions reach it.
    pub fn way(self) -> Way {
        match self {
            Target::WeirConfluent | Target::WeirOrdered | Target::PostgresCall(_) => Way::Calls,
            _ => Way::Statements,
        }
    }

    /// None: that of its plan.
    pub fn level(self) -> Option<Level> {
        match self {
            Target::WeirConfluent | Target::WeirOrdered => None,
            Target::WeirInteractive(level)
            | Target::PostgresInteractive(level)
            | Target::PostgresCall(level)
            | Target::MariaDbInteractive(level) => Some(level),
        }
    }

    /// It takes what this project is for off the wall: no transaction of it aborts.
    pub fn never_aborts(self) -> bool {
        matches!(self, Target::WeirConfluent | Target::WeirOrdered)
    }

    fn all() -> impl Iterator<Item = Target> {
        let levels = |of: fn(Level) -> Target| Level::ALL.into_iter().map(of);
        [Target::WeirConfluent, Target::WeirOrdered]
            .into_iter()
            .chain(levels(Target::WeirInteractive))
            .chain(levels(Target::PostgresInteractive))
            .chain(levels(Target::PostgresCall))
            .chain(levels(Target::MariaDbInteractive))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::WeirInteractive(level) => write!(out, "weir-{}", level.name()),
            Target::WeirConfluent => write!(out, "weir-confluent"),
            Target::WeirOrdered => write!(out, "weir-ordered"),
            Target::PostgresInteractive(level) => write!(out, "postgres-{}", level.name()),
            Target::PostgresCall(level) => write!(out, "postgres-call-{}", level.name()),
            Target::MariaDbInteractive(level) => write!(out, "mariadb-{}", level.name()),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        Target::all().find(|target| target.to_string() == text).ok_or_else(|| {
            let names: Vec<String> = Target::all().map(|target| target.to_string()).collect();
            format!("`{text}` is no target; the targets are: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for target in Target::all() {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let wrong = "oracle".parse::<Target>().expect_err("no such target");
        assert!(wrong.contains("weir-confluent, weir-ordered") && wrong.contains("mariadb-repeatable-read"));
    }
}
