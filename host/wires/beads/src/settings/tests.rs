//! What the section accepts, as tables.

use host_wire_kit::section::TestSources;

use super::*;

fn read(environment: &[(&str, &str)], table: bool) -> Result<Option<OrchestratorConfig>, String> {
    let sources = TestSources {
        environment,
        file: if table { "[protocol.beads]" } else { "" },
        ..TestSources::default()
    };
    sources
        .read(&crate::BEADS, BeadsConfig::read)
        .map(|config| config.orchestrator)
        .map_err(|error| error.to_string())
}

#[test]
fn the_table_or_a_socket_turns_it_on() {
    assert_eq!(read(&[], false), Ok(None));
    let config = read(&[], true).unwrap().unwrap();
    let expected = OrchestratorConfig {
        executor: EXECUTOR.parse().unwrap(),
        socket: SOCKET_DEFAULT.to_owned(),
        workers_max: 256,
        wait_seconds: 1,
        hold_ms: 20_000,
    };
    assert_eq!(config, expected);
    assert_eq!(
        config.path(4711).to_str(),
        Some("/tmp/beads-workers-4711.sock")
    );
    assert_eq!(read(&[("HOST_BEADS_SOCKET", "off")], true), Ok(None));
    let environment = [
        ("HOST_BEADS_SOCKET", "/run/b.sock"),
        ("HOST_BEADS_MAX_WORKERS", "4096"),
        ("HOST_BEADS_WAIT_SECONDS", "1"),
        ("HOST_BEADS_HOLD_SECONDS", "0.5"),
    ];
    let config = read(&environment, false).unwrap().unwrap();
    assert_eq!(config.path(1).to_str(), Some("/run/b.sock"));
    assert_eq!(
        (config.workers_max, config.wait_seconds, config.hold_ms),
        (4_096, 1, 500)
    );
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    for (name, value) in [
        ("HOST_BEADS_MAX_WORKERS", "0"),
        ("HOST_BEADS_MAX_WORKERS", "4097"),
        ("HOST_BEADS_WAIT_SECONDS", "0"),
        ("HOST_BEADS_WAIT_SECONDS", "3601"),
        ("HOST_BEADS_HOLD_SECONDS", "20.001"),
        ("HOST_BEADS_HOLD_SECONDS", "-1"),
    ] {
        let refused = read(&[(name, value)], true).unwrap_err();
        assert!(refused.starts_with(name), "{refused}");
        assert!(refused.contains(value), "{refused}");
    }
}
