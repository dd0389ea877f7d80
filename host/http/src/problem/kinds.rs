//! The kinds of problem that every JSON API has.

crate::kinds! {
    NOT_HTTP 400 "not_http", "Not a request of HTTP",
        "The bytes are not a request of HTTP/1.1.",
        "Speak HTTP/1.1 without TLS to this port; https:// in the address is one cause.";
    LENGTH_UNCLEAR 400 "length_unclear", "Length of the body unclear",
        "The header has several Content-Length or Transfer-Encoding headers, both of them, or a coding other than chunked. A proxy in front of the host could read a body of another length, and pass on a request that it has not seen.",
        "Send one Content-Length header, or Transfer-Encoding: chunked alone.";
    HEADER_TOO_LARGE 431 "header_too_large", "Header too large",
        "The header of the request has too many bytes or fields. The status is 414 if the path is too long.",
        "Send fewer or shorter header fields, or a shorter path.";
    INVALID_JSON 400 "invalid_json", "Not JSON",
        "The body is not one JSON document: it does not parse, repeats a key of an object, is nested deeper than 127 levels or has a number that no double holds.",
        "Correct the document at the place the detail names.";
    INVALID_REQUEST 422 "invalid_request", "Not a request this path takes",
        "The document is JSON, but a field is unknown, missing, of another type or out of its range.",
        "Correct the field the detail names; /api/v1/openapi.json has all fields.";
    INVALID_QUERY 400 "invalid_query", "Not a query this path takes",
        "A parameter of the query string is unknown, of another type or out of its range.",
        "Correct the parameter the detail names; /api/v1/openapi.json has all parameters.";
    INVALID_NAME 400 "invalid_name", "Not a name",
        "A name in the path is not made of 1 to 128 characters out of A-Z a-z 0-9 _ . : / -.",
        "Correct the name; write / in a name as %2F.";
    BODY_TOO_LARGE 413 "body_too_large", "Body too large",
        "The body is larger than this path takes. The detail names the limit.",
        "Send less at once, or name large data instead of including it.";
    UNSUPPORTED_MEDIA_TYPE 415 "unsupported_media_type", "Unsupported media type",
        "The body is of a type that this path does not take, or has a content encoding. Most paths take application/json.",
        "Set the Content-Type header to the type the detail names, and send the body uncompressed.";
    BODY_TIMEOUT 408 "body_timeout", "Body came too slowly",
        "The body was not complete 30 seconds after its header.",
        "Send the request again over a better connection.";
    HOST_REFUSED 403 "host_refused", "Host header refused",
        "The Host header names neither this machine's loopback nor the address the host listens on: a web page may have sent the request.",
        "Use http://127.0.0.1:PORT or http://localhost:PORT.";
    ORIGIN_REFUSED 403 "origin_refused", "Web pages are refused",
        "A web page of another origin has sent the request.",
        "Use the command line or a program; pages of other origins have no access.";
    NOT_FOUND 404 "not_found", "No such path",
        "The API has no such path.",
        "/api/v1/openapi.json lists all paths.";
    METHOD_NOT_ALLOWED 405 "method_not_allowed", "Method not allowed",
        "The path exists but not with this method.",
        "Use a method of the Allow header.";
    BUSY 503 "busy", "Busy",
        "The host has as many requests as it takes at once; nothing of this one was done.",
        "Repeat it after the time in the Retry-After header."
        retry 1;
    TIMED_OUT 504 "timed_out", "No answer in time",
        "The host did not answer in time. Whether the request was carried out is not known.",
        "Check whether it was carried out before you repeat it.";
    INTERNAL 500 "internal", "Internal error",
        "The host met a condition that it does not expect, which is a bug.",
        "Report it with the host's log.";
}
