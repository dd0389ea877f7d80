//! `host serve --trial`: a host that others can reach in a minute, with a certificate that it signs itself and a token, and
//! what to type to use it.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use host_console::error::{CliError, Exit};
use host_console::output::say;
use host_server::config::{Config, Flags};
use host_wire_kit::section::Stated;
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// The certificate and its key in the data directory, and the first token there.
const CERTIFICATE: &str = "trial.pem";
const KEY: &str = "trial.key";
const TOKEN: &str = "admin.token";

/// Where it listens, if nothing else is said.
const LISTEN: &str = "0.0.0.0:7700";

/// Where files are in memory.
const MEMORY: &str = "/dev/shm";

/// A host to try.
pub(super) struct Trial {
    pub(super) config: Config,
    data: PathBuf,
    /// Its data directory, if it ends with this.
    memory: Option<TempDir>,
    certificate: String,
}

impl Trial {
    /// Makes its certificate and its configuration.
    pub(super) fn prepare(mut flags: Flags) -> Result<Self, CliError> {
        let refused = |error| CliError::new(Exit::Usage, "serve a trial", error);
        let failed = |error: &dyn std::fmt::Display| {
            CliError::new(Exit::Failed, "serve a trial", error)
                .next("give it a directory that this user may write to with --data")
        };
        let stated = Config::load(&flags).map_err(refused)?;
        let is_given = |key: &str| stated.keys.contains(&key);
        let memory = (!is_given("data"))
            .then(|| TempDir::new_in(MEMORY).or_else(|_| TempDir::new()))
            .transpose()
            .map_err(|error| failed(&error))?;
        let data = match &memory {
            Some(folder) => folder.path().to_owned(),
            None => stated.data.clone(),
        };
        let certificate = certificate(&data).map_err(|error| failed(&*error))?;
        let path = |name: &str| data.join(name).display().to_string();
        let mut set = |key: &str, text: String| {
            let stated = Stated::by_flag("trial", text);
            flags.values.insert(key.to_owned(), stated);
        };
        set("data", data.display().to_string());
        set("auth.mode", "tokens".to_owned());
        set("http.tls_cert_file", path(CERTIFICATE));
        set("http.tls_key_file", path(KEY));
        if !is_given("http.listen") {
            set("http.listen", LISTEN.to_owned());
        }
        Ok(Self {
            config: Config::load(&flags).map_err(refused)?,
            data,
            memory,
            certificate,
        })
    }

    /// Returns what is said once it accepts requests: that it is a trial, and what to type elsewhere.
    pub(super) fn welcome(&self) -> impl FnOnce(Option<SocketAddr>) + use<> {
        let (file, certificate) = (self.data.join(TOKEN), self.certificate.clone());
        let is_gone = self.memory.is_some();
        move |address| {
            let token = fs::read_to_string(file).ok();
            let Some(address) = address else { return };
            let token = token.as_deref().map(str::trim);
            say(&welcome(address, token, certificate.trim_end(), is_gone));
        }
    }
}

fn welcome(address: SocketAddr, token: Option<&str>, certificate: &str, is_gone: bool) -> String {
    let data = if is_gone {
        "its data is in memory and lost when it ends"
    } else {
        "its data is kept"
    };
    let token = token.map_or(
        "# HOST_TOKEN is that of its first start".to_owned(),
        |token| format!("export HOST_TOKEN={token}"),
    );
    let port = address.port();
    let fingerprint = fingerprint(certificate);
    format!(
        "\
This is a trial: {data}, its certificate is self-signed, and its token makes the holder an administrator for one day.
The certificate has the SHA-256 fingerprint {fingerprint}.
To use it, paste this into a shell. From another machine, replace localhost by the name or the address of this one.

cat > host-trial.pem <<'END'
{certificate}
END
export HOST_SERVER=https://localhost:{port} HOST_CA_FILE=$PWD/host-trial.pem
{token}
host job ls
"
    )
}

/// Returns the fingerprint of a certificate in PEM, as browsers show it.
fn fingerprint(certificate: &str) -> String {
    let lines = certificate.lines().filter(|line| !line.starts_with('-'));
    let bytes = BASE64.decode(lines.collect::<String>()).unwrap_or_default();
    let digest = Sha256::digest(bytes);
    let pairs = digest.iter().map(|byte| format!("{byte:02X}"));
    pairs.collect::<Vec<_>>().join(":")
}

/// Returns the certificate of an earlier start, or makes one.
fn certificate(data: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let (certificate, key) = (data.join(CERTIFICATE), data.join(KEY));
    if let (Ok(text), true) = (fs::read_to_string(&certificate), key.exists()) {
        return Ok(text);
    }
    let made = KeyPair::generate()?;
    let signed = CertificateParams::new(names())?.self_signed(&made)?;
    fs::create_dir_all(data)?;
    let mut options = fs::File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&key)?;
    file.write_all(made.serialize_pem().as_bytes())?;
    fs::write(&certificate, signed.pem())?;
    Ok(signed.pem())
}

/// Returns the names by which this machine may be reached.
fn names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), Ipv4Addr::LOCALHOST.to_string()];
    let own = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    names.extend(own.map(|name| name.trim().to_owned()));
    names.extend(address_of_this_machine().map(|address| address.to_string()));
    names
}

/// Returns the address that a packet to another network would come from. No packet is sent.
fn address_of_this_machine() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_bytes() {
        let pem = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----";
        let sum = fingerprint(pem);
        assert!(sum.starts_with("BA:78:16:BF:8F:01:CF:EA"), "{sum}");
    }

    #[test]
    fn a_certificate_stays_with_its_data() {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let first = certificate(&data).unwrap();
        assert!(first.starts_with("-----BEGIN CERTIFICATE-----"), "{first}");
        assert_eq!(certificate(&data).unwrap(), first);
        fs::remove_file(data.join(KEY)).unwrap();
        assert_ne!(
            certificate(&data).unwrap(),
            first,
            "it is of no use without its key"
        );
    }
}
