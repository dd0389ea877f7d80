//! What happens if descriptors are missing, and how many a component uses.

use host_core::egress::HttpErrorKind;
use tokio::time::timeout;

use super::ANSWER_WAIT_MAX;
use super::fixture::{World, grant, reply, run_with};

#[test]
fn a_message_without_its_descriptor_changes_nothing_for_others() {
    run_with(&["127.0.0.0/8"], |world: World| async move {
        let server = world.tls_server("api.test").await;
        world.names(&[("api.test", &["127.0.0.1"])]);
        let origin = format!("https://api.test:{}", server.port);
        let get = async || {
            let run = world.run(1, vec![grant(&origin)]);
            let response = run.get(&format!("{origin}/")).await;
            response.map_err(|error| error.kind)
        };
        assert!(get().await.is_ok());
        world.without_descriptors();
        assert!(get().await.is_ok(), "the authorities stay in use");
        world.authorities(&super::fixture::other_authority());
        world.without_descriptors();
        let refused = HttpErrorKind::CertificateRefused;
        assert_eq!(get().await.unwrap_err(), refused);
    });
}

/// Each name has a connection that could be kept.
#[test]
fn a_component_that_asks_many_servers_keeps_only_so_many_connections() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let server = world.server(|_| reply(200, "")).await;
        let run = world.run(
            1,
            vec![grant(&format!("http://*.many.test:{}", server.port))],
        );
        let mut most = 0;
        for n in 0..400 {
            let name = format!("n{n}.many.test");
            world.names(&[(&name, &["127.0.0.1"])]);
            let url = format!("http://{name}:{}/", server.port);
            assert!(run.get(&url).await.is_ok());
            most = most.max(server.open());
        }
        assert_eq!(server.connections(), 400);
        assert!((200..=330).contains(&most), "{most} were open");
    });
}

#[test]
fn all_handlers_of_a_component_together_have_only_so_many_requests_at_once() {
    run_with(&["127.0.0.0/8"], |world| async move {
        let mut silent = world.silent_server().await;
        let answering = world.server(|_| reply(200, "")).await;
        let mut granted = grant(&silent.origin());
        // So small that memory is not what they wait for.
        granted.max_response_kib = Some(1);
        let mut runs = Vec::new();
        for handler in ["one", "two", "three"] {
            for _ in 0..8 {
                let run = world.run_of_handler(handler, vec![granted.clone()]);
                for _ in 0..16 {
                    run.begin(&silent.url("/")).await;
                }
                runs.push(run);
            }
        }
        for _ in 0..256 {
            silent.accepted().await;
        }
        // Another component gets its answer immediately, while this one still waits.
        let other = world.run_of("other", 1, vec![grant(&answering.origin())]);
        let answered = timeout(ANSWER_WAIT_MAX, other.get(&answering.url("/"))).await;
        assert!(answered.expect("the other component waits").is_ok());
        assert!(silent.is_quiet());
    });
}
