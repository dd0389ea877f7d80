//! Access tokens of service accounts: the `cryptography` of `PyPI` makes the key and verifies what the host signs with it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use host_tests::{Options, Server, guests, peers};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A token endpoint for one service account, and an API that takes its tokens. Prints the key's file.
const SERVER: &str = r"
import base64, http.server, json, time, urllib.parse
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
decode = lambda text: base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers['content-length'])).decode())
        assert form['grant_type'] == ['urn:ietf:params:oauth:grant-type:jwt-bearer'], form
        head, claims, signature = form['assertion'][0].split('.')
        key.public_key().verify(decode(signature), f'{head}.{claims}'.encode(), padding.PKCS1v15(), hashes.SHA256())
        head, claims = json.loads(decode(head)), json.loads(decode(claims))
        assert head == {'alg': 'RS256', 'typ': 'JWT', 'kid': 'k1'}, head
        assert claims['iss'] == 'jobs@example.com' and claims['scope'] == 'a b', claims
        assert claims['aud'] == origin + '/token' and claims['exp'] - claims['iat'] == 3600, claims
        assert abs(claims['iat'] - time.time()) < 300, claims
        self.answer(200, {'access_token': 'secret-token', 'expires_in': 3599, 'token_type': 'Bearer'})

    def do_GET(self):
        is_known = self.headers['authorization'] == 'Bearer secret-token'
        self.answer(200 if is_known else 401, {'sent': self.headers['authorization']})

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
origin = f'http://127.0.0.1:{server.server_port}'
account = {'type': 'service_account', 'client_email': 'jobs@example.com', 'private_key_id': 'k1', 'private_key': pem.decode()}
print(json.dumps([origin, json.dumps(account)]), flush=True)
server.serve_forever()
";

/// Ends its process when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_handler_uses_an_api_whose_token_it_never_sees() {
    let data = TempDir::new().unwrap();
    let mut child = Command::new(peers::moto().join("python"))
        .args(["-c", SERVER])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    let _guard = Process(child);
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let (origin, account): (String, String) = serde_json::from_str(&line).unwrap();
    let file = data.path().join("host.toml");
    let settings = format!(
        "[grants]\nhttp = [\"{origin}\"]\nnetworks = [\"127.0.0.1/32\"]\n\
         [secrets.account]\nenv = \"ACCOUNT\"\n[secrets.wrong]\nenv = \"WRONG\"\n"
    );
    fs::write(&file, settings).unwrap();
    let mut options = Options::new(&data.path().join("data"));
    options.args = vec!["--config".to_owned(), file.display().to_string()];
    options.env = vec![
        ("ACCOUNT".to_owned(), account),
        ("WRONG".to_owned(), "{\"client_email\": \"a\"}".to_owned()),
    ];
    let server = Server::start(&options);
    let client = server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let deploy = |secret: &str, token_url: &str| {
        let manifest = format!(
            "[[handlers.request.http]]\nto = \"{origin}\"\noauth = {{ token_url = \"{token_url}\", \
             service_account = \"{{secret:{secret}}}\", scope = \"a b\" }}\n"
        );
        client.deploy_accepted("hostile", &hostile, Some(&manifest))
    };
    let run = |secret: &str, requests: Value| {
        let answer = deploy(secret, &format!("{origin}/token")).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let params = json!({"requests": requests});
        let job = client.run(&json!({"handler": "request", "params": params, "max_attempts": 1}));
        assert!(!job.to_string().contains("secret-token"), "{job}");
        job["result"].clone()
    };
    let learned = run(
        "account",
        json!([
            {"url": format!("{origin}/a")},
            {"url": format!("{origin}/b"), "headers": [["authorization", "mine"]]},
        ]),
    );
    assert_eq!(learned[0]["status"], 200, "{learned}");
    let body = learned[0]["body"].as_str().unwrap();
    assert!(body.contains("Bearer {secret:account}"), "{body}");
    assert_eq!(learned[1]["kind"], "InvalidRequest", "{learned}");
    let wrong = run("wrong", json!([{"url": format!("{origin}/a")}]));
    assert_eq!(wrong[0]["kind"], "NotGranted", "{wrong}");
    // Credentials go only where the configuration allows requests.
    let refused = deploy("account", "https://login.example.com/token").unwrap();
    assert_eq!(refused.status, 422, "{refused:?}");
    let message = refused.body.to_string();
    assert!(
        message.contains("whose server is not in grants.http"),
        "{message}"
    );
}
