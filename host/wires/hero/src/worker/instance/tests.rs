//! The name of a host among those that share queues.

use super::kept_in;

#[test]
fn a_host_keeps_its_name_and_a_copy_has_another() {
    let data = tempfile::TempDir::new().unwrap();
    let (path, copy) = (data.path().join("a"), data.path().join("b"));
    let first = kept_in(&path).unwrap();
    assert_eq!(kept_in(&path).unwrap(), first);
    std::fs::copy(&path, &copy).unwrap();
    assert_ne!(kept_in(&copy).unwrap(), first);
    std::fs::write(&copy, "").unwrap();
    assert!(
        kept_in(&copy).unwrap().len() > 32,
        "an empty file has no name"
    );
}
