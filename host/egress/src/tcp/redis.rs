//! Redis: signs in before a guest has the connection, refuses what would change who is signed in, and returns a kept
//! connection to its first state.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::account::Account;
use super::stream::read_line;

/// The most bytes that are read behind a guest until the answer to the last command comes.
const REST_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a command that is kept until its words are known.
const COMMAND_BYTES_MAX: usize = 4 << 10;

/// The length of the number in [`reset`], in bytes.
const MARK_BYTES: usize = 32;

/// Signs in.
pub(super) async fn sign_in(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    account: &Account,
) -> io::Result<()> {
    for words in commands(account) {
        stream.write_all(&encode(&words)).await?;
        stream.flush().await?;
        let answer = read_line(stream).await?;
        if !answer.starts_with('+') {
            return Err(login_refusal(&answer));
        }
    }
    Ok(())
}

fn login_refusal(answer: &str) -> io::Error {
    // The rest may repeat what was sent.
    let code: String = answer
        .chars()
        .skip(1)
        .take_while(char::is_ascii_uppercase)
        .collect();
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the server answered {code}"),
    )
}

/// The commands that make a connection what a guest gets.
fn commands(account: &Account) -> Vec<Vec<&str>> {
    let mut all = Vec::new();
    if let Some(password) = &account.password {
        let mut words = vec!["AUTH"];
        words.extend(account.user.as_deref());
        words.push(password);
        all.push(words);
    }
    if let Some(number) = &account.database {
        all.push(vec!["SELECT", number]);
    }
    all
}

fn encode(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Returns a connection to its first state: ends transactions, subscriptions and watches, and signs in again. What the server
/// still had to say to the guest is thrown away. `mark` is a number that the server cannot know in advance.
pub(super) async fn reset(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    account: &Account,
    mark: [u8; MARK_BYTES / 2],
) -> io::Result<()> {
    let mark = format!("{:032x}", u128::from_be_bytes(mark));
    let mut bytes = encode(&["RESET"]);
    for words in commands(account) {
        bytes.extend(encode(&words));
    }
    bytes.extend(encode(&["ECHO", &mark]));
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    let end = format!("${MARK_BYTES}\r\n{mark}\r\n");
    let (mut rest, mut room, mut read) = (Vec::new(), [0; 4_096], 0);
    while !rest.ends_with(end.as_bytes()) {
        let count = stream.read(&mut room).await?;
        read += count;
        if count == 0 || read > REST_BYTES_MAX {
            return Err(io::Error::other("the connection cannot be used again"));
        }
        rest.extend_from_slice(&room[..count]);
        rest.drain(..rest.len().saturating_sub(end.len()));
    }
    Ok(())
}

/// Follows what a guest sends, command by command.
#[derive(Default)]
pub(super) struct Commands {
    /// What has come of a command whose words are not known yet.
    held: Vec<u8>,
    /// The bytes of the command that are still to come, if its words are allowed.
    passing: usize,
    /// The words of the command that are still to come, behind the one that is passing.
    words: usize,
}

/// A command that a guest may not send.
#[derive(Debug)]
pub(super) struct CommandRefusal(&'static str);

impl CommandRefusal {
    pub(super) const fn reason(&self) -> &'static str {
        self.0
    }
}

impl Commands {
    /// Returns whether the guest has sent whole commands only.
    pub(super) const fn is_between(&self) -> bool {
        self.held.is_empty() && self.passing == 0 && self.words == 0
    }

    /// Takes what a guest sends, and appends to `out` what may be sent on.
    pub(super) fn pass(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CommandRefusal> {
        loop {
            let count = self.passing.min(bytes.len());
            out.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.passing -= count;
            if self.passing > 0 {
                return Ok(());
            }
            if bytes.is_empty() && self.held.is_empty() {
                return Ok(());
            }
            let taken = bytes.len().min(COMMAND_BYTES_MAX + 64 - self.held.len());
            self.held.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if !self.advance(out)? {
                return if bytes.is_empty() {
                    Ok(())
                } else {
                    Err(CommandRefusal("a command of Redis is malformed"))
                };
            }
        }
    }

    /// Looks at what is held. Returns whether there is something to do with what follows.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool, CommandRefusal> {
        let malformed = CommandRefusal("a command of Redis is malformed");
        if self.words > 0 {
            // The next word of an allowed command.
            let Some((length, head)) = header(&self.held, b'$').map_err(|()| malformed)? else {
                return Ok(false);
            };
            self.words -= 1;
            self.release(head + length + 2, out);
            return Ok(true);
        }
        if self.held.first() != Some(&b'*') {
            let Some(end) = self.held.iter().position(|byte| *byte == b'\n') else {
                return if self.held.len() > COMMAND_BYTES_MAX {
                    Err(malformed)
                } else {
                    Ok(false)
                };
            };
            let line = String::from_utf8_lossy(&self.held[..end]).to_ascii_uppercase();
            let words: Vec<&str> = line.split_whitespace().collect();
            check(&words)?;
            self.release(end + 1, out);
            return Ok(true);
        }
        let Some((count, mut at)) = header(&self.held, b'*')
            .map_err(|()| CommandRefusal("a command of Redis is malformed"))?
        else {
            return Ok(false);
        };
        let mut words = Vec::new();
        for place in 0..count {
            let known = header(&self.held[at..], b'$')
                .map_err(|()| CommandRefusal("a command of Redis is malformed"))?;
            let Some((length, head)) = known else {
                return Ok(false);
            };
            let (start, end) = (at + head, at + head + length);
            // The words of a greeting say whether it signs in; of other commands the first one is enough.
            if end > COMMAND_BYTES_MAX {
                return Err(CommandRefusal("a command of Redis is malformed"));
            }
            if self.held.len() < end + 2 {
                return Ok(false);
            }
            words.push(String::from_utf8_lossy(&self.held[start..end]).to_ascii_uppercase());
            at = end + 2;
            if words[0] != "HELLO" {
                self.words = count - place - 1;
                break;
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        check(&words)?;
        self.release(at, out);
        Ok(true)
    }

    /// Sends on so many bytes, of which some are held and the others still to come.
    fn release(&mut self, count: usize, out: &mut Vec<u8>) {
        let here = count.min(self.held.len());
        out.extend(self.held.drain(..here));
        self.passing = count - here;
    }
}

/// Returns the number and the length of `*3\r\n` or `$3\r\n`, if all of it is there.
fn header(bytes: &[u8], kind: u8) -> Result<Option<(usize, usize)>, ()> {
    match bytes.first() {
        None => return Ok(None),
        Some(first) if *first != kind => return Err(()),
        Some(_) => {}
    }
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > 24 { Err(()) } else { Ok(None) };
    };
    let digits = bytes[1..end].strip_suffix(b"\r").ok_or(())?;
    let number: usize = str::from_utf8(digits)
        .ok()
        .and_then(|it| it.parse().ok())
        .ok_or(())?;
    let is_fit = number <= 512 << 20;
    is_fit.then_some(Some((number, end + 1))).ok_or(())
}

/// Refuses what would sign in again, or change the server.
fn check(words: &[&str]) -> Result<(), CommandRefusal> {
    match words {
        ["AUTH", ..] => Err(CommandRefusal(
            "the host signs in, so the handler may not send AUTH",
        )),
        ["HELLO", rest @ ..] if rest.contains(&"AUTH") => Err(CommandRefusal(
            "the host signs in, so the handler may not send HELLO with AUTH",
        )),
        ["CONFIG", ..] => Err(CommandRefusal("the handler may not send CONFIG")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a text in pieces of each size. Returns what is sent on, or the reason why not.
    fn pass(text: &[u8], size: usize) -> Result<Vec<u8>, &'static str> {
        let (mut commands, mut out) = (Commands::default(), Vec::new());
        for piece in text.chunks(size) {
            commands
                .pass(piece, &mut out)
                .map_err(|refused| refused.reason())?;
        }
        assert!(
            commands.is_between(),
            "{commands_left} bytes are held",
            commands_left = commands.held.len()
        );
        Ok(out)
    }

    #[test]
    fn allowed_commands_pass_byte_for_byte() {
        let mut all = encode(&["SET", "auth", &"x".repeat(10_000)]);
        all.extend(encode(&["GET", "CONFIG"]));
        all.extend(encode(&["HELLO", "3", "SETNAME", "authentic"]));
        all.extend(b"PING\r\nget x\r\n");
        all.extend(encode(&["MSET", "a", "", "b", "*1\r\n$4\r\nAUTH\r\n"]));
        for size in [1, 2, 3, 7, 64, 4_096, 1 << 20] {
            assert_eq!(pass(&all, size).unwrap(), all, "{size}");
        }
    }

    #[test]
    fn commands_that_sign_in_are_not_sent_on() {
        for words in [
            &["AUTH", "p"][..],
            &["auth", "u", "p"],
            &["HELLO", "3", "AUTH", "u", "p"],
            &["hello", "3", "setname", "x", "auth", "u", "p"],
            &["Config", "SET", "dir", "/tmp"],
        ] {
            let mut text = encode(&["PING"]);
            let allowed = text.clone();
            text.extend(encode(words));
            for size in [1, 5, 1 << 10] {
                let (mut commands, mut out) = (Commands::default(), Vec::new());
                let refused = text
                    .chunks(size)
                    .find_map(|piece| commands.pass(piece, &mut out).err());
                assert!(refused.is_some(), "{words:?}");
                assert_eq!(out, allowed);
            }
        }
        assert!(pass(b"AUTH p\r\n", 1).is_err());
        assert!(pass(b"*1\r\n:4\r\nAUTH\r\n", 1).is_err());
        assert!(pass(b"*x\r\n", 1).is_err());
    }
}
