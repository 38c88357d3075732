//! Older data that is put back is refused by whoever has seen newer, by name, and nothing of it is served (docs/internals/old-data.md).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::nodes::Nodes;
use weir_client::{Client, ClusterFile, Error, Settings};

const NODES: usize = 3;
/// The node whose data is put back.
const OLD: usize = 1;
/// Longer than what one shard alone has done may be unknown to others.
const LAG: Duration = Duration::from_millis(3_000);

fn file(nodes: &Nodes) -> ClusterFile {
    ClusterFile::read(&nodes.file()).unwrap()
}

fn connect(nodes: &Nodes) -> Client {
    let settings = Settings { deadline: Duration::from_secs(20), ..Settings::default() };
    Client::connect_with(&file(nodes), settings).unwrap()
}

/// Keys, so many that each shard has some.
fn keys() -> Vec<String> {
    (0..48).map(|n| format!("key{n}")).collect()
}

/// A transaction over all shards.
fn write(client: &Client, value: &str) {
    client.put_all(keys().iter().map(|key| (key, value))).unwrap();
}

fn read(client: &Client) -> Vec<String> {
    let read = client.get_all(keys()).unwrap();
    let text = |value: Option<weir_client::Bytes>| {
        value.map_or_else(String::new, |value| String::from_utf8_lossy(&value).into_owned())
    };
    let mut found: Vec<String> = read.into_iter().map(text).collect();
    found.dedup();
    found
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// Replaces the data of a node by the copy.
fn put_back(nodes: &Nodes, node: usize, copied: &Path) {
    let (data, kept) = (nodes.data_of(node), nodes.place.path().join(format!("kept-n{node}")));
    if !kept.exists() {
        std::fs::rename(&data, &kept).unwrap();
    } else if data.exists() {
        std::fs::remove_dir_all(&data).unwrap();
    }
    copy(copied, &data);
}

fn check_refused(nodes: &mut Nodes) {
    let before = nodes.said_by(OLD).len();
    nodes.start_again(OLD);
    let status = nodes.ends(OLD);
    let said = nodes.said_by(OLD)[before..].to_owned();
    assert!(!status.success(), "{said}");
    for word in ["is older than what has been seen of it", "node `n", "--accept-older-data", "shard-"] {
        assert!(said.contains(word) || word == "shard-" && said.contains("/n1"), "{word}: {said}");
    }
    assert!(!said.contains("listening"), "{said}");
}

/// The newest data starts as ever, and all of it is there.
fn check_newest_is_whole(nodes: &mut Nodes, value: &str) {
    std::fs::remove_dir_all(nodes.data_of(OLD)).unwrap();
    std::fs::rename(nodes.place.path().join(format!("kept-n{OLD}")), nodes.data_of(OLD)).unwrap();
    nodes.start_again(OLD);
    assert_eq!(read(&connect(nodes)), [value]);
}

#[test]
fn a_copy_that_was_taken_while_the_node_ran_is_refused() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    let copied = nodes.place.path().join("copied");
    let client = connect(&nodes);
    write(&client, "one");
    copy(&nodes.data_of(OLD), &copied);
    // Of what a transaction over several shards rests on all its shards know at once, and on their disks.
    write(&client, "two");
    drop(client);
    (0..NODES).for_each(|node| nodes.kill(node));
    for node in [0, 2] {
        nodes.start_again(node);
        nodes.wait_for(node, 2);
    }
    put_back(&nodes, OLD, &copied);
    check_refused(&mut nodes);
    check_refused(&mut nodes);
    check_newest_is_whole(&mut nodes, "two");
}

#[test]
fn a_copy_that_was_taken_while_the_node_stood_is_refused() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    let copied = nodes.place.path().join("copied");
    write(&connect(&nodes), "one");
    nodes.kill(OLD);
    copy(&nodes.data_of(OLD), &copied);
    nodes.start_again(OLD);
    // Other shards hear of work that one shard has done alone within the stated time.
    let client = connect(&nodes);
    for key in keys() {
        client.put_all([(key.as_str(), "two")]).unwrap();
    }
    drop(client);
    std::thread::sleep(LAG);
    (0..NODES).for_each(|node| nodes.kill(node));
    for node in [0, 2] {
        nodes.start_again(node);
        nodes.wait_for(node, 2);
    }
    put_back(&nodes, OLD, &copied);
    check_refused(&mut nodes);
    check_newest_is_whole(&mut nodes, "two");
}

#[test]
fn an_empty_directory_in_place_of_a_used_one_is_refused() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    write(&connect(&nodes), "one");
    nodes.kill(OLD);
    let empty = nodes.place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    put_back(&nodes, OLD, &empty);
    check_refused(&mut nodes);
    // Nor is it taken for what the first refusal has left there.
    check_refused(&mut nodes);
    check_newest_is_whole(&mut nodes, "one");
}

#[test]
fn one_shard_of_a_node_is_compared_with_the_others_of_it() {
    let mut nodes = Nodes::start(1, 2, "", true);
    let (shard, copied) = (nodes.data_of(0).join("shard-1"), nodes.place.path().join("copied"));
    let client = connect(&nodes);
    write(&client, "one");
    copy(&shard, &copied);
    write(&client, "two");
    drop(client);
    nodes.kill(0);
    let kept = nodes.place.path().join("kept");
    std::fs::rename(&shard, &kept).unwrap();
    copy(&copied, &shard);
    nodes.start_again(0);
    assert!(!nodes.ends(0).success());
    let said = nodes.said_by(0);
    assert!(said.contains("the data of shard 1 is older"), "{said}");
    std::fs::remove_dir_all(&shard).unwrap();
    std::fs::rename(&kept, &shard).unwrap();
    nodes.start_again(0);
    assert_eq!(read(&connect(&nodes)), ["two"]);
}

#[test]
fn all_nodes_put_back_together_are_taken_and_a_client_that_knows_better_is_not() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    let place = nodes.place.path().to_owned();
    let lives = connect(&nodes);
    write(&lives, "one");
    (0..NODES).for_each(|node| nodes.kill(node));
    (0..NODES).for_each(|node| copy(&nodes.data_of(node), &place.join(format!("copied{node}"))));
    (0..NODES).for_each(|node| nodes.start_again(node));
    write(&lives, "two");
    (0..NODES).for_each(|node| nodes.kill(node));
    (0..NODES).for_each(|node| put_back(&nodes, node, &place.join(format!("copied{node}"))));
    (0..NODES).for_each(|node| nodes.start_again(node));
    assert_eq!(read(&connect(&nodes)), ["one"]);
    let error = lives.get_all(keys()).unwrap_err();
    assert!(
        matches!(&error, Error::Refused(why) if why.contains("is older than what has been seen")),
        "{error}"
    );
    write(&connect(&nodes), "three");
    assert_eq!(read(&connect(&nodes)), ["three"]);
}

#[test]
fn what_is_given_up_is_served_and_stays_so() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    let copied = nodes.place.path().join("copied");
    let client = connect(&nodes);
    write(&client, "one");
    copy(&nodes.data_of(OLD), &copied);
    write(&client, "two");
    drop(client);
    nodes.kill(OLD);
    put_back(&nodes, OLD, &copied);
    check_refused(&mut nodes);
    nodes.start_again_with(OLD, &["--accept-older-data"]);
    let client = connect(&nodes);
    let found = read(&client);
    assert!(found.contains(&"one".to_owned()) && found.contains(&"two".to_owned()), "in part: {found:?}");
    write(&client, "three");
    for node in [OLD, 0, OLD] {
        nodes.kill_and_start_again(node);
        assert_eq!(read(&connect(&nodes)), ["three"]);
    }
}

/// No node with newer knowledge runs when it starts.
#[test]
fn older_data_ends_when_somebody_comes_who_knows_better() {
    let mut nodes = Nodes::start(NODES, 2, "", true);
    let copied = nodes.place.path().join("copied");
    let client = connect(&nodes);
    write(&client, "one");
    copy(&nodes.data_of(OLD), &copied);
    write(&client, "two");
    drop(client);
    (0..NODES).for_each(|node| nodes.kill(node));
    put_back(&nodes, OLD, &copied);
    nodes.start_again(OLD);
    nodes.wait_for(OLD, 2);
    assert!(nodes.said_by(OLD).contains("cannot be asked"));
    nodes.start_again(0);
    assert!(!nodes.ends(OLD).success());
    assert!(nodes.said_by(OLD).contains("is older than what has been seen"), "{}", nodes.said_by(OLD));
    nodes.start_again(2);
    check_newest_is_whole(&mut nodes, "two");
}
