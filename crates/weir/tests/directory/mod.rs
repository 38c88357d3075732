//! A directory with files that is gone when the test is over.

use std::path::PathBuf;

pub struct Directory(pub PathBuf);

impl Directory {
    /// Files by their path in the directory; `name` is one of a kind in the test binary.
    pub fn with<C: AsRef<[u8]>>(name: &str, files: &[(&str, C)]) -> Directory {
        let path = std::env::temp_dir().join(format!("weir-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (file, content) in files {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
