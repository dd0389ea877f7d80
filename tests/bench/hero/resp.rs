//! Encodes commands for Redis with placeholders for ids, and finds the end of answers. It must cost less than
//! what it measures.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};

/// The placeholder for the id of a job.
pub(super) const ID: &str = "5d2b8a1c-0000-4000-8000-000000000000";

/// How many of its last characters are the number.
const DIGITS: usize = 12;

/// One command, to be sent for any job.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    ids: Vec<usize>,
    words: Vec<Vec<u8>>,
}

/// Returns the id of the `n`th job.
pub(super) fn id(n: usize) -> String {
    format!("{}{n:0DIGITS$}", &ID[..ID.len() - DIGITS])
}

impl Template {
    /// Makes a command from words, each of which may contain [`ID`].
    pub(super) fn new(words: &[impl AsRef<[u8]>]) -> Self {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        let ids = bytes.windows(ID.len()).enumerate();
        let ids = ids.filter(|(_, window)| *window == ID.as_bytes());
        let ids = ids.map(|(at, _)| at + ID.len() - DIGITS).collect();
        let words = words.iter().map(|word| word.as_ref().to_vec()).collect();
        Self { bytes, ids, words }
    }

    /// Returns its words for `redis-benchmark`, which generates numbers of the same length.
    pub(super) fn for_program(&self) -> Vec<String> {
        let words = self.words.iter().map(|word| String::from_utf8_lossy(word));
        let number = &ID[ID.len() - DIGITS..];
        words
            .map(|word| word.replace(number, "__rand_int__"))
            .collect()
    }

    /// Appends the command for the `n`th job to the output.
    pub(super) fn write(&self, n: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let digits = format!("{n:0DIGITS$}");
        for at in &self.ids {
            out[start + at..start + at + DIGITS].copy_from_slice(digits.as_bytes());
        }
    }
}

/// Returns where the first answer ends, if it is complete. An error from Redis is an error here.
pub(super) fn answer_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(line) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[1..line]).unwrap_or_default();
    let end = line + 2;
    let number = || text.parse::<i64>().context("an answer has no length");
    match bytes[0] {
        b'+' | b':' => Ok(Some(end)),
        b'$' => {
            let length = usize::try_from(number()?).map_or(0, |length| length + 2);
            Ok((bytes.len() >= end + length).then_some(end + length))
        }
        b'*' => {
            let mut at = end;
            for _ in 0..number()? {
                match answer_bytes(&bytes[at..])? {
                    Some(length) => at += length,
                    None => return Ok(None),
                }
            }
            Ok(Some(at))
        }
        _ => bail!("Redis refuses a command: {text}"),
    }
}

/// A connection that sends many commands at once.
pub(super) struct Pipe {
    stream: TcpStream,
    out: Vec<u8>,
    read: Vec<u8>,
}

impl Pipe {
    pub(super) fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect to Redis")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            read: Vec::new(),
        })
    }

    /// Returns its own address, by which Redis knows it.
    pub(super) fn address(&self) -> Result<String> {
        Ok(self.stream.local_addr()?.to_string())
    }

    /// Sends all of `commands` for each of some jobs in one write, and waits for the answers.
    pub(super) fn send(
        &mut self,
        commands: &[Template],
        jobs: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        let mut missing = 0;
        self.out.clear();
        for n in jobs {
            for command in commands {
                command.write(n, &mut self.out);
                missing += 1;
            }
        }
        self.stream.write_all(&self.out)?;
        let mut part = [0; 16 << 10];
        while missing > 0 {
            let bytes = self.stream.read(&mut part)?;
            anyhow::ensure!(bytes > 0, "Redis closed the connection");
            self.read.extend_from_slice(&part[..bytes]);
            let mut at = 0;
            while let Some(length) = answer_bytes(&self.read[at..])? {
                at += length;
                missing -= 1;
            }
            self.read.drain(..at);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ID, Template, answer_bytes, id};

    #[test]
    fn commands_are_written_for_any_job() {
        let template = Template::new(&["GET", &format!("a:{ID}")]);
        let mut out = Vec::new();
        template.write(12, &mut out);
        let expected = format!("*2\r\n$3\r\nGET\r\n$38\r\na:{}\r\n", id(12));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(
            template.for_program(),
            ["GET", "a:5d2b8a1c-0000-4000-8000-__rand_int__"]
        );
    }

    #[test]
    fn answers_end_where_they_end() {
        let whole = [
            "+OK\r\n",
            ":12\r\n",
            "$-1\r\n",
            "$2\r\n\r\n\r\n",
            "*-1\r\n",
            "*2\r\n:1\r\n$1\r\na\r\n",
        ];
        for answer in whole {
            let bytes = answer.as_bytes();
            let more = [bytes, b":1\r\n"].concat();
            assert_eq!(
                answer_bytes(&more).unwrap(),
                Some(bytes.len()),
                "{answer:?}"
            );
            for part in 0..bytes.len() {
                assert_eq!(
                    answer_bytes(&bytes[..part]).unwrap(),
                    None,
                    "{answer:?} {part}"
                );
            }
        }
        let error = answer_bytes(b"-ERR no\r\n").unwrap_err().to_string();
        assert!(error.contains("ERR no"), "{error}");
    }
}
