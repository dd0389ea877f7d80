//! Requests that the host signs for S3: moto checks each signature with botocore.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use host_tests::reflector::SOON;
use host_tests::{Options, Server, eventually, guests, peers, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Makes a user with a key and prints the key. These are the three requests that moto takes from anyone.
const KEYS: &str = "
import boto3, json, sys
iam = boto3.client('iam', endpoint_url=sys.argv[1], region_name='us-east-1', aws_access_key_id='a', aws_secret_access_key='b')
iam.create_user(UserName='jobs')
policy = {'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': 's3:*', 'Resource': '*'}]}
iam.put_user_policy(UserName='jobs', PolicyName='all', PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName='jobs')['AccessKey']
print(json.dumps([key['AccessKeyId'], key['SecretAccessKey']]))
";

/// Services of AWS on a free port. They end when this is dropped.
struct Moto {
    child: Child,
    origin: String,
}

impl Moto {
    fn start() -> Self {
        let port = ports::free(1);
        let child = Command::new(peers::moto().join("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .env("INITIAL_NO_AUTH_ACTION_COUNT", "3")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("moto listens", SOON, || {
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let origin = format!("http://127.0.0.1:{port}");
        Self { child, origin }
    }

    /// Returns the id of a key and the key.
    fn key(&self) -> (String, String) {
        let made = Command::new(peers::moto().join("python"))
            .args(["-c", KEYS, &self.origin])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{message}");
        serde_json::from_slice(&made.stdout).unwrap()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_handler_keeps_objects_with_keys_that_it_never_sees() {
    let (data, moto) = (TempDir::new().unwrap(), Moto::start());
    let (id, key) = moto.key();
    let origin = &moto.origin;
    let file = data.path().join("host.toml");
    let settings = format!(
        "[grants]\nhttp = [\"{origin}\"]\nnetworks = [\"127.0.0.1/32\"]\n\
         [secrets.id]\nenv = \"KEY_ID\"\n[secrets.key]\nenv = \"KEY\"\n[secrets.wrong]\nenv = \"KEY_ID\"\n"
    );
    fs::write(&file, settings).unwrap();
    let mut options = Options::new(&data.path().join("data"));
    options.args = vec!["--config".to_owned(), file.display().to_string()];
    options.env = vec![
        ("KEY_ID".to_owned(), id.clone()),
        ("KEY".to_owned(), key.clone()),
    ];
    let server = Server::start(&options);
    let client = server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let run = |secret: &str, requests: Value| {
        let manifest = format!(
            "[[handlers.request.http]]\nto = \"{origin}\"\nsign = {{ scheme = \"aws-sigv4\", region = \"us-east-1\", \
             service = \"s3\", key_id = \"{{secret:id}}\", secret_key = \"{{secret:{secret}}}\" }}\n"
        );
        let answer = client
            .deploy_accepted("hostile", &hostile, Some(&manifest))
            .unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let params = json!({"requests": requests});
        let job = client.run(&json!({"handler": "request", "params": params, "max_attempts": 1}));
        let text = job.to_string();
        assert!(!text.contains(&id) && !text.contains(&key), "{text}");
        job["result"].clone()
    };
    let object = format!("{origin}/reports/year/a%20b.txt");
    let learned = run(
        "key",
        json!([
            {"method": "PUT", "url": format!("{origin}/reports")},
            {"method": "PUT", "url": object, "body_bytes": 10, "headers": [["content-type", "text/plain"], ["x-amz-meta-a", "b"]]},
            {"url": object},
            {"url": format!("{origin}/reports?list-type=2&prefix=year")},
            {"url": object, "headers": [["authorization", "mine"]]},
        ]),
    );
    for index in 0..4 {
        assert_eq!(learned[index]["status"], 200, "{index}: {learned}");
    }
    assert_eq!(learned[2]["body"], "a".repeat(10), "{learned}");
    let list = learned[3]["body"].as_str().unwrap();
    assert!(
        list.contains("year/a b.txt") || list.contains("year/a%20b.txt"),
        "{list}"
    );
    assert_eq!(learned[4]["kind"], "InvalidRequest", "{learned}");
    let refused = run("wrong", json!([{"url": object}]));
    assert_eq!(refused[0]["status"], 403, "{refused}");
}
