//! The kinds of problem that every JSON API has.

pub use host_core::problem::INVALID_REQUEST;

crate::kinds! {
    NOT_HTTP 400 "not_http", "Invalid HTTP request",
        "The bytes are not an HTTP/1.1 request.",
        "Use HTTP/1.1. If this port has no TLS, https:// in the address is a common cause; another is HTTP/2.";
    LENGTH_UNCLEAR 400 "length_unclear", "Ambiguous body length",
        "The request has several Content-Length or Transfer-Encoding headers, both of them, or a coding \
         other than chunked. A proxy in front of the host could read a body of another length and pass \
         on a request that it has not seen.",
        "Send one Content-Length header, or Transfer-Encoding: chunked alone.";
    HEADER_TOO_LARGE 431 "header_too_large", "Header too large",
        "The request's header has too many bytes or fields. The status is 414 if the path is too long.",
        "Send fewer or shorter header fields, or a shorter path.";
    INVALID_JSON 400 "invalid_json", "Not JSON",
        "The body is not one JSON document: it does not parse, repeats a key of an object, is nested deeper than 127 levels or has a number that no double holds.",
        "Correct the document at the place that the detail names.";
    INVALID_QUERY 400 "invalid_query", "Invalid query",
        "A parameter of the query string is unknown, out of range or of the wrong type.",
        "Correct the parameter that the detail names; /api/v1/openapi.json lists all parameters.";
    INVALID_NAME 400 "invalid_name", "Invalid name",
        "A name in the path must have 1–128 characters out of A-Z a-z 0-9 _ . : / -.",
        "Correct the name; encode / in a name as %2F.";
    BODY_TOO_LARGE 413 "body_too_large", "Body too large",
        "The body is larger than this path accepts. The detail has the limit.",
        "Send less in one request, or refer to large data instead of including it.";
    UNSUPPORTED_MEDIA_TYPE 415 "unsupported_media_type", "Unsupported media type",
        "This path does not accept the body's type, or the body has a content encoding. Most paths \
         accept application/json.",
        "Set the Content-Type header to the type that the detail names, and send the body uncompressed.";
    BODY_TIMEOUT 408 "body_timeout", "Body too slow",
        "The body was not complete 30 seconds after the header.",
        "Send the request again over a better connection.";
    HOST_REFUSED 403 "host_refused", "Host header refused",
        "The Host header names neither the loopback address, nor the address that the host listens on, nor a name of its \
         certificate: a web page may have sent the request.",
        "Use such a name. If clients use another one, or that of a proxy in front of the host, add it to \
         http.allowed_hosts.";
    ORIGIN_REFUSED 403 "origin_refused", "Web pages are refused",
        "A web page of another origin sent the request.",
        "Use the command line or another program; pages of other origins have no access.";
    UNAUTHENTICATED 401 "unauthenticated", "No valid token",
        "The request has no token, or one that this host does not accept: unknown, revoked, expired, or not for this network. All of these look the same.",
        "Send `Authorization: Bearer TOKEN`; with the command line, set HOST_TOKEN_FILE or use a context.";
    FORBIDDEN 403 "forbidden", "Not allowed",
        "The token is valid but does not allow this. The detail names the verb that is missing.",
        "Use a token with this verb, or have one made with `host token create`.";
    TOO_MANY_WRONG_TOKENS 429 "too_many_wrong_tokens", "Too many wrong tokens",
        "The token is wrong, and this address has presented ten wrong texts of it, or a hundred wrong tokens in all, within a minute. Valid tokens and other addresses are not affected.",
        "Correct the token, and repeat the request after the time in the Retry-After header.";
    RATE_LIMITED 429 "rate_limited", "Too many requests",
        "The token has used up its request rate; this request had no effect.",
        "Repeat it after the time in the Retry-After header; `GET /api/v1/tokens/self` shows the rate.";
    SHARE_USED 429 "share_used", "The client's share is used up",
        "One token, or one address without a token, may use half of the memory for requests and answers, of the streams of events, and of the requests that wait or have lines, so that others have some left. Requests from one address may use half of the connections.",
        "Let some requests or streams of this client end first; `GET /api/v1/tokens/self` shows what a token uses."
        retry 1;
    NOT_FOUND 404 "not_found", "No such path",
        "The API has no such path.",
        "/api/v1/openapi.json lists all paths.";
    METHOD_NOT_ALLOWED 405 "method_not_allowed", "Method not allowed",
        "The path exists, but not with this method.",
        "Use a method from the Allow header.";
    BUSY 503 "busy", "Busy",
        "The host is handling as many requests as it can; this one had no effect.",
        "Repeat it after the time in the Retry-After header."
        retry 1;
    TIMED_OUT 504 "timed_out", "No answer in time",
        "The host did not answer in time. The request may or may not have taken effect.",
        "Check whether it took effect before you repeat it.";
    INTERNAL 500 "internal", "Internal error",
        "The host met an unexpected condition, which is a bug.",
        "Report it with the host's log.";
}
