//! The `OpenAPI` document of the callbacks: each once below each prefix.

use host_http::route::Description;
use utoipa::OpenApi;

use crate::messages::{
    CallbackError, CompletedAnswer, HeartbeatAnswer, RunLogs, RunLogsAnswer, StartedAnswer,
    TaskCompleted, TaskHeartbeat, TaskStarted,
};

macro_rules! callbacks {
    ($($name:ident $path:literal $body:ty, $answer:ty, $about:literal;)+) => {
        $(
            #[utoipa::path(
                post,
                path = $path,
                tag = "arco",
                summary = $about,
                params(("task_id" = String, Path, description = "The id of the task")),
                request_body = $body,
                responses(
                    (status = 200, description = "Acknowledged", body = $answer),
                    (status = 400, description = "The body or its attempt is not valid", body = CallbackError),
                    (status = 401, description = "The token is missing or not valid for this task and attempt", body = CallbackError),
                    (status = 404, description = "No task has this id", body = CallbackError),
                    (status = 409, description = "The task has ended, or another attempt is current", body = CallbackError),
                    (status = 410, description = "The attempt is no longer active", body = CallbackError),
                    (status = 422, description = "A field has an invalid value", body = CallbackError),
                    (status = 503, description = "The host is busy", body = CallbackError),
                ),
            )]
            #[expect(dead_code, reason = "it carries the description")]
            fn $name() {}
        )+

        #[derive(OpenApi)]
        #[openapi(paths($($name,)+ logs))]
        struct Document;
    };
}

callbacks! {
    started "/v1/tasks/{task_id}/started" TaskStarted, StartedAnswer, "A worker has begun";
    heartbeat "/v1/tasks/{task_id}/heartbeat" TaskHeartbeat, HeartbeatAnswer, "A worker is alive";
    completed "/v1/tasks/{task_id}/completed" TaskCompleted, CompletedAnswer, "An attempt has ended";
    started_current "/api/v1/tasks/{task_id}/started" TaskStarted, StartedAnswer, "A worker has begun";
    heartbeat_current "/api/v1/tasks/{task_id}/heartbeat" TaskHeartbeat, HeartbeatAnswer, "A worker is alive";
    completed_current "/api/v1/tasks/{task_id}/completed" TaskCompleted, CompletedAnswer, "An attempt has ended";
}

#[utoipa::path(
    post,
    path = "/api/v1/workspaces/{workspace_id}/runs/{run_id}/logs",
    tag = "arco",
    summary = "The log of an attempt",
    params(
        ("workspace_id" = String, Path, description = "The workspace of the dispatch"),
        ("run_id" = String, Path, description = "The run of the dispatch"),
    ),
    request_body = RunLogs,
    responses(
        (status = 200, description = "Kept", body = RunLogsAnswer),
        (status = 400, description = "The body or its attempt is not valid", body = CallbackError),
        (status = 401, description = "The bearer is not the secret of the job's worker", body = CallbackError),
        (status = 404, description = "No attempt has this workspace, run, key and number", body = CallbackError),
        (status = 422, description = "A field has an invalid value", body = CallbackError),
        (status = 503, description = "The host is busy", body = CallbackError),
    ),
)]
#[expect(dead_code, reason = "it carries the description")]
fn logs() {}

pub(super) fn description() -> Description {
    Description {
        document: Document::openapi(),
        kinds: &[],
    }
}
