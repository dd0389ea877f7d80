//! Assembles the components in `tests/guests/wat`: what no compiler makes.

use std::path::PathBuf;

/// Assembles the component `name`.
pub(crate) fn component(name: &str) -> Vec<u8> {
    let path = folder().join(format!("{name}.wat"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/guests/wat"))
}

#[test]
fn all_wat_components_can_be_assembled() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let layer = component(&name)[6];
        assert_eq!(layer, u8::from(name != "core-module"), "{name}");
        names.push(name);
    }
    assert!(names.len() > 20, "{names:?}");
}
