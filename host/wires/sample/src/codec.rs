//! The lines of the wire, read and written. Pure.

use bytes::{BufMut as _, Bytes, BytesMut};
use host_core::json::JsonText;
use host_wire_kit::stream::{Endless, Lines};
use serde_json::{Map, Value, from_str};

/// Cuts the bytes of a connection into lines of at most 64 KiB.
pub(crate) type Framing = Lines<{ 64 << 10 }>;

/// What one line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Run a handler.
    Run {
        id: String,
        handler: String,
        params: JsonText,
    },
    /// Stop a run.
    Stop { id: String },
    /// A run has completed.
    Ok { id: String, result: JsonText },
    /// A run has failed, was stopped or did not begin.
    Err { id: String, message: String },
}

impl Message {
    /// Reads a line. Returns `None` if it is not a message.
    pub(crate) fn read(line: Result<Bytes, Endless>) -> Option<Self> {
        let line = String::from_utf8(line.ok()?.into()).ok()?;
        let (word, rest) = line.split_once(' ')?;
        let (id, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let id = id.to_owned();
        Some(match word {
            "RUN" => {
                let (handler, params) = text.split_once(' ')?;
                from_str::<Map<String, Value>>(params).ok()?;
                Self::Run {
                    id,
                    handler: handler.to_owned(),
                    params: JsonText(params.to_owned()),
                }
            }
            "STOP" => Self::Stop { id },
            "OK" if JsonText(text.to_owned()).flaw().is_none() => Self::Ok {
                id,
                result: JsonText(text.to_owned()),
            },
            // A result that is not JSON is an error of the worker, which its text shows.
            "OK" | "ERR" => Self::Err {
                id,
                message: text.to_owned(),
            },
            _ => return None,
        })
    }

    /// Appends the line to `out`. Line breaks in a message become spaces, as JSON allows.
    pub(crate) fn write(&self, out: &mut BytesMut) {
        let line = match self {
            Self::Run {
                id,
                handler,
                params,
            } => format!("RUN {id} {handler} {}", params.as_str()),
            Self::Stop { id } => format!("STOP {id}"),
            Self::Ok { id, result } => format!("OK {id} {}", result.as_str()),
            Self::Err { id, message } => format!("ERR {id} {message}"),
        };
        out.put(line.replace(['\r', '\n'], " ").as_bytes());
        out.put_u8(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &'static str) -> Option<Message> {
        Message::read(Ok(Bytes::from_static(line.as_bytes())))
    }

    #[test]
    fn a_message_is_written_as_it_was_read() {
        for line in [
            "RUN 7 echo {\"text\": \"two words\"}",
            "STOP 7",
            "OK 7 [1, 2]",
            "ERR 7 no luck",
        ] {
            let mut out = BytesMut::new();
            read(line).unwrap().write(&mut out);
            assert_eq!(out, format!("{line}\n").as_bytes());
        }
    }

    #[test]
    fn other_lines_are_not_messages() {
        for line in ["", "hello", "run 1 echo {}", "RUN 1 echo", "RUN 1 echo []"] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn a_result_that_is_not_json_fails_the_run() {
        let message = "done".to_owned();
        let id = "7".to_owned();
        assert_eq!(read("OK 7 done"), Some(Message::Err { id, message }));
    }
}
