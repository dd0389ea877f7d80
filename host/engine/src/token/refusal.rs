//! Why commands about tokens are refused, and new jobs because of their principal.

use super::TokenId;
use crate::refusals;

refusals! {
    /// Why a token cannot be changed, or its principal not enqueue.
    pub enum TokenRefusal {
        #[error("no token has the id {0}")]
        Unknown(TokenId) = TOKEN_NOT_FOUND 404 "token_not_found", "No such token",
            "No token has this id, or it allows more than the requester's token.",
            "`host token ls` lists the tokens.";
        #[error("there are {limit} tokens already; revoke some")]
        TooMany { limit: u64 } = TOO_MANY_TOKENS 409 "too_many_tokens", "Too many tokens",
            "The host keeps at most 10000 tokens.",
            "Revoke some with `host token revoke`; `host token ls` lists them.";
        /// The principal has reached its limit of waiting and running jobs.
        #[error("{jobs} jobs of this token wait or run, and at most {limit} may")]
        TooManyJobs { jobs: u64, limit: u64 } = TOO_MANY_OWNED 429 "too_many_of_token", "Too many jobs of the token wait",
            "The token has reached its limit of waiting and running jobs. Nothing of this request was kept.",
            "Wait until some have ended; `GET /api/v1/tokens/self` shows how many there are.";
        /// The principal may not enqueue for this handler in this queue.
        #[error("{handler} cannot be enqueued here: the handler or the queue is out of scope")]
        OutOfScope { handler: String } = OUT_OF_SCOPE 403 "out_of_scope", "Out of the token's scope",
            "The token may not use this queue, or this handler in this queue. This does not reveal whether they exist.",
            "Use a queue and a handler of the token's scope, which `GET /api/v1/tokens/self` shows.";
    }
}
