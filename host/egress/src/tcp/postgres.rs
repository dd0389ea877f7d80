//! PostgreSQL: signs in before a guest has the connection, answers the guest's own start, follows what passes to know when the
//! connection is idle, and returns a kept connection to its first state.

use std::io;

use bytes::{Buf as _, BytesMut};
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{ErrorFields, Header, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::account::Account;

/// The largest message before a guest has the connection, in bytes.
const START_BYTES_MAX: usize = 64 << 10;

/// The most rounds of a password's hash that a server may ask for: they are computed here.
const ROUNDS_MAX: u32 = 100_000;

/// The codes of what may come instead of a version.
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const VERSION: u32 = 3 << 16;

/// What a server says when it lets someone in: the guest gets it as its own start.
#[derive(Clone, Default)]
pub(super) struct Welcome {
    statuses: Vec<(String, String)>,
    /// The numbers with which a query is cancelled. The guest does not get them.
    pub(super) key: Option<BackendKey>,
}

/// The numbers with which a query is cancelled.
#[derive(Clone, Copy)]
pub(super) struct BackendKey {
    process: i32,
    secret: i32,
}

/// A connection, and what has been read of the next message.
pub(crate) struct Talk<'a, S> {
    stream: &'a mut S,
    buffer: BytesMut,
    message_bytes_max: usize,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Talk<'a, S> {
    pub(crate) fn new(stream: &'a mut S, message_bytes_max: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            message_bytes_max,
        }
    }

    pub(crate) const fn set_message_bytes_max(&mut self, bytes: usize) {
        self.message_bytes_max = bytes;
    }

    pub(crate) async fn send(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        write(&mut bytes)?;
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }

    /// Reads the next message.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(header) = Header::parse(&self.buffer)?
                && usize::try_from(header.len()).is_ok_and(|it| it > self.message_bytes_max)
            {
                let max = self.message_bytes_max;
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("the server sent a message of more than {max} bytes"),
                ));
            }
            if let Some(message) = Message::parse(&mut self.buffer)? {
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads up to the end of an answer. Returns whether the connection is idle then.
    pub(super) async fn finish(&mut self) -> io::Result<bool> {
        let mut is_good = true;
        loop {
            match self.next().await? {
                Message::ReadyForQuery(body) => return Ok(is_good && body.status() == b'I'),
                Message::ErrorResponse(_) => is_good = false,
                _ => {}
            }
        }
    }
}

/// Signs in. `server_hash` is that of the server's certificate, if there is TLS.
pub(super) async fn sign_in(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    account: &Account,
    server_hash: Option<Vec<u8>>,
) -> io::Result<Welcome> {
    let user = account.user.as_deref().unwrap_or_default();
    let mut parameters = vec![("client_encoding", "UTF8"), ("user", user)];
    let database = account.database.as_deref();
    parameters.extend(database.map(|name| ("database", name)));
    parameters.extend(account.options.as_deref().map(|it| ("options", it)));
    let has_tls = server_hash.is_some();
    let mut talk = Talk::new(stream, START_BYTES_MAX);
    talk.send(|to| frontend::startup_message(parameters, to))
        .await?;
    let password = account.password.as_deref().unwrap_or_default().as_bytes();
    match talk.next().await? {
        Message::AuthenticationOk => return welcome(talk).await,
        Message::AuthenticationSasl(body) => {
            let mut offered = body.mechanisms();
            let (mut is_plain, mut is_bound) = (false, false);
            while let Some(mechanism) = offered.next()? {
                is_plain |= mechanism == SCRAM_SHA_256;
                is_bound |= mechanism == SCRAM_SHA_256_PLUS;
            }
            let (binding, mechanism) = match server_hash.filter(|_| is_bound) {
                Some(hash) => (
                    ChannelBinding::tls_server_end_point(hash),
                    SCRAM_SHA_256_PLUS,
                ),
                None if is_plain && has_tls && !is_bound => {
                    (ChannelBinding::unrequested(), SCRAM_SHA_256)
                }
                None if is_plain => (ChannelBinding::unsupported(), SCRAM_SHA_256),
                None => {
                    return Err(io::Error::other(
                        "the server asks for a login that is unknown",
                    ));
                }
            };
            scram(&mut talk, password, binding, mechanism).await?;
        }
        Message::AuthenticationMd5Password(body) if account.md5 => {
            let hash = md5_hash(user.as_bytes(), password, body.salt());
            talk.send(|to| frontend::password_message(hash.as_bytes(), to))
                .await?;
        }
        Message::AuthenticationMd5Password(_) => {
            let message = "the server asks for an MD5 hash of the password; let it use scram-sha-256, or set md5 = true in the \
                           login of the grant";
            return Err(io::Error::other(message));
        }
        Message::AuthenticationCleartextPassword => {
            let message = "the server asks for the password itself, which is never sent; let it use scram-sha-256";
            return Err(io::Error::other(message));
        }
        Message::ErrorResponse(body) => return Err(login_refusal(body.fields())),
        _ => {
            return Err(io::Error::other(
                "the server asks for a login that is unknown",
            ));
        }
    }
    match talk.next().await? {
        Message::AuthenticationOk => welcome(talk).await,
        Message::ErrorResponse(body) => Err(login_refusal(body.fields())),
        _ => Err(io::Error::other("the server breaks the protocol")),
    }
}

async fn scram(
    talk: &mut Talk<'_, impl AsyncRead + AsyncWrite + Unpin>,
    password: &[u8],
    binding: ChannelBinding,
    mechanism: &str,
) -> io::Result<()> {
    let mut scram = ScramSha256::new(password, binding);
    talk.send(|to| frontend::sasl_initial_response(mechanism, scram.message(), to))
        .await?;
    match talk.next().await? {
        Message::AuthenticationSaslContinue(body) => {
            check_rounds(body.data())?;
            scram.update(body.data())?;
        }
        Message::ErrorResponse(body) => return Err(login_refusal(body.fields())),
        _ => return Err(io::Error::other("the server breaks the protocol")),
    }
    talk.send(|to| frontend::sasl_response(scram.message(), to))
        .await?;
    match talk.next().await? {
        Message::AuthenticationSaslFinal(body) => scram.finish(body.data()),
        Message::ErrorResponse(body) => Err(login_refusal(body.fields())),
        _ => Err(io::Error::other("the server breaks the protocol")),
    }
}

/// Refuses a server that would keep this process busy.
fn check_rounds(message: &[u8]) -> io::Result<()> {
    let text = str::from_utf8(message).unwrap_or_default();
    let rounds = text.split(',').find_map(|it| it.strip_prefix("i="));
    match rounds.and_then(|it| it.parse::<u32>().ok()) {
        Some(rounds) if rounds <= ROUNDS_MAX => Ok(()),
        _ => Err(io::Error::other(format!(
            "the server asks for more than {ROUNDS_MAX} rounds of SCRAM"
        ))),
    }
}

async fn welcome(mut talk: Talk<'_, impl AsyncRead + AsyncWrite + Unpin>) -> io::Result<Welcome> {
    let mut welcome = Welcome::default();
    for _ in 0..1_000 {
        match talk.next().await? {
            Message::ParameterStatus(body) => {
                let status = (body.name()?.to_owned(), body.value()?.to_owned());
                welcome.statuses.push(status);
            }
            Message::BackendKeyData(body) => {
                welcome.key = Some(BackendKey {
                    process: body.process_id(),
                    secret: body.secret_key(),
                });
            }
            Message::ReadyForQuery(_) => return Ok(welcome),
            Message::ErrorResponse(body) => return Err(login_refusal(body.fields())),
            _ => {}
        }
    }
    Err(io::Error::other("the server breaks the protocol"))
}

/// What a server says of an error.
#[derive(Default)]
pub(crate) struct ServerError {
    /// The SQLSTATE.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

impl ServerError {
    pub(crate) fn read(mut fields: ErrorFields<'_>) -> Self {
        let mut error = Self::default();
        while let Ok(Some(field)) = fields.next() {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => error.code = value,
                b'M' => error.message = value,
                b'D' => error.detail = Some(value),
                b'H' => error.hint = Some(value),
                _ => {}
            }
        }
        error
    }
}

/// Says why a server lets no one in: its code, and what it means.
fn login_refusal(fields: ErrorFields<'_>) -> io::Error {
    let ServerError { code, message, .. } = ServerError::read(fields);
    let kind = if code.starts_with("28") {
        io::ErrorKind::PermissionDenied
    } else {
        io::ErrorKind::Other
    };
    io::Error::new(kind, format!("{message} ({code})"))
}

/// Answers the start of a guest, whatever it asks for: who it is, is decided. Returns false if it wants nothing.
pub(super) async fn greet_guest(
    guest: &mut (impl AsyncRead + AsyncWrite + Unpin),
    welcome: &Welcome,
) -> io::Result<bool> {
    // A guest may ask for TLS and for GSS, in either order.
    for _ in 0..3 {
        let length = guest.read_u32().await?;
        let code = guest.read_u32().await?;
        let rest = usize::try_from(length).unwrap_or_default().wrapping_sub(8);
        if rest > START_BYTES_MAX {
            return Err(io::Error::other(
                "the handler does not speak the protocol of PostgreSQL",
            ));
        }
        let mut parameters = vec![0; rest];
        guest.read_exact(&mut parameters).await?;
        match code {
            SSL | GSS => guest.write_all(b"N").await?,
            VERSION.. if code >> 16 == 3 => {
                guest.write_all(&start(welcome)).await?;
                return Ok(true);
            }
            // It wants a query cancelled. The end of the connection does that.
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// What a server sends to a client that it lets in.
fn start(welcome: &Welcome) -> BytesMut {
    let mut bytes = BytesMut::new();
    let mut add = |kind: u8, body: &[u8]| {
        bytes.extend_from_slice(&[kind]);
        let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(body);
    };
    add(b'R', &[0; 4]);
    for (name, value) in &welcome.statuses {
        add(b'S', format!("{name}\0{value}\0").as_bytes());
    }
    add(b'K', &[0; 8]);
    add(b'Z', b"I");
    bytes
}

/// Returns a connection to its first state. The error says that it cannot be used again.
pub(super) async fn reset(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let mut talk = Talk::new(stream, START_BYTES_MAX);
    talk.send(|to| frontend::query("DISCARD ALL", to)).await?;
    if talk.finish().await? && !talk.buffer.has_remaining() {
        return Ok(());
    }
    Err(io::Error::other("the connection cannot be used again"))
}

/// Asks the server to cancel the query of another connection.
pub(super) async fn cancel(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    key: BackendKey,
) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    frontend::cancel_request(key.process, key.secret, &mut bytes);
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    // The server closes the connection when it has passed it on.
    let _ = stream.read(&mut [0; 1]).await?;
    Ok(())
}

/// Follows the messages of both sides, to know whether the server owes an answer.
#[derive(Default)]
pub(crate) struct Traffic {
    from_guest: Frames,
    from_server: Frames,
    /// The answers that the server still owes.
    owed: u64,
    /// Whether the guest has sent parts of a query without their end.
    is_open: bool,
    /// The state of the last answer: idle, in a transaction, or in a failed one.
    status: Option<u8>,
}

impl Traffic {
    /// Takes what the guest sends. Returns how much of it is sent on: all, or up to a farewell.
    pub(super) fn guest(&mut self, bytes: &[u8]) -> usize {
        let (owed, is_open) = (&mut self.owed, &mut self.is_open);
        self.from_guest.take(bytes, |kind, _| {
            *owed += u64::from(matches!(kind, b'Q' | b'S' | b'F'));
            *is_open = match kind {
                b'P' | b'B' | b'D' | b'E' | b'C' => true,
                b'S' => false,
                _ => *is_open,
            };
            kind != b'X'
        })
    }

    /// Takes what the server sends.
    pub(super) fn server(&mut self, bytes: &[u8]) {
        let (owed, status) = (&mut self.owed, &mut self.status);
        self.from_server.take(bytes, |kind, first| {
            if kind == b'Z' {
                *owed = owed.saturating_sub(1);
                *status = Some(first);
            }
            true
        });
    }

    /// Notes that a statement of this process is on its way.
    pub(crate) const fn begin(&mut self) {
        self.owed = 1;
    }

    /// Notes that it is answered.
    pub(crate) const fn end(&mut self, status: u8) {
        self.owed = 0;
        self.status = Some(status);
    }

    /// Returns whether the server has answered everything and holds no transaction.
    pub(super) fn is_idle(&self) -> bool {
        let is_free = self.status.is_none_or(|status| status == b'I');
        let is_answered = self.owed == 0 && !self.is_open;
        is_answered && is_free && self.from_guest.is_between() && self.from_server.is_between()
    }

    /// Returns whether the server is at work.
    pub(super) const fn is_busy(&self) -> bool {
        self.owed > 0
    }
}

/// Where one side is between its messages.
#[derive(Default)]
struct Frames {
    /// The kind, the length and the first byte of a message, as far as they have come.
    head: Vec<u8>,
    /// The bytes of the message that are still to come.
    rest: usize,
}

/// The bytes of a head, without the first one of the body.
const HEAD: usize = 5;

impl Frames {
    /// Takes bytes, and calls `seen` with the kind and the first byte of each message. It returns whether the message counts:
    /// if not, taking stops before it. Returns how many bytes were taken.
    fn take(&mut self, bytes: &[u8], mut seen: impl FnMut(u8, u8) -> bool) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            if self.rest > 0 {
                let count = self.rest.min(bytes.len() - at);
                self.rest -= count;
                at += count;
                continue;
            }
            let begun_here = self.head.is_empty();
            if begun_here && bytes[at] == b'X' && !seen(b'X', 0) {
                return at;
            }
            self.head.push(bytes[at]);
            at += 1;
            let [kind, a, b, c, d, first @ ..] = &*self.head else {
                continue;
            };
            let length =
                usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX);
            // The first byte of the body comes with the head, if there is a body.
            if first.is_empty() && length > 4 {
                continue;
            }
            seen(*kind, first.first().copied().unwrap_or_default());
            self.rest = (length + 1).saturating_sub(self.head.len().max(HEAD));
            self.head.clear();
        }
        at
    }

    fn is_between(&self) -> bool {
        self.rest == 0 && self.head.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn a_connection_is_idle_when_everything_is_answered() {
        for size in [1, 2, 5, 6, 7, 1_000] {
            let mut traffic = Traffic::default();
            assert!(traffic.is_idle());
            let ask = [message(b'P', b"\0select 1\0\0\0"), message(b'S', b"")].concat();
            for piece in ask.chunks(size) {
                assert_eq!(traffic.guest(piece), piece.len());
            }
            assert!(traffic.is_busy() && !traffic.is_idle());
            for (status, is_idle) in [(b"T", false), (b"I", true), (b"E", false)] {
                let mut query = Traffic::default();
                query.guest(&message(b'Q', b"begin\0"));
                let answer = [message(b'C', b"BEGIN\0"), message(b'Z', status)].concat();
                for piece in answer.chunks(size) {
                    assert!(query.is_busy());
                    query.server(piece);
                }
                assert_eq!(query.is_idle(), is_idle);
            }
            // A half message leaves it in use.
            let mut half = Traffic::default();
            half.guest(&message(b'Q', b"select 1\0")[..7]);
            half.server(&message(b'Z', b"I"));
            assert!(!half.is_idle());
        }
    }

    #[test]
    fn a_farewell_is_not_sent_on() {
        let ask = [
            message(b'Q', b"X\0"),
            message(b'X', b""),
            message(b'Q', b"late\0"),
        ]
        .concat();
        assert_eq!(Traffic::default().guest(&ask), message(b'Q', b"X\0").len());
    }

    #[test]
    fn a_server_cannot_ask_for_long_work() {
        assert!(check_rounds(b"r=x,s=eA==,i=4096").is_ok());
        for message in [&b"r=x,s=eA==,i=4294967295"[..], b"r=x,s=eA==", b"i=-1"] {
            assert!(check_rounds(message).is_err());
        }
    }
}
