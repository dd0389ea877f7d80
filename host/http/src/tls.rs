//! TLS for listeners: reads a certificate and its key, and replaces them while connections continue.

mod certificate;
mod clients;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_core::time::Time;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, InconsistentKeys, ServerConfig};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::certificate::Leaf;
pub use self::clients::{ClientNames, Pattern, WrongPattern};
use crate::peer::Peer;

/// How often the files are compared with what is in use.
pub const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How long a peer that is refused may take to read why and to close.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The only protocol. HTTP/2 would need a second parser, with limits of its own, behind every guard.
const ALPN: &[u8] = b"http/1.1";

/// The least days that a certificate should be valid, so that there is time to renew it.
pub const DAYS_MIN: f64 = 14.0;

const MS_PER_DAY: f64 = 86_400_000.0;

/// The files that TLS is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those of intermediate authorities, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// Who may connect; `None` for everybody.
    pub clients: Option<Clients>,
}

/// Which client certificates are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// The certificates of the authorities that sign them, in PEM.
    pub authorities: PathBuf,
    /// The names that are allowed.
    pub names: ClientNames,
}

/// Why a certificate cannot be used. Shows no content of files.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} has no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    #[error("{} has no private key in PEM", .0.display())]
    NoKey(PathBuf),
    #[error("the key in {} is encrypted; write it without a passphrase, for the host's user alone", .0.display())]
    EncryptedKey(PathBuf),
    #[error("{} is damaged: {message}", .path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("the key in {} is weak: RSA with {bits} bits, at least 2048 are needed", .path.display())]
    Weak { path: PathBuf, bits: usize },
    #[error("the key in {} does not belong to the certificate in {}", .key.display(), .certificate.display())]
    OtherKey { key: PathBuf, certificate: PathBuf },
    #[error("the certificate in {} is not valid before {from}", .path.display())]
    NotYetValid { path: PathBuf, from: String },
    #[error("the certificate in {} expired at {until}", .path.display())]
    Expired { path: PathBuf, until: String },
}

/// TLS of one or more listeners. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    state: Mutex<State>,
}

struct State {
    current: Arc<Loaded>,
    /// The contents that could not be used, or that files could not be read, so that each is reported once.
    refused: Option<Result<Contents, ()>>,
}

/// What was read, and what was made of it.
struct Loaded {
    contents: Contents,
    config: Arc<ServerConfig>,
    leaf: Leaf,
}

/// The bytes of all files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.0.files).finish()
    }
}

impl Tls {
    /// Reads the files. A certificate that is not valid now is used all the same: clients refuse it and say
    /// why, while jobs continue ([`Tls::check`]).
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Arc::new(files.load(files.read()?)?);
        let state = Mutex::new(State {
            current,
            refused: None,
        });
        Ok(Self(Arc::new(Shared { files, state })))
    }

    /// Reads the files again, and uses them for further connections if they have changed. Returns whether they
    /// have. What cannot be used, or is not valid at `now`, replaces nothing; it is an error once, or again if
    /// a caller `asks`.
    pub fn reload(&self, now: Time, asks: bool) -> Result<bool, TlsError> {
        let Shared { files, state } = &*self.0;
        let contents = files.read();
        let is_current = |contents: &Contents| state.lock().current.contents == *contents;
        if contents.as_ref().is_ok_and(is_current) {
            state.lock().refused = None;
            return Ok(false);
        }
        let read = contents.as_ref().map_err(drop).cloned();
        let loaded = contents.and_then(|contents| {
            let loaded = files.load(contents)?;
            files.check(&loaded.leaf, now)?;
            Ok(loaded)
        });
        let mut state = state.lock();
        match loaded {
            Ok(loaded) => {
                state.current = Arc::new(loaded);
                state.refused = None;
                Ok(true)
            }
            Err(_) if !asks && state.refused.as_ref() == Some(&read) => Ok(false),
            Err(error) => {
                state.refused = Some(read);
                Err(error)
            }
        }
    }

    /// Checks that the certificate in use is valid at `now`.
    pub fn check(&self, now: Time) -> Result<(), TlsError> {
        self.0.files.check(&self.current().leaf, now)
    }

    /// Returns how many days the certificate in use is still valid; negative if it has expired.
    pub fn days_left(&self, now: Time) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "shown, not counted with")]
        let left_ms = (self.current().leaf.until.0 - now.0) as f64;
        left_ms / MS_PER_DAY
    }

    /// Returns whether the certificate in use is for `name`: a DNS name or an address.
    pub fn is_for(&self, name: &str) -> bool {
        self.current().leaf.is_for(name)
    }

    /// Returns the names of the certificate in use, as text.
    pub fn names(&self) -> Vec<String> {
        self.current().leaf.names.clone()
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.state.lock().current)
    }

    /// Makes a connection secure, and records in `peer` what that proves.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: &mut Peer,
    ) -> io::Result<TlsStream<S>> {
        let config = Arc::clone(&self.current().config);
        let accepting = TlsAcceptor::from(config).accept(stream).into_fallible();
        let stream = match accepting.await {
            Ok(stream) => stream,
            Err((error, stream)) => {
                linger(stream).await;
                return Err(error);
            }
        };
        peer.is_tls = true;
        if let Some(clients) = &self.0.files.clients {
            let (_, connection) = stream.get_ref();
            let leaf = connection.peer_certificates().and_then(<[_]>::first);
            let name = leaf
                .and_then(|leaf| clients.names.allowed(leaf))
                .ok_or(io::ErrorKind::PermissionDenied)?;
            peer.certificate_name = Some(name.into());
        }
        Ok(stream)
    }
}

/// Returns the status that says why a handshake failed, if that is for who the client is.
pub(crate) fn denies(error: &io::Error) -> Option<u16> {
    let inner = error.get_ref();
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        // Its name is not allowed.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        )) => Some(403),
        Some(rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_)) => {
            Some(401)
        }
        _ => None,
    }
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsError> {
        let clients = self.clients.as_ref();
        let authorities = clients.map(|clients| read(&clients.authorities));
        Ok(Contents {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            authorities: authorities.transpose()?,
        })
    }

    fn load(&self, contents: Contents) -> Result<Loaded, TlsError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        let leaf = Leaf::read(&chain[0]).map_err(|message| TlsError::Damaged {
            path: self.certificate.clone(),
            message,
        })?;
        if let Some(bits) = leaf.weak_bits {
            let path = self.key.clone();
            return Err(TlsError::Weak { path, bits });
        }
        let key = self.key(&contents.key)?;
        let provider = Arc::new(ring::default_provider());
        let damaged = |path: &Path| {
            let path = path.to_owned();
            move |error: rustls::Error| TlsError::Damaged {
                path,
                message: error.to_string(),
            }
        };
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(damaged(&self.certificate))?;
        let builder = match (&self.clients, &contents.authorities) {
            (Some(clients), Some(bytes)) => {
                let authorities = certificates(&clients.authorities, bytes)?;
                let verifier = clients::verifier(authorities, clients.names.clone(), provider)
                    .map_err(|message| TlsError::Damaged {
                        path: clients.authorities.clone(),
                        message,
                    })?;
                versions.with_client_cert_verifier(verifier)
            }
            _ => versions.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::OtherKey {
                        key: self.key.clone(),
                        certificate: self.certificate.clone(),
                    }
                }
                error => damaged(&self.key)(error),
            })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        if self.clients.is_some() {
            // A resumed session would not check the client's certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        let config = Arc::new(config);
        Ok(Loaded {
            contents,
            config,
            leaf,
        })
    }

    fn key(&self, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(bytes).map_err(|error| {
            let path = self.key.clone();
            let encrypted = b"ENCRYPTED";
            match error {
                pem::Error::NoItemsFound
                    if bytes.windows(encrypted.len()).any(|it| it == encrypted) =>
                {
                    TlsError::EncryptedKey(path)
                }
                pem::Error::NoItemsFound => TlsError::NoKey(path),
                _ => TlsError::Damaged {
                    path,
                    message: "it is not valid PEM".to_owned(),
                },
            }
        })
    }

    fn check(&self, leaf: &Leaf, now: Time) -> Result<(), TlsError> {
        let path = || self.certificate.clone();
        if now < leaf.from {
            let (path, from) = (path(), leaf.from_text.clone());
            return Err(TlsError::NotYetValid { path, from });
        }
        if leaf.until < now {
            let (path, until) = (path(), leaf.until_text.clone());
            return Err(TlsError::Expired { path, until });
        }
        Ok(())
    }
}

/// Lets the peer read why it was refused. If bytes that it has sent stay unread, the connection is reset, and
/// the reason may be lost.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut unread = [0; 1_024];
    let read = async {
        stream.shutdown().await?;
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER_TIME, read).await;
}

/// Reads a file up to a limit.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(io::Error::other("it is larger than 1 MiB")));
    }
    Ok(bytes)
}

/// Reads one certificate or more.
fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let read = parsed.map_err(|error| TlsError::Damaged {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    if read.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(read)
}
