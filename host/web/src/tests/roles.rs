//! A page offers only what its reader may do. The API refuses the rest.

use super::*;

#[tokio::test]
async fn who_may_only_read_sees_no_buttons() {
    let pages = pages("plain");
    for path in PAGES
        .iter()
        .filter(|path| !["/tokens", "/jobs/missing"].contains(path))
    {
        let page = seen_by(&pages, Role::Viewer, path).await;
        assert!(!page.contains("method=\"post\""), "{path}: {page}");
        for section in ["/tokens", "/audit", "/failures"] {
            assert!(!page.contains(&format!("href=\"{section}\"")), "{path}");
        }
    }
}

#[tokio::test]
async fn who_may_not_enqueue_sees_no_form_for_a_schedule() {
    let pages = pages("plain");
    let form = "method=\"post\" action=\"/schedules\"";
    for (role, has_form) in [(Role::Operator, false), (Role::Admin, true)] {
        let page = seen_by(&pages, role, "/schedules").await;
        assert_eq!(page.contains(form), has_form, "{role:?}: {page}");
    }
}

/// Returns a page as a user with this role sees it.
async fn seen_by(pages: &Router, role: Role, path: &str) -> String {
    let principal = Principal {
        verbs: role.verbs(),
        ..Principal::anyone()
    };
    let caller = Caller {
        principal: Arc::new(principal),
        over: None,
        share: None,
    };
    let request = Request::get(path)
        .header(HOST, "localhost")
        .extension(caller);
    ask(pages, request.body(Body::empty()).unwrap()).await.1
}
