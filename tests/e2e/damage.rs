//! Damaged or missing files of the data directory: the host recreates what it can, and refuses to start
//! without the rest.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{Own, deploy, own_with};

/// Starts a host that is expected to refuse.
fn serve_damaged(data: &Path) -> Output {
    let output = Command::new(host_tests::server::host())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

/// Starts a host that compiles everything in its cache itself.
fn compiling() -> Own {
    own_with(|options| options.compiles_all = true)
}

/// `host store check` finds damage and prints these words.
fn finds(data: &Path, words: &str) {
    let check = Command::new(host_tests::server::host())
        .args(["store", "check", "--data"])
        .arg(data)
        .output()
        .unwrap();
    let found = String::from_utf8_lossy(&check.stdout);
    assert!(found.contains(words), "{found}");
    assert_eq!(check.status.code(), Some(1));
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn compiled(data: &Path) -> PathBuf {
    files(&data.join("cache"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "cwasm"))
        .unwrap()
}

/// Changes bytes in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0xa5);
    // A new file, because cells may have mapped the old one.
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn assert_first_attempt_completes(client: &Client) {
    let job = client.run(&json!({"handler": "noop", "max_attempts": 1}));
    assert_eq!(job["state"], "completed", "{job}");
    let id = job["id"].as_str().unwrap();
    let attempts = client
        .get(&format!("/api/v1/jobs/{id}/attempts"))
        .unwrap()
        .body["items"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(attempts, 1, "the damage costs no attempt");
}

#[test]
fn a_damaged_compiled_component_is_compiled_again() {
    let Own { server, data } = compiling();
    let file = compiled(data.path());
    damage(&file);
    assert_first_attempt_completes(&server.client());
    assert_eq!(server.stop(), Some(0));

    damage(&compiled(data.path()));
    let server = Server::start(&Options::new(data.path()));
    assert_first_attempt_completes(&server.client());

    fs::remove_file(compiled(data.path())).unwrap();
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&Options::new(data.path()));
    assert_first_attempt_completes(&server.client());
}

/// The files of one component in the cache.
struct Cached {
    note: PathBuf,
    stem: String,
}

impl Cached {
    fn find(data: &Path, client: &Client, component: &str) -> Self {
        let components = client.get("/api/v1/components").unwrap().body;
        let mut known = components["items"].as_array().unwrap().iter();
        let revision = known.find(|revision| revision["component"] == component);
        let digest = revision.expect("it is deployed")["digest"]
            .as_str()
            .unwrap();
        let mut notes = files(&data.join("cache")).into_iter();
        let note = notes
            .find(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                name.starts_with(digest) && path.extension().is_some_and(|it| it == "json")
            })
            .expect("it is in the cache");
        let stem = note.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { note, stem }
    }

    fn code(&self) -> Vec<PathBuf> {
        let mut found = files(self.note.parent().unwrap());
        found.retain(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(&self.stem) && path.extension().is_some_and(|it| it == "cwasm")
        });
        found
    }

    /// Puts the code of another component in place of this one's, with a matching note. Its seal comes from
    /// one of the two notes, because an attacker with access to the cache cannot make a new one.
    fn replace(&self, other: &Self, keeps_seal: bool) {
        let read =
            |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
        let (mut forged, theirs) = (read(&self.note), read(&other.note));
        forged["compiled"] = theirs["compiled"].clone();
        if !keeps_seal {
            forged["seal"] = theirs["seal"].clone();
        }
        for own in self.code() {
            damage(&own);
        }
        let code = &other.code()[0];
        let content = code
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .strip_prefix(&other.stem)
            .unwrap();
        fs::copy(
            code,
            self.note.with_file_name(format!("{}{content}", self.stem)),
        )
        .unwrap();
        fs::write(&self.note, forged.to_string()).unwrap();
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn compiled_code_that_the_host_did_not_compile_is_compiled_again() {
    let Own { server, data } = compiling();
    let client = server.client();
    deploy(&client, "hostile");
    let find = |component| Cached::find(data.path(), &client, component);
    let (ours, other) = (find("basics"), find("hostile"));
    // While the host runs, and while it is stopped.
    ours.replace(&other, true);
    assert_first_attempt_completes(&client);
    assert_eq!(server.stop(), Some(0));
    for keeps_seal in [true, false] {
        ours.replace(&other, keeps_seal);
        let server = Server::start(&Options::new(data.path()));
        assert_first_attempt_completes(&server.client());
        assert_eq!(server.stop(), Some(0));
    }
    // With a foreign key, all compiled components are void.
    fs::write(data.path().join("cache.key"), [7; 32]).unwrap();
    let server = Server::start(&Options::new(data.path()));
    assert_first_attempt_completes(&server.client());
}

#[test]
fn a_store_that_is_gone_is_not_replaced_without_a_word() {
    let Own { server, data } = compiling();
    server.client().run(&json!({"handler": "noop"}));
    assert_eq!(server.stop(), Some(0));
    let store = data.path().join("host.db");
    fs::remove_file(&store).unwrap();
    for _ in 0..2 {
        let message = message(&serve_damaged(data.path()));
        for word in ["host.db", "logs.db", "cache", "--fresh"] {
            assert!(message.contains(word), "{word} is not in: {message}");
        }
        fs::write(&store, b"").unwrap();
    }
    let mut options = Options::new(data.path());
    options.args = vec!["--fresh".to_owned()];
    let server = Server::start(&options);
    let list = server.client().get("/api/v1/components").unwrap().body;
    assert_eq!(list["items"], json!([]));
}

#[test]
fn damaged_logs_do_not_keep_a_host_from_starting() {
    let Own { server, data } = compiling();
    assert_eq!(server.stop(), Some(0));
    let logs = data.path().join("logs.db");
    fs::write(&logs, vec![b'x'; 10_000]).unwrap();
    let server = Server::start(&Options::new(data.path()));
    assert_first_attempt_completes(&server.client());
    let kept = fs::read(data.path().join("logs.db.damaged-1")).unwrap();
    assert_eq!(kept.len(), 10_000);
}

/// Records that the host cannot read stop it and not only what they are about, and have a way out.
#[test]
fn a_host_gets_past_records_that_it_cannot_read() {
    let Own { server, data } = compiling();
    let client = server.client();
    let paused = client.post("/api/v1/queues/later/pause", &json!({"create": true}));
    assert_eq!(paused.unwrap().status, 200);
    let later = |n: u8| client.enqueue(&json!({"handler": "noop", "queue": "later", "params": n}));
    let (lost, kept) = (later(1), later(2));
    assert_eq!(server.stop(), Some(0));
    let store = rusqlite::Connection::open(data.path().join("host.db")).unwrap();
    let sql = "INSERT INTO limits VALUES (7, '{}', 0, NULL); \
               UPDATE jobs SET body = x'02ff' WHERE seq = (SELECT min(seq) FROM jobs)";
    store.execute_batch(sql).unwrap();
    drop(store);
    let why = message(&serve_damaged(data.path()));
    for word in ["limit 7 cannot be read", "--set-aside-unreadable"] {
        assert!(why.contains(word), "{word} is not in: {why}");
    }
    finds(data.path(), "limit 7");
    let mut options = Options::new(data.path());
    options.args = vec!["--set-aside-unreadable".to_owned()];
    let server = Server::start(&options);
    let client = server.client();
    let file = data.path().join("set-aside.jsonl");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let lines = fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines
        .iter()
        .map(|line| (line["kind"].as_str().unwrap(), line["id"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [("job", &*lost), ("params of job", &*lost), ("limit", "7")]
    );
    assert_eq!(lines[1]["row"]["params"], "1", "its params are not lost");
    eventually("the audit has it", Duration::from_secs(30), || {
        let listed = client.get("/api/v1/audit?verb=set-aside").unwrap().body;
        let entries = listed["items"].as_array().unwrap().len();
        (entries == names.len()).then_some(())
    });
    assert_eq!(
        client.get(&format!("/api/v1/jobs/{lost}")).unwrap().status,
        404
    );
    client
        .post("/api/v1/queues/later/resume", &json!({}))
        .unwrap();
    assert_eq!(client.wait(&kept)["state"], "completed");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&options);
    assert_eq!(server.stop(), Some(0), "nothing is left to set aside");
    let after = fs::read_to_string(&file).unwrap();
    assert_eq!(after.lines().count(), lines.len());
}

/// A schedule, a batch and a token that cannot be read harm no others, are named once in the log, and the schedule can be removed
/// while the host runs.
#[test]
fn records_that_cannot_be_read_harm_no_others() {
    let Own { server, data } = compiling();
    let client = server.client();
    for name in ["bad", "good"] {
        let schedule = json!({"when": {"every": "1s"}, "job": {"handler": "noop"}});
        let path = format!("/api/v1/schedules/{name}");
        let answer = client.call("PUT", &path, Some(&schedule)).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let body = json!({"jobs": [{"handler": "noop", "run_at": "2999-01-01T00:00:00Z"}]});
    let batch = client.post("/api/v1/batches", &body).unwrap().body;
    let later = client.enqueue(&json!({"handler": "noop", "run_at": "2999-01-01T00:00:00Z"}));
    assert_eq!(server.stop(), Some(0));
    let store = rusqlite::Connection::open(data.path().join("host.db")).unwrap();
    let sql = format!(
        "UPDATE schedules SET body = '{{}}' WHERE name = 'bad'; \
         UPDATE batches SET progress = '{{}}', wake_at = 0; \
         UPDATE jobs SET body = x'02ff', wakeup_at = 1 WHERE id = x'{}'",
        later.replace('-', "")
    );
    store.execute_batch(&sql).unwrap();
    drop(store);
    finds(data.path(), "schedule bad");

    let server = Server::start(&Options::new(data.path()));
    let client = server.client();
    let fired = || client.get("/api/v1/schedules/good").unwrap().body["counts"]["fired"].as_u64();
    let before = fired().unwrap();
    eventually("the other schedule fires", Duration::from_mins(1), || {
        fired().filter(|fired| *fired >= before + 2)
    });
    let listed = client.items("/api/v1/schedules");
    let names: Vec<_> = listed.iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(client.items("/api/v1/batches"), [] as [Value; 0]);
    let job = batch["jobs"][0]["id"].as_str().unwrap();
    let cancelled = client.post(&format!("/api/v1/jobs/{job}/cancel"), &json!({}));
    assert_eq!(cancelled.unwrap().status, 200);
    let shown = client.get("/api/v1/schedules/bad").unwrap();
    let detail = shown.body["detail"].as_str().unwrap();
    assert!(detail.contains("schedule bad cannot be read"), "{detail}");
    let removed = client.call("DELETE", "/api/v1/schedules/bad", None);
    assert_eq!(removed.unwrap().status, 200);
    let log = fs::read_to_string(data.path().join("serve.log")).unwrap();
    let due = format!("job {later} cannot be read");
    for name in ["schedule bad cannot be read", "batch 0", &due] {
        let words = format!("flaws: {name}");
        assert_eq!(log.matches(&words).count(), 1, "{name}: {log}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_damaged_store_is_refused_with_the_name_of_its_table() {
    let Own { server, data } = compiling();
    let ids: Vec<_> = (0..200)
        .map(|n| {
            server
                .client()
                .enqueue(&json!({"handler": "echo", "params": {"n": n}}))
        })
        .collect();
    for id in ids {
        server.client().wait(&id);
    }
    assert_eq!(server.stop(), Some(0));
    let store = data.path().join("host.db");
    let log = fs::metadata(data.path().join("host.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "the store was closed");
    let mut bytes = fs::read(&store).unwrap();
    // Page 1 is the header and the list of tables.
    bytes[4096..3 * 4096].fill(0);
    fs::write(&store, bytes).unwrap();
    // The files that a killed host leaves.
    fs::write(data.path().join("host.db-wal"), b"cut off").unwrap();
    let message = message(&serve_damaged(data.path()));
    assert!(message.contains("the table "), "{message}");
    finds(data.path(), "the table ");
}

#[test]
fn a_host_whose_data_directory_was_moved_takes_no_jobs_until_it_is_back() {
    let Own { server, data } = compiling();
    let client = server.client();
    let away = data.path().with_extension("away");
    fs::rename(data.path(), &away).unwrap();
    let refused = client
        .post("/api/v1/jobs", &json!({"handler": "noop"}))
        .unwrap();
    assert_eq!(
        (refused.status, refused.body["code"].as_str()),
        (503, Some("store_moved"))
    );
    let ready = client.get("/readyz").unwrap();
    assert_eq!(
        (ready.status, ready.body["code"].as_str()),
        (503, Some("store_moved"))
    );
    fs::rename(&away, data.path()).unwrap();
    eventually("it takes jobs again", Duration::from_secs(20), || {
        let ready = client.get("/readyz").ok()?;
        (ready.status == 200).then_some(())
    });
    assert_first_attempt_completes(&client);
}

/// Both read the same log: the starting host and the check.
#[test]
fn a_changed_bit_in_the_log_of_a_killed_host_is_named() {
    let Own { server, data } = compiling();
    for n in 0..20 {
        let id = server
            .client()
            .enqueue(&json!({"handler": "echo", "params": {"n": n}}));
        server.client().wait(&id);
    }
    server.kill();
    let log = data.path().join("host.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[32 + 24 + 1_000] ^= 1;
    fs::write(&log, bytes).unwrap();
    let message = message(&serve_damaged(data.path()));
    assert!(
        message.contains("host.db-wal") && message.contains("frame 1 "),
        "{message}"
    );
    finds(data.path(), "host.db-wal");
}

/// A small disk. Mounting one needs root.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=200m", "tmpfs"]);
        let mounted = mount.arg(dir.path()).output();
        mounted
            .is_ok_and(|it| it.status.success())
            .then_some(Self(dir))
    }

    /// Fills it, and returns the file that does.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("fill");
        let mut file = fs::File::create(&path).unwrap();
        for bytes in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; bytes]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

#[test]
fn a_host_that_starts_on_a_full_disk_waits_for_room() {
    let Some(disk) = Disk::mount() else {
        eprintln!("mounting a disk needs root; skipped");
        return;
    };
    let data = disk.0.path().join("data");
    let server = Server::start(&Options::new(&data));
    drop(server);
    // A running host has used it.
    fs::remove_file(data.join("host.db-reserve")).unwrap();
    let fill = disk.fill();
    let mut host = Command::new(host_tests::server::host())
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(host.stderr.take().unwrap()).lines();
    let said = log.find(|line| line.as_ref().unwrap().contains("is full"));
    fs::remove_file(fill).unwrap();
    let mut ready = String::new();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(said.is_some(), "it says what it waits for");
    assert!(ready.starts_with("ready"), "{ready}");
}
