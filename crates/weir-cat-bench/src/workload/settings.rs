//! Settings of a workload, as `--set NAME=VALUE` gives them.

use std::fmt;
use std::str::FromStr;

/// A wrong input: what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub what: String,
    pub hint: String,
}

impl Wrong {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Wrong {
        Wrong { what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.what, self.hint)
    }
}

/// Settings that are taken one by one; what is left at the end is none of the workload's.
pub struct Settings<'a> {
    workload: &'a str,
    given: &'a [(String, String)],
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    pub fn new(workload: &'a str, given: &'a [(String, String)]) -> Settings<'a> {
        Settings { workload, given, known: Vec::new() }
    }

    /// The last value that was given, or that one.
    ///
    /// # Errors
    /// The value is not of that type, or is not allowed.
    pub fn take<T: FromStr>(
        &mut self,
        name: &'static str,
        default: T,
        right: &str,
        is_right: impl Fn(&T) -> bool,
    ) -> Result<T, Wrong> {
        self.known.push(name);
        let Some((_, text)) = self.given.iter().rev().find(|(given, _)| given == name) else {
            return Ok(default);
        };
        let value = text.parse().ok().filter(is_right);
        value.ok_or_else(|| Wrong::new(format!("`{name}={text}` is wrong"), format!("{name} is {right}")))
    }

    /// A whole number from 1 on.
    ///
    /// # Errors
    /// As [`Settings::take`].
    pub fn count(&mut self, name: &'static str, default: usize, most: usize) -> Result<usize, Wrong> {
        let right = format!("a whole number from 1 to {most}");
        self.take(name, default, &right, |count| (1..=most).contains(count))
    }

    /// A share from 0 to 1.
    ///
    /// # Errors
    /// As [`Settings::take`].
    pub fn share(&mut self, name: &'static str, default: f64) -> Result<f64, Wrong> {
        self.take(name, default, "a share from 0 to 1", |share| (0.0..=1.0).contains(share))
    }

    /// An exponent of Zipf's law.
    ///
    /// # Errors
    /// As [`Settings::take`].
    pub fn exponent(&mut self, name: &'static str, default: f64) -> Result<f64, Wrong> {
        let right = "an exponent of Zipf's law, from 0 (uniform) to 5";
        self.take(name, default, right, |exponent| (0.0..=5.0).contains(exponent))
    }

    /// # Errors
    /// A setting was given that nobody has taken.
    pub fn end(self) -> Result<(), Wrong> {
        match self.given.iter().find(|(name, _)| !self.known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => Err(Wrong::new(
                format!("{} has no setting `{name}`", self.workload),
                format!("its settings are: {}", self.known.join(", ")),
            )),
        }
    }
}
