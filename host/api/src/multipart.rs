//! Writes a `multipart/form-data` body (RFC 7578). Knows nothing of what its parts mean.

/// A body and its boundary.
#[derive(Debug)]
pub struct Multipart {
    boundary: String,
    body: Vec<u8>,
}

impl Multipart {
    /// Writes the parts, each a name and its bytes. The names are this program's own: they need no
    /// quoting.
    pub fn new(parts: &[(&str, &[u8])]) -> Self {
        let boundary = boundary(parts);
        let bytes: usize = parts.iter().map(|(_, bytes)| bytes.len() + 256).sum();
        let mut body = Vec::with_capacity(bytes);
        for (name, bytes) in parts {
            let head = format!(
                "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"; \
                 filename=\"{name}\"\r\ncontent-type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Self { boundary, body }
    }

    /// Returns the content type, with the boundary.
    pub fn kind(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body alone.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// Returns a boundary that occurs in no part.
fn boundary(parts: &[(&str, &[u8])]) -> String {
    let mut number = 0_u64;
    loop {
        let boundary = format!("host-part-{number}");
        let mut windows = parts
            .iter()
            .flat_map(|(_, bytes)| bytes.windows(boundary.len()));
        if !windows.any(|window| window == boundary.as_bytes()) {
            return boundary;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests;
