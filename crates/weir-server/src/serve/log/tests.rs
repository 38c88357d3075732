//! Segments of a log: written, cut, damaged, and read again.

use std::fs;
use std::sync::mpsc::channel;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;

use super::*;

const SHARD: ShardId = 3;
const SEGMENT_BYTES: u64 = 4 << 10;

struct Opened {
    log: Log,
    records: Vec<String>,
    torn: u64,
}

fn open_as(directory: &Path, shard: ShardId, durability: Durability) -> Result<Opened, LogError> {
    let mut reading = Reading::begin(directory, shard)?;
    let records = reading.by_ref().collect();
    let (log, torn) = reading.end(durability, SEGMENT_BYTES)?;
    Ok(Opened { log, records, torn })
}

fn open(directory: &Path) -> Result<Opened, LogError> {
    open_as(directory, SHARD, Durability::Sync)
}

fn refusal(directory: &Path) -> String {
    open(directory).map(|opened| opened.records).expect_err("it is damaged").to_string()
}

fn written(directory: &Path, batches: &[&[&str]]) -> PathBuf {
    let mut log = open(directory).unwrap().log;
    for batch in batches {
        log.append(batch).unwrap();
    }
    log.path
}

/// Each segment contains all notes on histories; and a segment is readable whose predecessor did not record yet that another one follows.
#[test]
fn histories_go_with_the_log() {
    let place = tempfile::tempdir().unwrap();
    let seen = Arc::new(Seen::default());
    let mark = weir_core::history::Mark { run: 77, position: 5 };
    let mut log = open(place.path()).unwrap().log;
    seen.start(SHARD, log.past().clone(), 9);
    seen.hear(1, &[mark]);
    log.compare(seen.clone());
    assert_eq!(seen.told(SHARD), None, "nothing of the run is durable");
    let mut written = 0;
    while log.number < 3 {
        log.append(&["a record of some length, as records are"]).unwrap();
        written += 1;
    }
    let told = seen.told(SHARD).unwrap();
    drop(log);
    let path = segment_path(place.path(), 2);
    let mut bytes = fs::read(&path).unwrap();
    let word = bytes.windows(4).rposition(|four| four == b"wlb\x1e").unwrap();
    bytes[word..word + HEAD_BYTES].fill(0);
    fs::write(&path, bytes).unwrap();
    let opened = open(place.path()).unwrap();
    assert_eq!(opened.records.len(), written);
    let past = opened.log.past();
    assert!(past.history.contains(told) && past.seen[&1] == [mark], "{past:?}");
    assert!(!past.history.contains(weir_core::history::Mark { position: told.position << 1, ..told }));
    drop(opened);
    // As a snapshot leaves it.
    for number in [1, 2] {
        fs::remove_file(segment_path(place.path(), number)).unwrap();
    }
    let mut last = Segment::read(place.path(), 3, SHARD).unwrap();
    assert_eq!(last.next_batch::<String>().unwrap(), Some(Vec::new()));
    let mut past = Past::default();
    last.take_notes().for_each(|note| past.take(note));
    past.history.end_at(3 << OFFSET_BITS);
    assert!(past.history.contains(told) && past.seen[&1] == [mark], "{past:?}");
}

/// A directory with one segment, of these bytes and room.
fn with_segment(bytes: &[u8], size: u64) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let path = segment_path(place.path(), 1);
    fs::write(&path, bytes).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    place
}

/// Contents of a segment without the reserved room at its end; and its length with it.
fn content(path: &Path) -> (Vec<u8>, u64) {
    let mut bytes = fs::read(path).unwrap();
    let size = bytes.len() as u64;
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(end);
    (bytes, size)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Begins a snapshot; returns the sender of its parts and the receiver of its result.
fn begin_snapshot(log: &mut Log) -> (Parts<String>, Receiver<Result<Option<u64>, LogError>>) {
    let (parts, taken) = Parts::new();
    let (says, ended) = channel();
    let begins = log.begin_checkpoint(taken, || (), move |result| says.send(result).unwrap());
    assert!(begins.unwrap(), "there is room");
    (parts, ended)
}

fn put(parts: &Parts<String>, part: Option<&str>) {
    while parts.put(part.map(str::to_owned)).is_err() {
        std::thread::yield_now();
    }
}

/// Writes a snapshot of these parts.
fn snapshot(log: &mut Log, all: &[&str]) {
    let (parts, ended) = begin_snapshot(log);
    all.iter().for_each(|part| put(&parts, Some(part)));
    put(&parts, None);
    assert!(log.end_checkpoint(ended.recv().unwrap()).unwrap().is_none());
}

#[test]
fn what_was_written_comes_back_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    written(place.path(), &[&["a", "b"], &[], &["c"]]);
    written(place.path(), &[&["d"]]);
    let opened = open(place.path()).unwrap();
    assert_eq!((opened.records.join(""), opened.torn), ("abcd".into(), 0));
}

#[test]
fn segments_follow_each_other_and_all_are_read() {
    let place = tempfile::tempdir().unwrap();
    let mut log = open(place.path()).unwrap().log;
    let records: Vec<String> = (0..100).map(|number| format!("{number:0300}")).collect();
    records.iter().for_each(|record| log.append(&[record]).unwrap());
    assert!(log.number > 5, "{}", log.number);
    drop(log);
    assert_eq!(open(place.path()).unwrap().records, records);
}

#[test]
fn a_snapshot_is_written_beside_the_log_and_makes_needless_what_was_before() {
    let place = tempfile::tempdir().unwrap();
    let mut log = open(place.path()).unwrap().log;
    log.append(&["a"]).unwrap();
    let (parts, ended) = begin_snapshot(&mut log);
    // Traffic goes on.
    log.append(&["b"]).unwrap();
    put(&parts, Some("all"));
    while !names(place.path()).contains(&"000002.snapshot.new".to_owned()) {
        std::thread::yield_now();
    }
    // If it is killed now, the log alone has it all.
    let copy = tempfile::tempdir().unwrap();
    for name in names(place.path()) {
        fs::copy(place.path().join(&name), copy.path().join(&name)).unwrap();
    }
    assert!(names(copy.path()).contains(&"000002.snapshot.new".to_owned()), "{:?}", names(copy.path()));
    assert_eq!(open(copy.path()).unwrap().records, ["a", "b"]);
    assert_eq!(names(copy.path()), ["000001.log", "000002.log"]);
    put(&parts, Some("until then"));
    put(&parts, None);
    log.end_checkpoint(ended.recv().unwrap()).unwrap();
    log.append(&["c"]).unwrap();
    drop(log);
    assert_eq!(names(place.path()), ["000002.log", "000002.snapshot"]);
    assert_eq!(open(place.path()).unwrap().records, ["all", "until then", "b", "c"]);
    snapshot(&mut open(place.path()).unwrap().log, &["all of it"]);
    assert_eq!(open(place.path()).unwrap().records, ["all of it"]);
}

#[test]
fn a_node_that_is_killed_between_two_segments_goes_on() {
    let place = tempfile::tempdir().unwrap();
    written(place.path(), &[&["a"]]);
    let one = fs::read(segment_path(place.path(), 1)).unwrap();
    let mut log = open(place.path()).unwrap().log;
    assert!(log.begin_next().unwrap());
    drop(log);
    // The first segment does not record that another one follows.
    fs::write(segment_path(place.path(), 1), &one).unwrap();
    written(place.path(), &[&["b"]]);
    assert_eq!(open(place.path()).unwrap().records, ["a", "b"]);
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    let whole = tempfile::tempdir().unwrap();
    let path = written(whole.path(), &[&["first"], &["second"]]);
    let (bytes, size) = content(&path);
    let begins = bytes.len() - HEAD_BYTES - "second".len() - 2;
    for cut in begins..bytes.len() {
        let place = with_segment(&bytes[..cut], size);
        let opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["first"], "{cut} bytes");
        assert!(opened.torn <= (cut - begins) as u64);
        drop(opened);
        written(place.path(), &[&["third"]]);
        assert_eq!(open(place.path()).unwrap().records, ["first", "third"]);
    }
}

/// A loss of power: of what was not synced, any sectors have been written, and others are as they were.
#[test]
fn what_power_takes_is_a_whole_number_of_batches_that_were_not_synced() {
    const SECTOR: usize = 512;
    for seed in 0..60 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = |most: usize| (chance.next_u64() % most as u64) as usize;
        let place = tempfile::tempdir().unwrap();
        let mut log = open(place.path()).unwrap().log;
        let (mut records, mut durable, mut synced) = (Vec::new(), 0, Vec::new());
        for batch in 0..4 {
            // The last batches are not synced.
            log.durability = if batch < 2 { Durability::Sync } else { Durability::Relaxed };
            let batch: Vec<String> =
                (0..1 + below(3)).map(|one| format!("{one}-{:0900}", below(1000))).collect();
            log.append(&batch).unwrap();
            records.push(batch);
            if log.durability == Durability::Sync {
                durable = records.len();
                synced = fs::read(&log.path).unwrap();
            }
            if log.number > 1 {
                break;
            }
        }
        if log.number > 1 {
            continue;
        }
        let path = log.path.clone();
        drop(log);
        let mut left = fs::read(&path).unwrap();
        for (sector, before) in left.chunks_mut(SECTOR).zip(synced.chunks(SECTOR)) {
            if below(2) == 0 {
                sector.copy_from_slice(before);
            }
        }
        fs::write(&path, &left).unwrap();
        let seen = open(place.path()).unwrap().records;
        let whole = (durable..=records.len()).any(|count| seen == records[..count].concat());
        assert!(whole, "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_damaged_middle_is_named_and_never_passed_over() {
    let whole = tempfile::tempdir().unwrap();
    let path = written(whole.path(), &[&["first"], &["second"], &["third"]]);
    let (bytes, size) = content(&path);
    let until = bytes.len() - HEAD_BYTES - "third".len() - 2;
    for at in 0..until {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let said = refusal(with_segment(&damaged, size).path());
        assert!(said.contains("000001.log: damaged at byte"), "byte {at}: {said}");
        assert!(said.contains("Restore the file from a copy of the disk"), "{said}");
    }
    // Zeros where the second was.
    let second = until - HEAD_BYTES - "second".len() - 2;
    let mut damaged = bytes.clone();
    damaged[second..until].fill(0);
    let said = refusal(with_segment(&damaged, size).path());
    assert!(said.contains(&format!("damaged at byte {second}")), "{said}");
    assert!(said.contains(&format!("truncate --size={second} FILE")), "{said}");
    // Following its hint restores the earlier contents.
    let place = with_segment(&damaged[..second], size);
    assert_eq!(open(place.path()).unwrap().records, ["first"]);
}

#[test]
fn a_segment_that_was_cut_short_or_is_missing_is_named() {
    let whole = tempfile::tempdir().unwrap();
    let mut log = open(whole.path()).unwrap().log;
    for record in ["a", "b", "c"] {
        log.append(&[record]).unwrap();
        assert!(record == "c" || log.begin_next().unwrap());
    }
    drop(log);
    let check = |what: &str, damage: &dyn Fn(&Path), words: &str| {
        let place = tempfile::tempdir().unwrap();
        for name in names(whole.path()) {
            fs::copy(whole.path().join(&name), place.path().join(&name)).unwrap();
        }
        damage(place.path());
        let said = refusal(place.path());
        assert!(said.contains(words), "{what}: {said}");
    };
    let cut = |path: &Path, length: u64| {
        File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    };
    let length = content(&segment_path(whole.path(), 2)).0.len() as u64;
    let is_cut = |number| move |place: &Path| cut(&segment_path(place, number), 40);
    check("the first", &is_cut(1), "000001.log: damaged at byte 40: the file ends here");
    check("the last", &is_cut(3), "000003.log: damaged at byte 40: the file ends here");
    let at_a_batch = |place: &Path| {
        let path = segment_path(place, 2);
        let bytes = fs::read(&path).unwrap();
        let kept = &bytes[..length as usize - HEAD_BYTES];
        fs::write(&path, kept).unwrap();
        cut(&path, bytes.len() as u64);
    };
    check("its last word", &at_a_batch, "000002.log: damaged at byte");
    let without = |number| move |place: &Path| fs::remove_file(segment_path(place, number)).unwrap();
    check("no first", &without(1), "000001.log: is missing");
    check("no second", &without(2), "000002.log: is missing");
    check("no third", &without(3), "000003.log: is missing");
}

#[test]
fn a_damaged_snapshot_is_named() {
    let whole = tempfile::tempdir().unwrap();
    let mut log = open(whole.path()).unwrap().log;
    snapshot(&mut log, &["all", "of it"]);
    log.append(&["b"]).unwrap();
    drop(log);
    let bytes = fs::read(files::snapshot_path(whole.path(), 2)).unwrap();
    let check = |what: &str, damaged: &[u8]| {
        let place = tempfile::tempdir().unwrap();
        fs::copy(segment_path(whole.path(), 2), segment_path(place.path(), 2)).unwrap();
        fs::write(files::snapshot_path(place.path(), 2), damaged).unwrap();
        let said = refusal(place.path());
        assert!(said.contains("000002.snapshot: damaged at byte"), "{what}: {said}");
    };
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        check(&format!("byte {at}"), &damaged);
        check(&format!("cut at {at}"), &bytes[..at]);
    }
    // The file that it goes on in.
    fs::remove_file(segment_path(whole.path(), 2)).unwrap();
    let said = refusal(whole.path());
    assert!(said.contains("000002.log: is missing: "), "{said}");
}

/// As these versions wrote it: nothing of the shard in the first, and one batch.
fn old_segment(version: u8, record: &str) -> Vec<u8> {
    let mut bytes = [&b"WEIRLOG"[..], &[version], &77_u64.to_le_bytes()].concat();
    if version >= 2 {
        bytes.extend(SHARD.to_le_bytes());
    }
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    let mut batch = begin_batch(&[record], Vec::new()).unwrap();
    seal(&mut batch, (bytes.len() as u64, 77), bytes.len() as u64);
    let mut bytes = [bytes, batch].concat();
    if version >= 3 {
        bytes.resize(format::STEP_BYTES as usize, 0);
    }
    bytes
}

#[test]
fn versions_before_are_read_and_go_on_and_a_newer_one_is_named() {
    for version in [1, 2] {
        let place = tempfile::tempdir().unwrap();
        // As if it had been killed before the one before was removed.
        fs::write(segment_path(place.path(), 4), old_segment(version, "needless")).unwrap();
        fs::write(segment_path(place.path(), 5), old_segment(version, "old")).unwrap();
        let mut opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["old"]);
        // Records from here on stand where a build of that version does not look for records that it knows.
        assert_eq!(names(place.path()), ["000005.log", "000006.log"]);
        opened.log.append(&["new"]).unwrap();
        opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["old", "new"]);
        assert!(opened.log.begin_next().unwrap());
        opened.log.append(&["newer"]).unwrap();
        opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["old", "new", "newer"]);
        snapshot(&mut opened.log, &["all"]);
        assert_eq!(open(place.path()).unwrap().records, ["all"]);
        let newest = segment_path(place.path(), 8);
        assert_eq!(fs::read(&newest).unwrap()[7], format::VERSION);
    }
}

/// Records that a build of that version does not know stand in files that it refuses by name.
#[test]
fn a_segment_of_the_version_before_is_read_and_left() {
    let place = tempfile::tempdir().unwrap();
    fs::write(segment_path(place.path(), 1), old_segment(3, "old")).unwrap();
    for _ in 0..2 {
        let opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["old"]);
        assert_eq!(names(place.path()), ["000001.log", "000002.log"]);
    }
    open(place.path()).unwrap().log.append(&["new"]).unwrap();
    assert_eq!(open(place.path()).unwrap().records, ["old", "new"]);
    let version_of = |number: u64| fs::read(segment_path(place.path(), number)).unwrap()[7];
    assert_eq!([version_of(1), version_of(2)], [3, format::VERSION]);
}

#[test]
fn another_shards_log_and_a_later_versions_are_named() {
    let place = tempfile::tempdir().unwrap();
    let path = written(place.path(), &[&["a"]]);
    let said = open_as(place.path(), 4, Durability::Sync).map(|opened| opened.torn).unwrap_err().to_string();
    assert!(said.contains("the log of shard 3"), "{said}");
    let mut bytes = fs::read(&path).unwrap();
    bytes[7] = format::VERSION + 1;
    fs::write(&path, &bytes).unwrap();
    let said = refusal(place.path());
    let expected = format!("a later Weir has written it (log version {}", format::VERSION + 1);
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn room_is_kept_ahead_of_what_is_written() {
    let place = tempfile::tempdir().unwrap();
    let mut log = open(place.path()).unwrap().log;
    assert!(log.look_for_room().unwrap());
    log.append(&["x".repeat(100_000)]).unwrap();
    assert!(log.look_for_room().unwrap());
    let ahead = log.capacity.unwrap() - log.length;
    assert!(ahead >= 200_000, "twice the largest batch, and not {ahead}");
}
