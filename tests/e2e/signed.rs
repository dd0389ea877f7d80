//! A host that runs only what a trusted key has signed.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use host_tests::server::host;
use host_tests::{Options, Server, guests};
use minisign::KeyPair;
use serde_json::Value;
use tempfile::TempDir;

fn pair() -> KeyPair {
    KeyPair::generate_unencrypted_keypair().unwrap()
}

/// Copies a component, and writes a signature of `signed` beside it.
fn put(folder: &Path, name: &str, by: Option<&KeyPair>, signed: &[u8]) -> PathBuf {
    let file = folder.join(format!("{name}.wasm"));
    std::fs::copy(guests::component(name), &file).unwrap();
    let beside = folder.join(format!("{name}.wasm.minisig"));
    let _ = std::fs::remove_file(&beside);
    if let Some(pair) = by {
        let signature = minisign::sign(None, &pair.sk, Cursor::new(signed), None, None);
        std::fs::write(beside, signature.unwrap().to_string()).unwrap();
    }
    file
}

fn start(data: &TempDir, keys: &[&KeyPair], args: &[String]) -> Server {
    let mut options = Options::new(data.path());
    let public: Vec<String> = keys.iter().map(|pair| pair.pk.to_base64()).collect();
    let keys = ("HOST_DEPLOY_TRUSTED_KEYS".to_owned(), public.join(","));
    options.env.push(keys);
    options.args.extend(args.iter().cloned());
    Server::start(&options)
}

fn run(args: &[&str]) -> Output {
    let mut program = Command::new(host());
    let command = program.args(args).env_remove("HOST_SERVER");
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn only_components_with_a_trusted_signature_are_deployed_and_run() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folder = folder.path();
    let (one, two, other) = (pair(), pair(), pair());
    let server = start(&data, &[&one, &two], &[]);
    let url = format!("http://{}", server.address());
    let deploy = |file: &Path| {
        let file = file.to_str().unwrap();
        run(&["deploy", file, "--server", &url, "-o", "json"])
    };
    let basics = std::fs::read(guests::component("basics")).unwrap();
    for (by, signed, why) in [
        (None, &basics[..], "not signed"),
        (Some(&other), &basics, "not in deploy.trusted_keys"),
        (Some(&one), b"something else", "does not match its bytes"),
    ] {
        let refused = deploy(&put(folder, "basics", by, signed));
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{error}");
        assert!(
            error.contains("unsigned_component") && error.contains(why),
            "{error}"
        );
    }
    let file = put(folder, "basics", Some(&one), &basics);
    let deployed = deploy(&file);
    assert_eq!(
        deployed.status.code(),
        Some(0),
        "{}",
        text(&deployed.stderr)
    );
    let first = json(&deployed.stdout);
    assert_eq!(first["revision"], 1, "{first}");
    assert_eq!(
        first["signed_by"].as_str().map(str::len),
        Some(16),
        "{first}"
    );
    let again = json(&deploy(&file).stdout);
    assert_eq!(again["unchanged"], true, "{again}");
    // The signature may be elsewhere.
    let (beside, elsewhere) = (folder.join("basics.wasm.minisig"), folder.join("signature"));
    std::fs::rename(beside, &elsewhere).unwrap();
    let (file, elsewhere) = (file.to_str().unwrap(), elsewhere.to_str().unwrap());
    let words = ["deploy", file, "--signature", elsewhere];
    let named = run(&[&words[..], &["--server", &url, "-o", "json"]].concat());
    assert_eq!(json(&named.stdout)["unchanged"], true, "{named:?}");
    // Another key is another revision of the same bytes.
    let second = deploy(&put(folder, "basics", Some(&two), &basics));
    assert_eq!(json(&second.stdout)["revision"], 2, "{second:?}");
    let client = server.client();
    let job = client.enqueue(&serde_json::json!({"handler": "echo", "params": 1}));
    assert_eq!(client.wait(&job)["state"], "completed");
    server.stop();

    // A key that is trusted no more: neither does its revision run, nor does a rollback go back to one.
    let server = start(&data, &[&two], &[]);
    let url = format!("http://{}", server.address());
    let back = run(&["component", "rollback", "basics", "1", "--server", &url]);
    let error = text(&back.stderr);
    assert!(error.contains("unsigned_component"), "{error}");
    let client = server.client();
    let job = client.enqueue(&serde_json::json!({"handler": "echo", "params": 1}));
    assert_eq!(
        client.wait(&job)["state"],
        "completed",
        "revision 2 is good"
    );
    server.stop();
    let server = start(&data, &[&one], &[]);
    let nodes = server
        .client()
        .get("/api/v1/components/basics")
        .unwrap()
        .body;
    let node = nodes["nodes"][0].to_string();
    assert!(
        node.contains("failed") && node.contains("trusted_keys"),
        "{node}"
    );
    let job = serde_json::json!({"handler": "echo", "params": 1});
    let failure = server.client().run(&job)["failure"].to_string();
    assert!(failure.contains("trusted_keys"), "{failure}");
}

#[test]
fn a_folder_of_components_needs_signatures_too() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let one = pair();
    let basics = std::fs::read(guests::component("basics")).unwrap();
    let file = put(folder.path(), "basics", None, &basics);
    let handlers = folder.path().to_str().unwrap();
    let key = one.pk.to_base64();
    let serve = Command::new(host())
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--handlers",
            handlers,
            "--data",
        ])
        .arg(data.path())
        .env("HOST_DEPLOY_TRUSTED_KEYS", &key)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = text(&serve.stderr);
    assert!(
        !serve.status.success() && error.contains("not signed"),
        "{error}"
    );
    let verify = |args: &[&str]| {
        let file = file.to_str().unwrap();
        run(&[&["component", "verify", file], args].concat())
    };
    assert_eq!(verify(&["--key", &key]).status.code(), Some(1));
    put(folder.path(), "basics", Some(&one), &basics);
    let good = verify(&["--key", &key]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert!(text(&good.stdout).contains("signed by"));
    assert_eq!(
        verify(&["--key", &pair().pk.to_base64()]).status.code(),
        Some(1)
    );
    assert_eq!(verify(&[]).status.code(), Some(2), "no key is known");
    let args = ["--handlers".to_owned(), handlers.to_owned()];
    let server = start(&data, &[&one], &args);
    let components = server.client().items("/api/v1/components");
    assert!(components[0]["signed_by"].is_string(), "{components:?}");
}
