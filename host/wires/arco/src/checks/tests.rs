//! The checks of peers that are reachable, unreachable, or on other machines.

use std::net::TcpListener;

use host_wire_kit::check::{Check, Status};

use crate::settings::tests::read;

fn of(values: &[(&str, &str)], workers: &[(&str, &str)]) -> Vec<(&'static str, Status, String)> {
    let checks = super::all(&read(values, workers).unwrap());
    let shown = checks.into_iter().map(|check: Check| {
        assert_eq!(check.next.is_some(), check.status != Status::Ok);
        let next = check.next.unwrap_or_default();
        for secret in ["from-env", "from-file"] {
            assert!(!check.found.contains(secret) && !next.contains(secret));
        }
        (check.name, check.status, check.found)
    });
    shown.collect()
}

/// Returns the URL of a socket that listens, with the socket.
fn listening() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (
        format!("http://{}", listener.local_addr().unwrap()),
        listener,
    )
}

#[test]
fn nothing_is_checked_without_configuration() {
    assert_eq!(of(&[], &[]), []);
}

#[test]
fn an_unreachable_worker_is_reported() {
    let (there, listener) = listening();
    let (away, gone) = listening();
    drop(gone);
    let table = |url: &str| format!("url = '{url}/arco'\nsecret_file = 'secret'");
    let (there, away) = (table(&there), table(&away));
    let checks = of(&[], &[("away", &away), ("there", &there)]);
    let [(name, status, found), (other, well, taken)] = &checks[..] else {
        panic!("{checks:?}");
    };
    assert_eq!((*name, *status), ("arco worker", Status::Warn));
    assert!(found.starts_with("away at http://127.0.0.1:"), "{found}");
    assert!(found.contains("cannot be reached: "), "{found}");
    assert_eq!((*other, *well), ("arco worker", Status::Ok));
    assert!(taken.contains("there at") && taken.ends_with("accepts connections"));
    drop(listener);
}

#[test]
fn a_worker_without_a_secret_is_reported() {
    let (there, _listener) = listening();
    let checks = of(&[], &[("spark", &format!("url = '{there}'"))]);
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert_eq!((checks[1].0, checks[1].1), ("arco secret", Status::Warn));
}

#[test]
fn a_reachable_control_plane_passes() {
    let (there, _listener) = listening();
    let values = [
        ("worker.listen", "127.0.0.1:0"),
        ("worker.secret_env", "SECRET"),
        ("worker.callback_origins", there.as_str()),
        ("public_url", "https://jobs.example/arco"),
    ];
    let checks = of(&values, &[]);
    assert_eq!(checks.len(), 2, "{checks:?}");
    assert_eq!((checks[0].0, checks[0].1), ("arco callbacks", Status::Ok));
    // A proxy in front of the worker passes on its own name.
    assert_eq!((checks[1].0, checks[1].1), ("arco listener", Status::Ok));
    assert!(checks[1].2.contains("jobs.example"), "{checks:?}");
}

#[test]
fn clear_text_to_other_machines_is_reported() {
    // No host has a name that ends in `.invalid`.
    let table = "url = 'http://spark.invalid:9000'\nsecret_env = 'SECRET'";
    let plain = ("allow_plaintext", "true");
    let checks = of(&[plain], &[("spark", table)]);
    let names: Vec<_> = checks
        .iter()
        .map(|(name, status, _)| (*name, *status))
        .collect();
    let expected = ["arco worker", "arco network", "arco callbacks"];
    assert_eq!(names, expected.map(|name| (name, Status::Warn)));
    assert!(
        checks[2].2.contains("this host's own address"),
        "{checks:?}"
    );
    let public = [plain, ("public_url", "http://host.invalid:7700")];
    assert_eq!(of(&public, &[("spark", table)]).len(), 2);
    let local = [plain, ("public_url", "http://localhost:7700")];
    let checks = of(&local, &[("spark", table)]);
    assert!(checks[2].2.contains("http://localhost:7700"), "{checks:?}");
}
