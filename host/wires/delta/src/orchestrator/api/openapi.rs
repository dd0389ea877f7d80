//! The `OpenAPI` document of the routes.

use utoipa::OpenApi;

/// The description of all routes for runners.
#[derive(OpenApi)]
#[openapi(paths(
    super::lease,
    super::ack_lease,
    super::heartbeat,
    super::complete,
    super::cancel_ack,
    super::logs,
    super::logs_of_lease,
))]
pub(super) struct Document;
