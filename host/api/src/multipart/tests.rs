//! The bytes of a body and the choice of its boundary.

use super::*;

#[test]
fn parts_are_kept_apart() {
    let form = Multipart::new(&[("component", b"\0asm\r\n"), ("manifest", b"")]);
    assert_eq!(form.kind(), "multipart/form-data; boundary=host-part-0");
    let expected = "--host-part-0\r\n\
        content-disposition: form-data; name=\"component\"; filename=\"component\"\r\n\
        content-type: application/octet-stream\r\n\r\n\0asm\r\n\r\n\
        --host-part-0\r\n\
        content-disposition: form-data; name=\"manifest\"; filename=\"manifest\"\r\n\
        content-type: application/octet-stream\r\n\r\n\r\n\
        --host-part-0--\r\n";
    assert_eq!(form.body(), expected.as_bytes());
}

#[test]
fn a_boundary_occurs_in_no_part() {
    let inside: &[u8] = b"\r\n--host-part-0\r\n host-part-1";
    let form = Multipart::new(&[("a", b"host-part-2"), ("b", inside)]);
    assert_eq!(form.kind(), "multipart/form-data; boundary=host-part-3");
}
