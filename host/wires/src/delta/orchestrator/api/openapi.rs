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
))]
pub(super) struct Document;
