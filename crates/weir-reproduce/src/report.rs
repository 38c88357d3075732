//! Figures as they are measured, and the folder in which they are written one by one: a run of hours that ends half-way leaves what it has measured.

use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_harness::figure::Figure;
use weir_harness::machine::Machine;
use weir_harness::plot::svg;

use crate::page;

/// A figure that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub id: String,
    pub why: String,
}

/// Figures of a run.
pub struct Report {
    folder: Option<PathBuf>,
    machine: Machine,
    command: String,
    figures: Vec<Figure>,
    missing: Vec<Missing>,
}

impl Report {
    /// `folder` is created; without one nothing is written. `command` makes the same report again.
    ///
    /// # Errors
    /// The folder cannot be created or written to.
    pub fn new(folder: Option<&Path>, machine: Machine, command: String) -> Result<Report, String> {
        let folder = folder.map(Path::to_owned);
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let report = Report { folder, machine, command, figures: Vec::new(), missing: Vec::new() };
        report.write_page()?;
        Ok(report)
    }

    /// Takes a figure in, and writes its data, `ID.jsonl`, its picture, `ID.svg`, and the page, `index.html`. One that cannot be drawn is missing.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&mut self, figure: Figure) -> Result<(), String> {
        self.write(&format!("{}.jsonl", figure.id), || Ok(figure.lines()))?;
        match svg(&figure.title, &figure.panels) {
            Ok(picture) => {
                self.write(&format!("{}.svg", figure.id), || Ok(picture))?;
                self.figures.push(figure);
                self.write_page()
            }
            Err(why) => self.miss(&figure.id, &format!("the picture: {why}")),
        }
    }

    /// Takes in that a figure could not be measured, and writes the page.
    ///
    /// # Errors
    /// As [`Report::add`].
    pub fn miss(&mut self, id: &str, why: &str) -> Result<(), String> {
        self.missing.push(Missing { id: id.to_owned(), why: why.to_owned() });
        self.write_page()
    }

    pub fn figures(&self) -> &[Figure] {
        &self.figures
    }

    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// The figures that could not be measured, in words; None: all could.
    pub fn complaint(&self) -> Option<String> {
        let ids: Vec<&str> = self.missing.iter().map(|one| one.id.as_str()).collect();
        let all = self.figures.len() + ids.len();
        (!ids.is_empty())
            .then(|| format!("{} of {all} figures could not be measured: {}", ids.len(), ids.join(", ")))
    }

    fn write_page(&self) -> Result<(), String> {
        self.write("index.html", || page::html(&self.figures, &self.missing, &self.machine, &self.command))
    }

    /// Writes a file if there is a folder for it.
    fn write(&self, name: &str, text: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(name);
        std::fs::write(&path, text()?).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use weir_harness::figure::Kind;

    use super::*;

    fn figure(id: &str) -> Figure {
        Figure {
            id: id.into(),
            paper: "cat-theorem.txt",
            title: "A table".into(),
            kind: Kind::Calculated,
            notes: vec![],
            panels: vec![],
            data: vec![serde_json::json!({ "x": 1 })],
            claims: vec![],
        }
    }

    fn machine() -> Machine {
        Machine { processor: "X".into(), cores: 2, system: "linux".into(), load: 0.0 }
    }

    #[test]
    fn each_figure_is_written_before_the_next_is_measured() {
        let folder = weir_harness::folder::Folder::new("report").unwrap();
        let out = folder.path().join("a/b");
        let mut report = Report::new(Some(&out), machine(), "weir reproduce all".into()).unwrap();
        let page = || std::fs::read_to_string(out.join("index.html")).unwrap();
        assert!(page().contains("weir reproduce all"));
        report.add(figure("cat-fig1")).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("cat-fig1.jsonl")).unwrap(), "{\"x\":1}\n");
        assert!(out.join("cat-fig1.svg").exists() && page().contains("#cat-fig1"));
        assert_eq!(report.complaint(), None);
        report.miss("cat-fig2", "there is no PostgreSQL").unwrap();
        report.add(figure("cat-fig3")).unwrap();
        assert!(page().contains("there is no PostgreSQL") && page().contains("#cat-fig3"));
        let complaint = report.complaint().unwrap();
        assert_eq!(complaint, "1 of 3 figures could not be measured: cat-fig2");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_at_once() {
        let folder = weir_harness::folder::Folder::new("report").unwrap();
        let file = folder.write("file", "").unwrap();
        let why = Report::new(Some(&file), machine(), String::new()).err().unwrap();
        assert!(why.starts_with(&file.display().to_string()), "{why}");
        assert!(Report::new(None, machine(), String::new()).is_ok());
    }
}
