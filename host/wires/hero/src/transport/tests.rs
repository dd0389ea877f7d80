//! Which answers require a new connection.

use super::*;

#[test]
fn a_redis_that_does_no_work_is_left() {
    let table = [
        (
            "READONLY You can't write against a read only replica.",
            "read-only replica",
        ),
        ("MASTERDOWN Link with MASTER is down", "lost its master"),
        (
            "UNBLOCKED force unblock from blocking operation",
            "become a replica",
        ),
        (
            "LOADING Redis is loading the dataset in memory",
            "loading its data",
        ),
    ];
    for (text, words) in table {
        let why = elsewhere(&Value::Error(text.to_owned())).unwrap();
        assert!(why.contains(words) && why.contains(text), "{why}");
    }
    for text in [
        "OOM command not allowed",
        "NOPERM no",
        "WRONGTYPE",
        "ERR READONLY",
        "",
    ] {
        assert_eq!(elsewhere(&Value::Error(text.to_owned())), None, "{text}");
    }
    assert_eq!(elsewhere(&Value::Data(b"READONLY".to_vec())), None);
}
