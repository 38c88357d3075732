//! A folder of a measurement or of a private server, under the system's temporary one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static CREATED: AtomicU32 = AtomicU32::new(0);

/// A new folder. It is removed, with all that is in it, when the value is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// `purpose` is a part of its name; no two folders of running processes have the same one.
    ///
    /// # Errors
    /// The temporary folder of the system cannot be written; the message names it.
    pub fn new(purpose: &str) -> io::Result<Folder> {
        loop {
            let number = CREATED.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("weir-{purpose}-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                // A process of the same number was killed, and has left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, &error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, `name` of which is relative to the folder and may name folders that are not there yet; returns its path.
    ///
    /// # Errors
    /// As the system says; the message names the file.
    pub fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| at(&path, &error))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Files that are left are under the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value() {
        let (one, other) = (Folder::new("test").unwrap(), Folder::new("test").unwrap());
        assert_ne!(one.path(), other.path());
        let file = one.write("application/schema.sql", "CREATE TABLE t ();").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "CREATE TABLE t ();");
        let path = one.path().to_owned();
        drop(one);
        // What a process that was killed has left is passed over.
        let next = CREATED.load(Ordering::Relaxed);
        let left = std::env::temp_dir().join(format!("weir-left-{}-{next}", std::process::id()));
        std::fs::create_dir(&left).unwrap();
        let beside = Folder::new("left").unwrap();
        assert_ne!(beside.path(), left);
        std::fs::remove_dir(left).unwrap();
        assert!(!path.exists() && other.path().exists());
        let error = other.write("", "a folder is no file").unwrap_err();
        assert!(error.to_string().contains(&other.path().display().to_string()));
    }
}
