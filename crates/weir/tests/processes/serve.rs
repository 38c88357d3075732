//! `weir serve` and `weir bench --target`, typed wrong, and ended.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use weir_client::{Client, ClusterFile, Settings, loopback};

const NODE: &str = "[nodes.a]\naddress = \"127.0.0.1:0\"\nshards = [0]\n";

fn weir(place: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(place).args(arguments).output().unwrap()
}

#[test]
fn what_is_wrong_is_said_with_a_remedy() {
    let place = tempfile::tempdir().unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = "weir data, format 1\nnode b\nshards 1\n";
    let application = "weir data, format 1\nnode a\nshards 1\ncarries sql 0123456789abcdef\n";
    for directory in ["of-b", "of-another"] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
    }
    for (file, text) in [
        ("good.toml", NODE.to_owned()),
        ("typo.toml", NODE.replace("shards", "shard")),
        ("gap.toml", NODE.replace("[0]", "[1]")),
        ("open.toml", NODE.replace("127.0.0.1", "0.0.0.0")),
        ("busy.toml", NODE.replace("127.0.0.1:0", &busy.local_addr().unwrap().to_string())),
        ("tls.toml", format!("{NODE}[tls]\nauthority = \"ca.pem\"\ncertificate = \"a\"\nkey = \"b\"\n")),
        ("of-b/identity", other.to_owned()),
        ("of-another/identity", application.to_owned()),
    ] {
        std::fs::write(place.path().join(file), text).unwrap();
    }
    let serve = |file: &'static str, more: &[&'static str]| {
        [&["serve", "--cluster", file, "--node", "a"], more].concat()
    };
    let cases: [(Vec<&str>, i32, &[&str]); 18] = [
        (serve("none.toml", &[]), 2, &["none.toml: error:", "hint:"]),
        (serve("typo.toml", &[]), 2, &["typo.toml:3:1: error:", "hint:"]),
        (serve("gap.toml", &[]), 2, &["gap.toml:3:10: error:", "shard 1", "count from 0"]),
        (vec!["serve", "--cluster", "good.toml", "--node", "x"], 2, &["no node `x`", "its nodes are: a"]),
        (serve("good.toml", &["--durability", "sync"]), 2, &["--data"]),
        (serve("good.toml", &["--durability", "memory", "--data", "d"]), 2, &["memory", "hint:"]),
        (serve("open.toml", &[]), 2, &["TLS", "--insecure"]),
        (serve("tls.toml", &[]), 2, &["ca.pem"]),
        (serve("busy.toml", &[]), 1, &["cannot listen on 127.0.0.1"]),
        (serve("good.toml", &["--data", "of-b"]), 1, &["another node", "node b"]),
        (
            serve("good.toml", &["--data", "of-another"]),
            1,
            &[
                "of-another/identity",
                "another application",
                "carries sql 0123456789abcdef",
                "empty directory",
            ],
        ),
        (vec!["bench", "ycsb", "--target", "good.toml"], 2, &["weir:cluster.toml"]),
        (
            vec!["bench", "tpcc", "--target", "weir:good.toml"],
            2,
            &["is a cluster, on which tpcc does not run"],
        ),
        (vec!["run", ".", "--target", "weir:"], 2, &["names no cluster file", "weir:cluster.toml"]),
        (vec!["run", ".", "--target", "weir://host:7401"], 2, &["is an address", "weir:cluster.toml"]),
        (vec!["run", ".", "--target", "weir:of-b"], 2, &["is a directory", "weir:cluster.toml"]),
        (vec!["run", ".", "--target", "weir:none.toml"], 2, &["none.toml: error:", "hint:"]),
        (vec!["run", ".", "--target", "weir:good.toml"], 2, &["carries items", "[application]"]),
    ];
    for (arguments, code, expected) in cases {
        let output = weir(place.path(), &arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        for piece in expected {
            assert!(message.contains(piece), "{arguments:?} does not say {piece:?}:\n{message}");
        }
        assert!(!message.contains("panicked"), "{message}");
    }
}

#[test]
fn who_waits_while_there_are_no_descriptors_is_heard_when_there_are() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("good.toml"), NODE).unwrap();
    let mut node = Command::new("sh")
        .current_dir(place.path())
        .args(["-c", "ulimit -n 40; exec \"$0\" serve --cluster good.toml --node a"])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(node.stderr.take().unwrap()).lines();
    let listening = said.find_map(|line| Some(line.unwrap().split_once("listening on ")?.1.to_owned()));
    let address = listening.unwrap().split(';').next().unwrap().to_owned();
    let mut waiting: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // Behind all of them; when they go, nobody new comes and says so.
    let mut last = waiting.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    last.write_all(&[0; 4]).unwrap();
    drop(waiting);
    let mut answer = Vec::new();
    let _ = last.read_to_end(&mut answer);
    assert!(String::from_utf8_lossy(&answer).contains("no bytes"), "{answer:?}");
    node.kill().and_then(|()| node.wait()).unwrap();
}

/// The system's limit for files stands in for a disk that is full; who ignores the signal is told by an error.
#[test]
fn a_node_whose_disk_is_full_says_so_and_starts_again_with_all_that_it_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("cluster.toml");
    std::fs::write(&file, loopback::nodes(1, 1)).unwrap();
    let start = |before: &str| {
        let mut node = Command::new("sh")
            .current_dir(place.path())
            .args(["-c", &format!("{before} exec \"$0\" serve --cluster cluster.toml --node n0 --data d")])
            .arg(env!("CARGO_BIN_EXE_weir"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(node.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("listening on")));
        (node, said)
    };
    let (mut node, said) = start("trap '' XFSZ; ulimit -f 20000;");
    let cluster = ClusterFile::read(&file).unwrap();
    let settings = Settings { deadline: Duration::from_secs(5), ..Settings::default() };
    let client = Client::connect_with(&cluster, settings).unwrap();
    let value = vec![7; 100_000];
    let acknowledged = (0..).take_while(|n| client.put_all([(format!("key{n:04}"), &value)]).is_ok()).count();
    assert_eq!(node.wait().unwrap().code(), Some(1));
    let said: Vec<String> = said.map(Result::unwrap).collect();
    let said = said.join("\n");
    for piece in ["d/shard-0/000001.log: File too large", "Make room and start it again"] {
        assert!(said.contains(piece), "{piece:?} is not said:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    let (mut node, said) = start("");
    // Nobody else reads what it says.
    let listens = std::thread::spawn(move || said.count());
    let found = Client::connect(&cluster).unwrap().scan("key", "kez").unwrap();
    // A write that was on its way when the disk was full may have been written or not.
    assert!((acknowledged..=acknowledged + 1).contains(&found.len()), "{} of {acknowledged}", found.len());
    assert!(acknowledged > 5);
    node.kill().and_then(|()| node.wait()).unwrap();
    listens.join().unwrap();
}

#[test]
fn a_node_ends_when_it_is_told_to_and_its_data_is_its_own() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("good.toml"), NODE).unwrap();
    let serve = ["serve", "--cluster", "good.toml", "--node", "a", "--data", "d"];
    let mut node = Command::new(env!("CARGO_BIN_EXE_weir"))
        .current_dir(place.path())
        .args(serve)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(node.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on 127.0.0.1:")));
    let second = weir(place.path(), &serve);
    let message = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(1) && message.contains("another process"), "{message}");
    let ended = Command::new("kill").arg(node.id().to_string()).status().unwrap();
    assert!(ended.success());
    assert_eq!(node.wait().unwrap().code(), Some(0));
}
