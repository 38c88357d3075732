//! Builds of two versions in one cluster: nodes and clients that speak version 1 alone beside those that speak 2, and the log of a
//! node of the version before.

use std::collections::BTreeMap;
use std::path::Path;

use crate::servers::Cluster;
use weir_client::{Client, ClusterFile, Error, Settings, loopback};
use weir_server::serve::{self, Durability, Server};

fn write_and_read(client: &Client, value: &str) {
    let keys: Vec<String> = (0..16).map(|n| format!("key{n}")).collect();
    client.put_all(keys.iter().map(|key| (key, value))).unwrap();
    let read = client.get_all(&keys).unwrap();
    assert!(read.iter().all(|one| one.as_deref() == Some(value.as_bytes())), "{read:?}");
}

#[test]
fn nodes_and_clients_of_two_versions_serve_together() {
    let older = BTreeMap::from([(1, 1..=1)]);
    let mut cluster = Cluster::of_versions(3, true, |_| String::new(), older);
    let clients = [1..=1, 1..=2].map(|versions| {
        Client::connect_with(&cluster.file, Settings { versions, ..Settings::default() }).unwrap()
    });
    // Transactions over all nodes, and shards that ask each other what a lost client has left.
    for round in 0..3 {
        for (at, client) in clients.iter().enumerate() {
            write_and_read(client, &format!("{round}.{at}"));
        }
        let lost = Client::connect(&cluster.file).unwrap();
        lost.get_all(["key1"]).unwrap();
        let write = |n: usize| (format!("key{n}").as_str().into(), weir_client::Write::Put("lost".into()));
        let writes = (0..16).map(write).collect();
        drop(lost.begin(weir_client::Transaction { writes, ..Default::default() }));
        drop(lost);
        // Each is told to end once: the newer one takes its leave of whoever knows the word.
        cluster.stop_node(round);
        cluster.start_node(round);
    }
    clients.iter().for_each(|client| write_and_read(client, "last"));
    // A version that nobody speaks is refused by name.
    let ahead = Client::connect_with(&cluster.file, Settings { versions: 7..=8, ..Settings::default() });
    let error = ahead.unwrap().get_all(["key1"]).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("speaks versions 1 to")), "{error}");
}

/// Puts the data of node 1 back to before a transaction over all shards, and starts it. `versions`: by node.
fn put_back(versions: BTreeMap<usize, std::ops::RangeInclusive<u16>>) -> Result<Vec<String>, String> {
    let mut cluster = Cluster::of_versions(3, true, |_| String::new(), versions);
    (0..3).for_each(|node| cluster.stop_node(node));
    (0..3).for_each(|node| cluster.try_start_node(node, Durability::Sync).unwrap());
    let client = Client::connect(&cluster.file).unwrap();
    write_and_read(&client, "one");
    cluster.stop_node(1);
    let (data, copied) = (cluster.data_of(1), cluster.place.path().join("copied"));
    for shard in [2, 3].map(|shard| format!("shard-{shard}")) {
        std::fs::create_dir_all(copied.join(&shard)).unwrap();
        for file in std::fs::read_dir(data.join(&shard)).unwrap().map(|file| file.unwrap()) {
            std::fs::copy(file.path(), copied.join(&shard).join(file.file_name())).unwrap();
        }
    }
    cluster.try_start_node(1, Durability::Sync).unwrap();
    write_and_read(&client, "two");
    cluster.stop_node(1);
    for shard in [2, 3].map(|shard| format!("shard-{shard}")) {
        std::fs::remove_dir_all(data.join(&shard)).unwrap();
        std::fs::rename(copied.join(&shard), data.join(&shard)).unwrap();
    }
    drop(client);
    cluster.try_start_node(1, Durability::Sync).map_err(|refused| refused.to_string())?;
    let read = Client::connect(&cluster.file).unwrap().get_all((0..16).map(|n| format!("key{n}"))).unwrap();
    let text = |value: Option<weir_client::Bytes>| {
        value.map_or_else(String::new, |value| String::from_utf8_lossy(&value).into_owned())
    };
    Ok(read.into_iter().map(text).collect())
}

/// Where nobody compares, half of a transaction is served: so it is the comparison that keeps that from happening. One other node that
/// compares is enough.
#[test]
fn older_data_is_refused_by_whoever_compares_and_by_nobody_else() {
    let read = put_back((0..3).map(|node| (node, 1..=4)).collect()).unwrap();
    assert!(read.iter().any(|one| one == "one") && read.iter().any(|one| one == "two"), "{read:?}");
    for versions in [BTreeMap::new(), BTreeMap::from([(0, 1..=4)]), BTreeMap::from([(2, 1..=4)])] {
        let refused = put_back(versions.clone()).unwrap_err();
        assert!(refused.contains("is older than what has been seen of it"), "{versions:?}: {refused}");
    }
    // A party that speaks an older version itself is told nothing, and says nothing.
    assert!(put_back(BTreeMap::from([(1, 1..=4)])).is_ok());
}

/// `testdata/segments/version-1`: the data of a node that `weir bench ycsb --set items=12` has run on, by a build of log version 1.
#[test]
fn a_log_of_the_version_before_is_read() {
    let place = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/segments/version-1");
    let data = place.path().join("data");
    std::fs::create_dir_all(data.join("shard-0")).unwrap();
    for file in ["identity", "shard-0/000001.log"] {
        std::fs::copy(kept.join(file), data.join(file)).unwrap();
    }
    let cluster = ClusterFile::parse(Path::new("cluster.toml"), &loopback::nodes(1, 1)).unwrap();
    for start in 0..2 {
        let settings = serve::Settings {
            data: Some((data.clone(), Durability::Sync)),
            ..serve::Settings::new(cluster.clone(), "n0")
        };
        let (server, stop) = Server::start(settings).unwrap();
        let runs = std::thread::spawn(move || server.wait());
        let client = Client::connect(&cluster).unwrap();
        // Added fields stand behind, in the same segment.
        assert_eq!(client.scan("", "\u{ff}").unwrap().len(), 12 + start);
        client.put_all([("a new one", "x")]).unwrap();
        stop.stop();
        runs.join().unwrap().unwrap();
    }
    let segment = std::fs::read(data.join("shard-0/000001.log")).unwrap();
    assert_eq!(&segment[..8], b"WEIRLOG\x01");
}
