//! Cells of one component each, seen from outside: the files mapped into them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use host_tests::processes::{children, command};
use host_tests::{Options, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{deploy, own};

const COMPONENTS: [&str; 4] = ["basics", "hostile", "hero-rhai", "actions"];

/// Returns the inodes of all compiled components.
fn compiled(data: &Path) -> BTreeSet<u64> {
    let files = fs::read_dir(data.join("cache"))
        .unwrap()
        .filter_map(|file| Some(file.unwrap().metadata().ok()?.ino()));
    files.collect()
}

/// Returns the files that each cell has mapped. A cell that has ended has none.
fn mapped(host: u32) -> BTreeMap<u32, BTreeSet<u64>> {
    let cells = children(host)
        .into_iter()
        .filter(|child| command(*child).contains("cell run"));
    cells
        .filter_map(|cell| Some((cell, mapped_in(cell)?)))
        .collect()
}

/// Returns the files that a process has mapped, if it has not ended.
fn mapped_in(process: u32) -> Option<BTreeSet<u64>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let inode = |line: &str| line.split_whitespace().nth(4)?.parse().ok();
    Some(maps.lines().filter_map(inode).collect())
}

#[test]
fn no_two_components_share_a_cell() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options.args = ["--cell-isolation=component", "--cells=2"]
        .map(str::to_owned)
        .into();
    let server = Server::start(&options);
    let client = server.client();
    for component in COMPONENTS {
        deploy(&client, component);
    }
    let health = client.get("/healthz").unwrap();
    assert_eq!(health.body["isolation"], "component", "{health:?}");
    let script = r#"run("vm.define", #{name: "a"}); run("echo", #{n: 1}).n"#;
    let kinds: [Value; 5] = [
        json!({"handler": "echo", "params": {"n": 1}}),
        json!({"handler": "sleep", "params": {"ms": 20}}),
        json!({"handler": "clock"}),
        json!({"handler": "vm.attempt"}),
        json!({"handler": "hero.rhai", "params": {"script": script}, "max_attempts": 1}),
    ];
    let compiled = compiled(data.path());
    let mut had: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut look = || {
        for (cell, files) in mapped(server.pid()) {
            let code = files.intersection(&compiled);
            had.entry(cell).or_default().extend(code);
        }
    };
    for _ in 0..8 {
        let jobs: Vec<String> = kinds.iter().map(|kind| client.enqueue(kind)).collect();
        look();
        for job in jobs {
            let job = client.wait(&job);
            assert_eq!(job["state"], "completed", "{job}");
            look();
        }
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root sees the mappings of a non-dumpable process");
        return;
    }
    let seen: BTreeSet<u64> = had.values().flatten().copied().collect();
    assert_eq!(seen.len(), COMPONENTS.len(), "all were seen: {had:?}");
    assert!(had.values().all(|files| files.len() <= 1), "{had:?}");
}

/// The same jobs in shared cells prove that the test above can detect sharing.
#[test]
fn components_share_cells_unless_configured_otherwise() {
    let own = crate::fixture::own();
    let client = own.server.client();
    deploy(&client, "actions");
    let compiled = compiled(own.data.path());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for _ in 0..4 {
        client.run(&json!({"handler": "vm.attempt"}));
        client.run(&json!({"handler": "noop"}));
    }
    let cells = mapped(own.server.pid());
    let mut shared = cells.values();
    assert!(
        shared.any(|files| files.intersection(&compiled).count() > 1),
        "{cells:?}"
    );
}

#[test]
fn the_host_maps_no_code_of_guests() {
    let own = own();
    let job = own.server.client().run(&json!({"handler": "noop"}));
    assert_eq!(job["state"], "completed", "{job}");
    let mapped = mapped_in(own.server.pid()).unwrap();
    let program = fs::metadata(host_tests::server::host()).unwrap().ino();
    assert!(mapped.contains(&program), "its own program is mapped");
    let compiled = compiled(own.data.path());
    assert!(!compiled.is_empty() && mapped.is_disjoint(&compiled));
}
