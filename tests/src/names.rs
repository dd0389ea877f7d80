//! A server of names whose answers the test chooses (RFC 1035, section 4).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// The length of a message's header, in bytes.
const HEADER: usize = 12;

/// The types of records with addresses, and their class.
const IPV4: [u8; 2] = [0, 1];
const IPV6: [u8; 2] = [0, 28];
const INTERNET: [u8; 2] = [0, 1];

/// The addresses of each name, in one answer after another.
type Addresses = BTreeMap<String, Vec<Vec<IpAddr>>>;

/// A server of names.
pub struct Names {
    address: SocketAddr,
    known: Arc<Mutex<Addresses>>,
}

impl Names {
    /// Starts one on a free port of 127.0.0.1. It knows no name.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it has an address");
        let known = Arc::new(Mutex::new(Addresses::new()));
        let names = Arc::clone(&known);
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = answer(&question[..length], &mut names) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { address, known }
    }

    /// Returns its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the addresses of a name in its first answer, in the next and so on; after the last comes the first.
    ///
    /// # Panics
    ///
    /// If one is no address.
    pub fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |text: &&str| text.parse().expect("it is an address");
        let answers = answers.iter().map(|it| it.iter().map(parse).collect());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), answers.collect());
    }
}

/// Answers one question; no answer may be kept.
fn answer(question: &[u8], names: &mut Addresses) -> Option<Vec<u8>> {
    let (mut labels, mut at) = (Vec::new(), HEADER);
    loop {
        let length = usize::from(*question.get(at)?);
        if length == 0 {
            break;
        }
        let label = question.get(at + 1..=at + length)?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += length + 1;
    }
    let kind = question.get(at + 1..at + 3)?;
    let known = names.get_mut(&labels.join("."));
    let code = if known.is_some() { 0 } else { 3 };
    let mut addresses = Vec::new();
    if let Some(answers) = known {
        let is_asked = |it: &&IpAddr| kind == if it.is_ipv4() { IPV4 } else { IPV6 };
        let first = answers.first().into_iter().flatten();
        addresses.extend(first.filter(is_asked).copied());
        // Clients ask for both kinds.
        if !addresses.is_empty() {
            answers.rotate_left(1);
        }
    }
    let count = u8::try_from(addresses.len()).ok()?;
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([0x85, code, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(question.get(HEADER..at + 5)?);
    for address in addresses {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        // The name of the question, the kind, no time to live, and how many bytes follow.
        answer.extend([0xc0, 12]);
        answer.extend([kind, &INTERNET, &[0, 0, 0, 0, 0]].concat());
        answer.push(u8::try_from(bytes.len()).ok()?);
        answer.extend(bytes);
    }
    Some(answer)
}
