//! The disk of a party: messages wait for their records, and a snapshot takes the place of the records before it.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use weir_core::lsn::{Lsn, Outgoing};
use weir_ordered::message::Party;
use weir_ordered_net::disk::{Disk, DiskSettings};
use weir_ordered_net::wire::Message;

use crate::party::disk as settings;

/// A message that waits for so many records.
fn message(after: u64) -> Outgoing<Party, Message> {
    let message = Message::StateRequest { index: after };
    Outgoing { to: Party::FailureCoordinator, message, after: Lsn(after) }
}

/// A disk of numbers, those that were on it, and news of what has become durable.
fn open(settings: &DiskSettings) -> (Vec<u64>, Disk<u64>, Receiver<()>) {
    let (records, log) = settings.read(3).unwrap();
    let (tell, told) = channel();
    let tell = move || {
        // The test may wait for no more.
        let _ = tell.send(());
    };
    let disk = Disk::start("disk".to_owned(), log, tell).unwrap();
    (records, disk, told)
}

/// Waits until everything is durable, and returns how many messages have left.
fn wait(disk: &mut Disk<u64>, told: &Receiver<()>, snapshot: u64) -> usize {
    let mut left = 0;
    while !disk.is_durable() {
        told.recv().unwrap();
        left += disk.on_written(|| snapshot).unwrap().count();
    }
    left
}

#[test]
fn messages_leave_once_their_records_are_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path().join("log"), 1 << 20);
    let (records, mut disk, told) = open(&settings);
    assert!(records.is_empty());
    assert_eq!(disk.take(vec![10, 20], [message(0), message(1), message(2)].into_iter()).count(), 0);
    assert_eq!(wait(&mut disk, &told, 0), 3);
    assert_eq!(disk.take(vec![], [message(2)].into_iter()).count(), 1);
    assert_eq!(disk.take(vec![30], [message(2), message(3)].into_iter()).count(), 1);
    disk.finish().unwrap();
    let (records, disk, _) = open(&settings);
    assert_eq!(records, [10, 20, 30]);
    disk.finish().unwrap();
}

fn has_snapshot(directory: &Path) -> bool {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.into_iter().any(|path| path.extension().is_some_and(|extension| extension == "snapshot"))
}

#[test]
fn a_snapshot_takes_the_place_of_earlier_records() {
    const SNAPSHOT: u64 = 1 << 40;
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path().join("log"), 1_000);
    let (_, mut disk, told) = open(&settings);
    let mut last = 0;
    while !has_snapshot(&settings.directory) {
        last += 1;
        assert_eq!(disk.take(vec![last], [message(last)].into_iter()).count(), 0);
        assert_eq!(wait(&mut disk, &told, SNAPSHOT + last), 1);
    }
    disk.finish().unwrap();
    let (records, disk, _) = open(&settings);
    let first = records[0].checked_sub(SNAPSHOT).unwrap();
    assert_eq!(records[1..], (first + 1..=last).collect::<Vec<_>>());
    disk.finish().unwrap();
}

/// A replica never takes the log of another.
#[test]
fn the_log_of_another_shard_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path().join("log"), 1 << 20);
    open(&settings).1.finish().unwrap();
    assert!(settings.read::<u64>(4).is_err_and(|error| error.to_string().contains("shard 3")));
}

/// What the records of another version mean, nobody can say.
#[test]
fn a_log_of_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path().join("log"), 1 << 20);
    open(&settings).1.finish().unwrap();
    let version = settings.directory.join("records-version");
    std::fs::write(&version, "5").unwrap();
    assert!(settings.read::<u64>(3).is_err_and(|error| error.to_string().contains("version 5")));
    std::fs::remove_file(&version).unwrap();
    assert!(settings.read::<u64>(3).is_err_and(|error| error.to_string().contains("version 1")));
    std::fs::remove_dir_all(&settings.directory).unwrap();
    std::fs::create_dir(&settings.directory).unwrap();
    std::fs::write(&version, "").unwrap();
    open(&settings).1.finish().unwrap();
}
