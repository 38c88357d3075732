//! Clients and nodes over loopback: real sockets, real logs, nodes that end and start again.

use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::servers::Cluster;
use weir_client::export::export;
use weir_client::{Client, ClusterFile, Error, Isolation, Key, Settings, Transaction, Write};
use weir_kv::Record;

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("key{n}")).collect()
}

fn values(client: &Client, keys: &[String]) -> Vec<Option<String>> {
    let read = client.get_all(keys).unwrap();
    read.into_iter().map(|value| value.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())).collect()
}

#[test]
fn what_is_written_together_is_read_together() {
    let cluster = Cluster::start(2, false, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let keys = keys(16);
    assert_eq!(values(&client, &keys), vec![None; 16]);
    client.put_all(keys.iter().map(|key| (key, "one"))).unwrap();
    assert_eq!(values(&client, &keys), vec![Some("one".to_string()); 16]);
    client.write_all(vec![(Key::from("key3"), Write::Delete), (Key::from("n"), Write::Add(5))]).unwrap();
    let all = client.scan("key", "kez").unwrap();
    assert_eq!(all.len(), 15);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let other = Client::connect(&cluster.file).unwrap();
    let read = other.get_all(["n", "key3"]).unwrap();
    assert_eq!(read, [Some(weir_client::Bytes::new(&5_i64.to_be_bytes())), None]);
}

#[test]
fn many_threads_see_no_fractured_read() {
    let cluster = Cluster::start(2, false, |_| String::new());
    let keys = keys(6);
    std::thread::scope(|threads| {
        for writer in 0..3 {
            let (file, keys) = (&cluster.file, &keys);
            threads.spawn(move || {
                let client = Client::connect(file).unwrap();
                for round in 0..60 {
                    client.put_all(keys.iter().map(|key| (key, format!("{writer}.{round}")))).unwrap();
                }
            });
        }
        for _ in 0..3 {
            let (file, keys) = (&cluster.file, &keys);
            threads.spawn(move || {
                let client = Client::connect(file).unwrap();
                for _ in 0..120 {
                    let read = values(&client, keys);
                    assert!(read.windows(2).all(|pair| pair[0] == pair[1]), "{read:?}");
                }
            });
        }
    });
}

#[test]
fn a_node_that_starts_again_has_what_was_acknowledged() {
    let mut cluster = Cluster::start(2, true, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let keys = keys(12);
    for round in 0..4 {
        let value = format!("{round}");
        client.put_all(keys.iter().map(|key| (key, &value))).unwrap();
        let node = round % 2;
        cluster.stop_node(node);
        let in_flight = client.begin(Transaction {
            reads: keys.iter().map(|key| Key::from(key.as_str())).collect(),
            ..Transaction::default()
        });
        cluster.start_node(node);
        let read = in_flight.wait().unwrap().read;
        let read: Vec<_> = read.items.iter().map(|item| item.value.as_deref().map(<[u8]>::to_vec)).collect();
        assert_eq!(read, vec![Some(value.into_bytes()); keys.len()]);
    }
}

#[test]
fn a_deadline_says_what_is_in_the_way_and_leaves_no_half_behind() {
    let mut cluster = Cluster::start(2, true, |_| String::new());
    let settings = Settings { deadline: Duration::from_millis(300), ..Settings::default() };
    let client = Client::connect_with(&cluster.file, settings).unwrap();
    let keys = keys(12);
    client.put_all(keys.iter().map(|key| (key, "before"))).unwrap();
    cluster.stop_node(1);
    let error = client.put_all(keys.iter().map(|key| (key, "after"))).unwrap_err();
    let Error::Unknown(why) = error else { panic!("{error:?}") };
    assert!(why.contains(&cluster.address(1).to_string()), "{why}");
    assert!(matches!(client.get_all(&keys), Err(Error::Deadline(_))));
    cluster.start_node(1);
    let patient = Client::connect(&cluster.file).unwrap();
    for _ in 0..5 {
        let read = values(&patient, &keys);
        assert!(read.windows(2).all(|pair| pair[0] == pair[1]), "{read:?}");
    }
}

#[test]
fn what_a_lost_client_had_prepared_is_resolved() {
    let cluster = Cluster::start(2, true, |_| String::new());
    let keys = keys(8);
    // Clients that are dropped in the middle: COMMIT may have gone, or nothing but PREPARE.
    for round in 0..12 {
        let client = Client::connect(&cluster.file).unwrap();
        client.get_all(&keys).unwrap();
        let writes = keys.iter().map(|key| {
            (Key::from(key.as_str()), Write::Put(weir_client::Bytes::from(format!("{round}").as_str())))
        });
        drop(client.begin(Transaction { writes: writes.collect(), ..Transaction::default() }));
    }
    let client = Client::connect(&cluster.file).unwrap();
    for _ in 0..5 {
        let read = values(&client, &keys);
        assert!(read.windows(2).all(|pair| pair[0] == pair[1]), "{read:?}");
    }
}

#[test]
fn who_speaks_nonsense_is_closed_and_harms_nobody() {
    let cluster = Cluster::start(1, false, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    client.put_all([("a", "1"), ("b", "2")]).unwrap();
    let said = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(cluster.address(0)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // Closed with bytes unread is reset.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    for (bytes, why) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "is it Weir"),
        (&[0, 0, 0, 0], "no bytes"),
        (&[2, 0, 0, 0, 77, 0], "kind 77"),
        (&[3, 0, 0, 0, 1, 9, 9], "cannot be read"),
        (&[3, 0, 0, 0, 4, 9, 9], "was due"),
    ] {
        let answer = said(bytes);
        assert!(answer.contains(why), "{answer:?}");
    }
    // Half a frame, and nothing more: nobody waits for it.
    let _half =
        TcpStream::connect(cluster.address(0)).map(|mut stream| stream.write_all(&[9, 0, 0])).unwrap();
    assert_eq!(values(&client, &["a".into(), "b".into()]), [Some("1".into()), Some("2".into())]);
}

#[test]
fn another_secret_is_refused_at_once() {
    let secret = |text: &'static str| {
        move |place: &Path| {
            std::fs::write(place.join("secret"), text).unwrap();
            "secret_file = \"secret\"\n".to_string()
        }
    };
    let cluster = Cluster::start(1, false, secret("sixteen bytes and more"));
    let client = Client::connect(&cluster.file).unwrap();
    client.put_all([("a", "1")]).unwrap();
    std::fs::write(cluster.place.path().join("secret"), "another secret altogether").unwrap();
    let address = cluster.address(0);
    let text = format!("secret_file = \"secret\"\n[nodes.n0]\naddress = \"{address}\"\nshards = [0, 1]\n");
    let guess = ClusterFile::parse(&cluster.place.path().join("cluster.toml"), &text).unwrap();
    let stranger = Client::connect(&guess).unwrap();
    let error = stranger.get_all(["a"]).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("secret")), "{error:?}");
}

#[test]
fn tls_carries_the_same() {
    let certificates = |place: &Path| {
        let authority = rcgen::KeyPair::generate().unwrap();
        let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let signed = of_authority.self_signed(&authority).unwrap();
        let issuer = rcgen::Issuer::new(of_authority, authority);
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
        let own = params.signed_by(&key, &issuer).unwrap();
        for (file, text) in
            [("ca.pem", signed.pem()), ("own.pem", own.pem()), ("own.key", key.serialize_pem())]
        {
            std::fs::write(place.join(file), text).unwrap();
        }
        "[tls]\nauthority = \"ca.pem\"\ncertificate = \"own.pem\"\nkey = \"own.key\"\n".to_string()
    };
    let cluster = Cluster::start(2, false, certificates);
    let client = Client::connect(&cluster.file).unwrap();
    let keys = keys(20);
    let long = "x".repeat(100_000);
    client.put_all(keys.iter().map(|key| (key, &long))).unwrap();
    assert_eq!(values(&client, &keys), vec![Some(long); 20]);
    // Without TLS nobody gets anywhere.
    let mut plain = cluster.file.clone();
    plain = ClusterFile::parse(
        Path::new("plain.toml"),
        &format!(
            "[nodes.n0]\naddress = \"{}\"\nshards = [0, 1]\n[nodes.n1]\naddress = \"{}\"\nshards = [2, 3]\n",
            plain.nodes["n0"].address, plain.nodes["n1"].address
        ),
    )
    .unwrap();
    let settings = Settings { deadline: Duration::from_millis(300), ..Settings::default() };
    let stranger = Client::connect_with(&plain, settings).unwrap();
    assert!(stranger.get_all(&keys).is_err());
}

#[test]
fn statements_of_one_transaction_agree() {
    let cluster = Cluster::start(2, false, |_| String::new());
    let (client, other) = (Client::connect(&cluster.file).unwrap(), Client::connect(&cluster.file).unwrap());
    client.put_all([("next", "a"), ("a", "1"), ("b", "1")]).unwrap();
    let text = |read: Vec<Option<weir_client::Bytes>>| {
        String::from_utf8(read[0].as_deref().unwrap_or_default().to_vec()).unwrap()
    };
    let mut walk = client.open(Isolation::ReadAtomic).unwrap();
    let next = text(walk.get_all(["next"]).unwrap());
    // Later writes are not of the state that the first statement has read.
    other.put_all([("next", "b"), ("a", "2"), ("b", "2")]).unwrap();
    assert_eq!((next.as_str(), text(walk.get_all([&next]).unwrap())), ("a", "1".to_string()));
    walk.put("a", "3").unwrap();
    assert_eq!(text(walk.get_all(["a"]).unwrap()), "3");
    assert_eq!(walk.scan("a", "c").unwrap().len(), 2);
    assert_eq!(text(other.get_all(["a"]).unwrap()), "2");
    walk.commit().unwrap();
    assert_eq!(text(other.get_all(["a"]).unwrap()), "3");
    let mut each = client.open(Isolation::ReadCommitted).unwrap();
    each.get_all(["b"]).unwrap();
    other.put_all([("b", "4")]).unwrap();
    assert_eq!(text(each.get_all(["b"]).unwrap()), "4");
    each.put("b", "never").unwrap();
    drop(each);
    assert_eq!(text(client.get_all(["b"]).unwrap()), "4");
}

#[test]
fn a_shard_can_be_fetched_whole() {
    let cluster = Cluster::start(1, true, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let long = "x".repeat(50_000);
    let keys = keys(100);
    client.put_all(keys.iter().map(|key| (key, &long))).unwrap();
    let bytes: usize = (0..2)
        .map(|shard| {
            let terms = cluster.file.terms();
            let record: Record = export(&cluster.file, &terms, shard, Duration::from_secs(20)).unwrap();
            assert!(matches!(record, Record::Snapshot(_)));
            format!("{record:?}").len()
        })
        .sum();
    assert!(bytes > 100 * long.len(), "{bytes}");
}

#[test]
fn who_sends_and_asks_for_a_lot_at_once_gets_all_of_it() {
    let cluster = Cluster::start(1, false, |_| String::new());
    let settings = Settings { deadline: Duration::from_secs(120), ..Settings::default() };
    let client = Client::connect_with(&cluster.file, settings).unwrap();
    let large = vec![7; 5 << 20];
    client.put_all([("large", &large)]).unwrap();
    // More than sockets hold, in both directions.
    let both = |n: usize| {
        let writes = vec![(
            Key::from(format!("key{n}").as_str()),
            Write::Put(weir_client::Bytes::new(&large[..3 << 20])),
        )];
        client.begin(Transaction { reads: vec![Key::from("large")], writes, ..Transaction::default() })
    };
    let in_flight: Vec<_> = (0..24).map(both).collect();
    for one in in_flight {
        assert_eq!(one.wait().unwrap().read.items[0].value.as_deref(), Some(&large[..]));
    }
}

#[test]
fn a_read_that_is_too_large_is_told_so_and_harms_nothing_else() {
    let cluster = Cluster::start(1, false, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let keys = keys(48);
    let value = vec![7; 1 << 20];
    for key in &keys {
        client.put_all([(key, &value)]).unwrap();
    }
    let all = Transaction {
        reads: keys.iter().map(|key| Key::from(key.as_str())).collect(),
        writes: vec![(Key::from("after"), Write::Add(1))],
        ..Transaction::default()
    };
    let (large, small) = (
        client.begin(all),
        client.begin(Transaction { reads: vec![Key::from("key1")], ..Transaction::default() }),
    );
    let is_told = |error: Error| matches!(&error, Error::Unfit(why) if why.contains("16 MiB"));
    assert!(is_told(large.wait().unwrap_err()));
    assert!(small.wait().is_ok());
    assert!(is_told(client.scan("key", "kez").unwrap_err()));
    let mut statements = client.open(Isolation::ReadAtomic).unwrap();
    assert!(is_told(statements.get_all(&keys).unwrap_err()));
    assert_eq!(statements.get_all(["key1"]), Err(Error::Restart));
    assert_eq!(client.get_all(["after"]).unwrap(), [None]);
    let parts: usize = keys.chunks(12).map(|some| client.get_all(some).unwrap().len()).sum();
    assert_eq!(parts, keys.len());
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_sent() {
    let cluster = Cluster::start(1, false, |_| String::new());
    let client = Client::connect(&cluster.file).unwrap();
    let huge = vec![0; weir_client::TRANSACTION_BYTES_MAX];
    assert!(matches!(client.put_all([("a", &huge)]), Err(Error::Unfit(_))));
    assert!(matches!(client.put_all([("a", "1"), ("a", "2")]), Err(Error::Unfit(_))));
    let mut statements = client.open(Isolation::ReadAtomic).unwrap();
    statements.put("b", &huge[..5 << 20]).unwrap();
    assert!(matches!(statements.put("c", &huge[..5 << 20]), Err(Error::Unfit(_))));
    statements.commit().unwrap();
    let large = vec![7; 5 << 20];
    client.put_all([("a", &large)]).unwrap();
    assert_eq!(client.get_all(["a"]).unwrap()[0].as_deref(), Some(&large[..]));
    assert_eq!(client.get_all(Vec::<&str>::new()).unwrap(), []);
}
