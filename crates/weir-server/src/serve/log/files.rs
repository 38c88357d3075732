//! Where a log's files are, and room for them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::LogError;
use super::format::STEP_BYTES;

/// Creates the missing parts of a path; they are durable when it returns.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_directory(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
        _ => {}
    }
    sync_directory(parent)
}

/// A name is durable with the directory that it stands in.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.log"))
}

/// Snapshot of everything before that segment.
pub fn snapshot_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.snapshot"))
}

/// A file bears its name only once it is whole and durable; until then this one.
pub fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// Gives what is whole and durable its name.
pub fn finish(path: &Path) -> io::Result<()> {
    fs::rename(unfinished(path), path)?;
    sync_directory(path.parent().expect("a log is in a directory"))
}

pub fn at(path: &Path) -> impl Fn(io::Error) -> LogError + use<> {
    let path = path.to_path_buf();
    move |error| LogError::Io(path.clone(), error)
}

/// Files of a log's directory, by number.
#[derive(Debug, Default)]
pub struct Files {
    pub segments: BTreeSet<u64>,
    pub snapshots: BTreeSet<u64>,
    /// Incomplete files of a node that was killed.
    pub unfinished: Vec<PathBuf>,
}

impl Files {
    pub fn find(directory: &Path) -> Result<Files, LogError> {
        let mut files = Files::default();
        for entry in fs::read_dir(directory).map_err(at(directory))? {
            let path = entry.map_err(at(directory))?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            match (path.extension().and_then(|extension| extension.to_str()), number) {
                (Some("log"), Some(number)) => drop(files.segments.insert(number)),
                (Some("snapshot"), Some(number)) => drop(files.snapshots.insert(number)),
                (Some("new"), _) => files.unfinished.push(path),
                _ => {}
            }
        }
        Ok(files)
    }

    /// Removes what is not needed from that number on. The oldest goes first, so that what is left always follows on itself.
    pub fn remove_before(directory: &Path, number: u64) -> Result<(), LogError> {
        let files = Files::find(directory)?;
        let segments = files.segments.range(..number).map(|old| segment_path(directory, *old));
        let snapshots = files.snapshots.range(..number).map(|old| snapshot_path(directory, *old));
        for path in snapshots.chain(segments) {
            fs::remove_file(&path).map_err(at(&path))?;
        }
        Ok(())
    }
}

/// The next length that a segment may have.
pub fn whole_steps(length: u64) -> u64 {
    length.div_ceil(STEP_BYTES) * STEP_BYTES
}

/// Has the file system keep that room, and makes the file so long. It then says now that it is full, and not when something has
/// to be written down.
pub fn reserve(file: &File, from: u64, until: u64) -> io::Result<()> {
    allocate(file, from, until)?;
    file.set_len(until)
}

#[cfg(target_os = "linux")]
fn allocate(file: &File, from: u64, until: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    // The length follows at once, or not at all.
    match fallocate(file, FallocateFlags::KEEP_SIZE, from, until - from) {
        // It cannot: then it may be full when it comes to it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}

/// Writes where the file is at, and comes back once the disk has it: in one call of the system, where it has one.
#[cfg(target_os = "linux")]
pub fn write_durably(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};

    /// Where the file is at.
    const HERE: u64 = u64::MAX;
    let mut rest = bytes;
    while !rest.is_empty() {
        match pwritev2(&*file, &[io::IoSlice::new(rest)], HERE, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return write_and_sync(file, rest),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn write_durably(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    write_and_sync(file, bytes)
}

fn write_and_sync(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()
}

/// Writes zeros there, durably, and leaves the file where it is at. Where blocks have been written before, the file system has nothing to
/// note when they are written again: that takes half the time.
#[cfg(target_os = "linux")]
pub fn write_zeros(file: &File, from: u64, until: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    file.write_all_at(&vec![0; (until - from) as usize], from)?;
    file.sync_data()
}

#[cfg(not(target_os = "linux"))]
pub fn write_zeros(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}
